//! One repository, one server, whatever `--data` says: the server locks the git directory that all worktrees share.
//!
//! Nothing is written: the lock is on the directory itself, so it stays in force when files in it are deleted, and ends
//! with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::git::Repo;
use crate::journal::lock_soon;
use crate::local::data_dir::{dibs_dir, make_private};
use crate::local::server_lock::lock_file;
use crate::local::{SERVER_FILE, ServerRecord, nothing_held};

pub struct RepositoryLock {
    _locked: File,
}

impl RepositoryLock {
    /// Locks the repository, or says which server has it.
    pub fn take(repo: &Repo) -> Result<RepositoryLock> {
        let common_dir = &repo.common_dir;
        let failed = || format!("cannot lock the repository {}", common_dir.display());
        let mut locked = File::open(common_dir).with_context(failed)?;
        let mut result = lock_soon(&locked);
        if matches!(&result, Err(TryLockError::Error(_))) {
            // Network file systems lock only what is open for writing, and no directory can be.
            make_private(&dibs_dir(repo))?;
            let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).to_owned();
            locked = options.open(lock_file(&dibs_dir(repo))).with_context(failed)?;
            result = lock_soon(&locked);
        }
        match result {
            Ok(()) => {
                // Left over from a server that was killed. A second server must not name it as the owner.
                let _ = std::fs::remove_file(common_dir.join(SERVER_FILE));
                // From now on something may be held.
                nothing_held::take_back(&dibs_dir(repo))?;
                Ok(RepositoryLock { _locked: locked })
            }
            Err(TryLockError::WouldBlock) => bail!(
                "the repository {} is already served{}; one server is enough for all its worktrees; to stop it: git dibs stop",
                common_dir.display(),
                owner(common_dir, &locked)
            ),
            Err(TryLockError::Error(error)) => Err(error).with_context(failed),
        }
    }
}

/// Where the owner listens and its process id, as far as they are known.
fn owner(common_dir: &Path, locked: &File) -> String {
    let record = ServerRecord::read(&common_dir.join(SERVER_FILE));
    let socket = |record: &ServerRecord| record.socket.as_ref().map(|path| format!("unix:{}", path.display()));
    let address = record.as_ref().and_then(|record| record.url.clone().or_else(|| socket(record)));
    let at = address.map_or_else(String::new, |address| format!(" at {address}"));
    let pid = record.map(|record| record.pid).or_else(|| locking_process(locked));
    at + &pid.map_or_else(String::new, |pid| format!(", process {pid}"))
}

/// The process that has the lock, as Linux lists it. The files that name it may have been deleted.
fn locking_process(locked: &File) -> Option<u32> {
    let about = locked.metadata().ok()?;
    let list = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`
    let inode = format!(":{}", about.ino());
    let mut found = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    found.find_map(|words| match words.as_slice() {
        [_, "FLOCK", _, _, pid, file, ..] if file.ends_with(&inode) => pid.parse().ok(),
        _ => None,
    })
}
