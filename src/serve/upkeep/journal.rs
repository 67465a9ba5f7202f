//! The journal's file: a backup, a complete check, a smaller file.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::engine::Seq;
use crate::journal::db;

/// Copies the journal at `path` to the new file `to`, then reads the copy. Returns the number of its last record.
pub fn backup(path: &Path, to: &Path) -> Result<Seq> {
    require(path)?;
    if to.symlink_metadata().is_ok() {
        bail!(
            "{} exists already, and a backup never replaces a file; name a new one, or remove it first",
            to.display()
        );
    }
    db::backup(path, to)?;
    let copy = db::check(to).context("the copy is damaged; delete it and make another one")?;
    Ok(copy.head)
}

/// Reads the whole journal at `path`.
pub fn check(path: &Path) -> Result<db::JournalReport> {
    require(path)?;
    Ok(db::check(path)?)
}

/// Makes the file smaller. Returns its size in bytes before and after.
pub fn compact(path: &Path) -> Result<(u64, u64)> {
    require(path)?;
    Ok(db::compact(path)?)
}

fn require(path: &Path) -> Result<()> {
    if !path.try_exists().unwrap_or(true) {
        bail!("there is no journal at {}; go into a repository that is served, or give --data DIR", path.display());
    }
    Ok(())
}
