//! The journal's file: a backup, a complete check, a smaller file.

use std::path::Path;

use anyhow::{Context, Result};

use crate::engine::Seq;
use crate::journal::db;

pub use crate::journal::db::{check, compact};

/// Copies the journal at `path` to the new file `to`, then reads the copy. Returns the number of its last record.
pub fn backup(path: &Path, to: &Path) -> Result<Seq> {
    db::backup(path, to)?;
    let copy = db::check(to).context("the copy is damaged; delete it and make another one")?;
    Ok(copy.head)
}
