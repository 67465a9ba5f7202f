//! The counts of refused and waiting requests, kept over a restart.
//!
//! They are no records: a server that is killed loses the last minute of them. A file that cannot be read or written costs
//! only the counts, so it is reported and nothing more.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::desk::Desk;
use crate::local::data_dir;

/// How often the counts are saved, if they changed.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// The largest file that is read, in bytes. The counts themselves are bounded far below it.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The file of one repository.
#[derive(Clone)]
pub struct ContentionFile {
    path: PathBuf,
    desk: Desk,
}

impl ContentionFile {
    /// Continues with the counts in the file, if there is one.
    pub fn open(dir: &Path, desk: Desk) -> ContentionFile {
        let path = data_dir::contention(dir);
        let is_small = |about: fs::Metadata| about.is_file() && about.len() <= FILE_BYTES_MAX;
        match fs::metadata(&path).map(is_small).and_then(|small| if small { fs::read(&path) } else { Ok(Vec::new()) }) {
            Ok(text) => desk.contention().restore(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, path = %path.display(), "cannot read the counts of refused requests"),
        }
        ContentionFile { path, desk }
    }

    /// Writes the counts, if they changed since the last time.
    pub fn save(&self) {
        let Some(text) = self.desk.contention().save() else { return };
        if let Err(error) = data_dir::write_private(&self.path, &text) {
            tracing::warn!(%error, path = %self.path.display(), "cannot save the counts of refused requests");
        }
    }
}

/// Saves the counts of every repository each minute.
pub async fn save_regularly(files: Vec<ContentionFile>) {
    loop {
        tokio::time::sleep(SAVE_EVERY).await;
        let files = files.clone();
        let _ = tokio::task::spawn_blocking(move || files.iter().for_each(ContentionFile::save)).await;
    }
}
