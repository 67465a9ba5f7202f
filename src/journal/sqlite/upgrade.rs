//! Keeps a copy of a journal before its format is changed, because an earlier version can read only the copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::{self, FORMAT, beside};
use crate::journal::{JournalError, db};

/// Copies a journal of an earlier format beside itself. The copy replaces one of the same format from an earlier upgrade. If
/// there is no room for it, nothing is changed. Only for the owner of the lock.
pub(super) fn keep_copy(path: &Path) -> Result<(), JournalError> {
    let format = file::format(path)?;
    if format >= FORMAT {
        return Ok(());
    }
    let (copy, new) = (copy_of(path, format), beside(&copy_of(path, format), ".new"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(JournalError::from_io("remove", &new, error));
        }
        _ => {}
    }
    let keep = || {
        db::backup(path, &new)?;
        let named = fs::rename(&new, &copy).and_then(|()| file::sync_directory(&copy));
        named.map_err(|error| JournalError::from_io("write", &copy, error))
    };
    keep().map_err(|error| JournalError::NoCopy { path: path.to_owned(), format, source: Box::new(error) })?;
    tracing::warn!(
        journal = %path.display(),
        copy = %copy.display(),
        "the journal has format {format} and is continued in format {FORMAT}, which earlier versions cannot read; \
         the copy is the journal as it was"
    );
    Ok(())
}

/// Where the copy of a journal is kept.
pub(super) fn copy_of(path: &Path, format: i64) -> PathBuf {
    beside(path, &format!(".format-{format}"))
}
