//! Notices that the server's files were deleted while it runs, for example with `rm -r .git/dibs`.
//!
//! A deleted journal still accepts records, and all of them are lost when the server ends. So the server stops deciding
//! and is not ready any more. The files by which clients find the server are simply written again.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::discovery::DiscoveryFiles;
use super::repositories::ServedRepository;
use crate::http::App;
use crate::local::data_dir;

/// How often the files are looked for.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A file as it was when the server started: device and inode.
type Identity = (u64, u64);

pub struct JournalFiles(Vec<(PathBuf, Identity)>);

impl JournalFiles {
    /// The journals that were just opened.
    pub fn of(served: &[ServedRepository]) -> JournalFiles {
        let paths = served.iter().map(|served| data_dir::journal(&served.dir));
        JournalFiles(paths.filter_map(|path| identity(&path).map(|identity| (path, identity))).collect())
    }

    /// The first journal that is not where it was.
    fn first_gone(&self) -> Option<&Path> {
        let gone = self.0.iter().find(|(path, opened)| identity(path) != Some(*opened));
        gone.map(|(path, _)| path.as_path())
    }
}

fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

/// Watches until a journal is gone.
pub async fn watch(journals: JournalFiles, discovery: Arc<DiscoveryFiles>, app: Arc<App>) {
    let mut was_missing = false;
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if let Some(path) = journals.first_gone() {
            let reason = format!(
                "the journal {} was deleted or replaced while the server was running; stop this server and start it again",
                path.display()
            );
            tracing::error!("{reason}; until then every request is refused");
            app.set_unready(reason);
            // What is granted from now on could not be kept.
            app.repositories.values().for_each(|repository| repository.desk.stop());
            return;
        }
        // A server that stops removes the file itself. If writing fails, the log says so once.
        if discovery.is_missing() && !was_missing && !app.is_stopping() {
            tracing::warn!("server.json was deleted while the server was running; it is written again");
            discovery.write_or_warn();
        }
        was_missing = discovery.is_missing();
    }
}
