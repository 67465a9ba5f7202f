//! The secret that signs and verifies HS256 tokens. It is created on first use, in a file that only its owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use aws_lc_rs::hmac;

use super::KeyringError;
use crate::text::hex;

/// The shortest secret, in bytes: HS256 is as strong as its 256 bits, and no stronger than its secret.
pub const SECRET_MIN: usize = 32;

/// The longest secret file, in bytes. A longer file is certainly not a secret file.
pub const SECRET_MAX: usize = 4096;

/// Enough that two secrets never share an id.
const SERVER_ID_BYTES: usize = 16;

/// Reads the secret from this file. If the file is missing, creates it with 32 random bytes as 64 hex digits.
///
/// The secret is the text of the file without its line end, so `DIBS_JWT_SECRET="$(cat FILE)"` is the same secret.
/// Two servers that start at the same time get the same secret: one of them creates the file, and both read it.
pub fn secret_file(path: &Path) -> Result<Vec<u8>, KeyringError> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => make(path).map_err(|e| {
            KeyringError(format!(
                "cannot make the secret file {}: {e}; check that its directory exists",
                path.display()
            ))
        })?,
        _ => {}
    }
    read(path)
}

/// Reads the secret from an existing file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, KeyringError> {
    let path_text = path.display();
    let failed =
        |e: io::Error| KeyringError(format!("cannot read the secret file {path_text}: {e}; check its permissions"));
    // Opening a pipe would wait for a writer, so the file type is checked first.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(KeyringError(format!("the secret file {path_text} is not a file; name another one")));
    }
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        let mode = mode & 0o7777;
        return Err(KeyringError(format!(
            "the secret file {path_text} can be read by other users (mode {mode:04o}); run: chmod 600 {path:?}"
        )));
    }
    let mut secret = Vec::new();
    file.take(SECRET_MAX as u64 + 1).read_to_end(&mut secret).map_err(failed)?;
    if secret.len() > SECRET_MAX {
        return Err(KeyringError(format!(
            "the secret file {path_text} is larger than {SECRET_MAX} bytes; name another one"
        )));
    }
    while secret.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        secret.pop();
    }
    check_length(&secret).map_err(|e| KeyringError(format!("the secret file {path_text} is not usable: {e}")))?;
    Ok(secret)
}

/// The id of the servers that have this secret, which their tokens name. It does not reveal the secret.
pub(super) fn server_id(secret: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hex::encode(&hmac::sign(&key, b"git-dibs server id").as_ref()[..SERVER_ID_BYTES])
}

/// Refuses a secret that could be guessed.
pub(super) fn check_length(secret: &[u8]) -> Result<(), KeyringError> {
    if secret.len() < SECRET_MIN {
        return Err(KeyringError(format!(
            "the secret has {} bytes and needs at least {SECRET_MIN}; make one with: openssl rand -hex 32",
            secret.len()
        )));
    }
    Ok(())
}

/// Creates the file with a new secret, unless another process was faster.
fn make(path: &Path) -> io::Result<()> {
    let mut random = [0; 32];
    let mut suffix = [0; 8];
    aws_lc_rs::rand::fill(&mut random).map_err(io::Error::other)?;
    aws_lc_rs::rand::fill(&mut suffix).map_err(io::Error::other)?;

    // A hard link appears with its complete contents or not at all, and never replaces an existing file.
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", hex::encode(&suffix)));
    let draft = Path::new(&draft);
    let linked = write_draft(draft, &random).and_then(|()| fs::hard_link(draft, path));
    let _ = fs::remove_file(draft);
    match linked {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
        Ok(()) => {
            File::open(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
        }
    }
}

fn write_draft(draft: &Path, random: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(format!("{}\n", hex::encode(random)).as_bytes())?;
    file.sync_all()
}
