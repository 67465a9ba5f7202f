//! The word that a server leaves when it ends: nothing is held. A check that finds it, and no server, needs none.
//!
//! Only a server grants reservations, and a server that starts takes the word back before it grants anything. So as long
//! as the file is there, nothing is held.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, Result};

use super::data_dir;
use crate::wire::Time;

/// In the `dibs` directory of a repository.
const FILE: &str = "nothing-held";

/// Whether the last server said that nothing is held, and no server has started since.
pub fn is_told(common_dir: &Path) -> bool {
    fs::symlink_metadata(common_dir.join("dibs").join(FILE)).is_ok_and(|found| found.is_file())
}

/// Leaves the word. The caller is a server that has ended every desk and still has the repository's lock.
pub fn tell(dibs_dir: &Path, now: Time) -> Result<()> {
    let text = serde_json::to_string(&now)?;
    data_dir::write_private(&dibs_dir.join(FILE), format!("nothing is held since {text}\n").as_bytes())
}

/// Takes the word back, durably: after a power failure it must not be there again beside a journal with reservations.
pub fn take_back(dibs_dir: &Path) -> Result<()> {
    let file = dibs_dir.join(FILE);
    let remove = || -> io::Result<()> {
        match fs::remove_file(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => File::open(dibs_dir)?.sync_all(),
        }
    };
    remove().with_context(|| format!("cannot remove {}, and checks would trust it", file.display()))
}
