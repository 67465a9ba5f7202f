//! The browsers that have signed out, kept over a restart.
//!
//! Without the file a copy of a cookie would be accepted again after a restart, until it expires. A file that cannot be read
//! or written is reported, and the server goes on: signing out still works until the server ends.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::http::App;
use crate::local::data_dir;

/// The largest file that is read, in bytes. The notes themselves are bounded far below it.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Continues with the notes in the server's directory, and keeps later ones there.
pub fn keep(app: &App, home: &Path) {
    let path = data_dir::ended_logins(home);
    let is_small = |about: fs::Metadata| about.is_file() && about.len() <= FILE_BYTES_MAX;
    let read = || if fs::metadata(&path).map(is_small)? { fs::read(&path) } else { Ok(Vec::new()) };
    let saved = read().unwrap_or_else(|error| {
        if error.kind() != ErrorKind::NotFound {
            tracing::warn!(%error, path = %path.display(), "cannot read which browsers have signed out");
        }
        Vec::new()
    });
    let save = move |text: &[u8]| {
        if let Err(error) = data_dir::write_private(&path, text) {
            tracing::warn!(%error, path = %path.display(), "cannot save which browsers have signed out");
        }
    };
    app.keep_ended_logins(&saved, Box::new(save));
}
