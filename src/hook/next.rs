//! The hook that was there before ours was installed: `<hook>.dibs-next` beside our shim.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Call;
use super::install::lfs as lfs_settings;
use super::once::Source;
use crate::git::Repo;

/// Runs it as git would, with the same stdin. `None` if there is no such hook.
///
/// The number is its exit code. A hook that cannot be started has failed, as it would have for git.
pub fn run(file: &Path, args: &[OsString], stdin: Option<&[u8]>, out: &mut dyn Write) -> Option<i32> {
    if !is_there(file) {
        return None;
    }
    Some(start(Command::new(absolute(file)).args(args), &format!("the hook {}", file.display()), stdin, out))
}

/// Whether there is a hook. Git too skips one that is not executable.
pub fn is_there(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Uploads what Git LFS keeps outside of git, as its own `pre-push` hook does. `None` if this repository does not use it,
/// or if it can have a hook of its own.
pub fn run_lfs(call: &Call, stdin: &[u8], out: &mut dyn Write) -> Option<i32> {
    // The shim file, in the place where LFS would have its own. A hook in the configuration leaves that place free.
    call.next.as_ref().filter(|next| Source::of(Some(next)) == Source::File)?;
    let repo = Repo::from_environment().ok()?;
    let is_used = repo.common_dir.join("lfs").is_dir() || lfs_settings::is_installed(&repo);
    if !is_used || !is_on_path("git-lfs") {
        return None;
    }
    Some(start(Command::new("git").args(["lfs", "pre-push"]).args(&call.args), "git lfs pre-push", Some(stdin), out))
}

pub fn is_on_path(program: &str) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&search).any(|dir| is_there(&dir.join(program)))
}

/// Runs a command with this stdin, and returns its exit code.
fn start(command: &mut Command, name: &str, stdin: Option<&[u8]>, out: &mut dyn Write) -> i32 {
    let pipe = if stdin.is_some() { Stdio::piped() } else { Stdio::inherit() };
    let mut child = match command.stdin(pipe).spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = writeln!(out, "git-dibs: {name} could not be started: {error}.");
            return 1;
        }
    };
    if let (Some(bytes), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // A hook that does not read its stdin breaks the pipe, which is no error.
        let _ = pipe.write_all(bytes);
    }
    child.wait().ok().and_then(|status| status.code()).unwrap_or(1)
}

/// A name without a slash would be looked up on PATH.
fn absolute(file: &Path) -> std::path::PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}
