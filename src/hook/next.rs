//! The hook that was there before ours was installed: `<hook>.dibs-next` beside our shim.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs it as git would, with the same stdin. `None` if there is no such hook.
///
/// The number is its exit code. A hook that cannot be started has failed, as it would have for git.
pub fn run(file: &Path, args: &[OsString], stdin: Option<&[u8]>, out: &mut dyn Write) -> Option<i32> {
    // Git too skips a hook that is not executable.
    let about = std::fs::metadata(file).ok()?;
    if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
        return None;
    }
    let pipe = if stdin.is_some() { Stdio::piped() } else { Stdio::inherit() };
    let mut child = match Command::new(absolute(file)).args(args).stdin(pipe).spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = writeln!(out, "git-dibs: the hook {} could not be started: {error}.", file.display());
            return Some(1);
        }
    };
    if let (Some(bytes), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // A hook that does not read its stdin breaks the pipe, which is no error.
        let _ = pipe.write_all(bytes);
    }
    Some(child.wait().ok().and_then(|status| status.code()).unwrap_or(1))
}

/// A name without a slash would be looked up on PATH.
fn absolute(file: &Path) -> std::path::PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}
