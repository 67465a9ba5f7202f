//! Notices that the server's files were deleted while it runs, for example with `rm -r .git/dibs`.
//!
//! A deleted journal still accepts records, and all of them are lost when the server ends. So the server stops deciding
//! and is not ready any more. The files by which clients find the server are simply written again.
//!
//! A desk that is about to acknowledge something looks for the files of its journal too; see `journal::JournalFiles`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::discovery::DiscoveryFiles;
use crate::http::App;
use crate::journal::JournalFiles;

/// How often the files are looked for.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Watches until a file of a journal is gone. `gone` is notified by a desk that finds it first.
pub async fn watch(journals: Vec<JournalFiles>, gone: Arc<Notify>, discovery: Arc<DiscoveryFiles>, app: Arc<App>) {
    let mut was_missing = false;
    loop {
        // Ends early when it is notified; both mean to look now.
        let _ = tokio::time::timeout(CHECK_INTERVAL, gone.notified()).await;
        if let Some(error) = journals.iter().find_map(|files| files.check().err()) {
            tracing::error!("{error}; until then every request is refused");
            app.set_unready(error.to_string());
            // What is granted from now on could not be kept.
            app.repositories.open().for_each(|repository| repository.desk.stop());
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
