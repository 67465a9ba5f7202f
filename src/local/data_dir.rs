//! The directory a server keeps its files in, and the names of those files.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::git::Repo;

/// The directory git-dibs keeps inside a repository.
pub fn dibs_dir(repo: &Repo) -> PathBuf {
    repo.common_dir.join("dibs")
}

/// Where the journal is, in a server's directory.
pub fn journal(dir: &Path) -> PathBuf {
    dir.join("journal.db")
}

/// Where the ledger is, in a server's directory.
pub fn ledger(dir: &Path) -> PathBuf {
    dir.join("ledger.git")
}

/// Where the counts of refused and waiting requests are, in a server's directory.
pub fn contention(dir: &Path) -> PathBuf {
    dir.join("contention.json")
}

/// Where the logins are that were ended before they expired, in a server's directory.
pub fn ended_logins(dir: &Path) -> PathBuf {
    dir.join("ended-logins.json")
}

/// Where the secret is that signs and verifies tokens.
pub fn secret(dir: &Path) -> PathBuf {
    dir.join("secret")
}

/// Where a server in the background logs.
pub fn log(dir: &Path) -> PathBuf {
    dir.join("server.log")
}

/// Where a running server tells about itself.
pub fn server_record(dir: &Path) -> PathBuf {
    dir.join("server.json")
}

/// The names of the repositories whose journals are in a server's directory; empty if it has the journal of only one.
pub fn repositories(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let with_journal = entries.filter(|entry| journal(&entry.path()).exists());
    let mut names: Vec<String> = with_journal.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Where a server listens for this machine's own programs.
pub fn socket(dir: &Path) -> PathBuf {
    dir.join("dibs.sock")
}

/// Creates a directory that only its owner can open.
pub fn make_private(dir: &Path) -> Result<()> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.with_context(|| format!("cannot create the directory {}", dir.display()))
}

/// Whether a file belongs to the user who runs this process.
pub fn is_own(file: &fs::Metadata) -> bool {
    // SAFETY: geteuid has no arguments and always succeeds.
    file.uid() == unsafe { libc::geteuid() }
}

/// Writes a small file that only its owner can read. The file is replaced as a whole: readers see the old or the new text.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
