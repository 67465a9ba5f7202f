//! The lock that a server has on its repository, as others see it: whether a server runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// The file that is locked where directories cannot be, in the `dibs` directory.
const LOCK_FILE: &str = "server.lock";

/// Where a server's lock is if the directory itself cannot be locked.
pub fn lock_file(dibs_dir: &Path) -> PathBuf {
    dibs_dir.join(LOCK_FILE)
}

/// Whether a server runs for the repository; none if the file system does not tell.
pub fn is_served(common_dir: &Path) -> Option<bool> {
    let is_locked = |file: File| match file.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    };
    let of_directory = File::open(common_dir).ok().and_then(is_locked);
    // Network file systems lock only what is open for writing.
    let in_its_place = || OpenOptions::new().write(true).open(lock_file(&common_dir.join("dibs"))).ok();
    of_directory.or_else(|| in_its_place().and_then(is_locked))
}
