//! Where a server keeps what it needs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::git::Repo;

/// The directory git-dibs keeps inside a repository.
pub fn dibs_dir(repo: &Repo) -> PathBuf {
    repo.common_dir.join("dibs")
}

/// For commands that work on a server's files and need no server.
#[derive(clap::Args)]
pub struct DataDir {
    /// The server's directory, where that is not in this repository
    #[arg(long, value_name = "DIR", global = true, env = "DIBS_DATA")]
    data: Option<PathBuf>,
}

impl DataDir {
    /// As given, or that of the repository around here.
    pub fn find(self) -> Result<PathBuf> {
        match self.data {
            Some(dir) => Ok(dir),
            None => {
                let repo = Repo::from_environment().context("no repository here; go into one, or say --data DIR")?;
                Ok(dibs_dir(&repo))
            }
        }
    }
}

/// Where the journal is, in a server's directory.
pub fn journal(dir: &Path) -> PathBuf {
    dir.join("journal.db")
}

/// Where the ledger is, in a server's directory.
pub fn ledger(dir: &Path) -> PathBuf {
    dir.join("ledger.git")
}

/// Where the secret is that signs and verifies tokens.
pub fn secret(dir: &Path) -> PathBuf {
    dir.join("secret")
}

/// Where a server listens for this machine's own programs.
pub fn socket(dir: &Path) -> PathBuf {
    dir.join("dibs.sock")
}

/// Makes a directory nobody else can look into.
pub fn make_private(dir: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.with_context(|| format!("cannot make the directory {}", dir.display()))
}

/// Writes a small file nobody else can read, whole or not at all.
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
