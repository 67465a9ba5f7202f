//! What the server tells the session while a hook asks it something else, as lines for stderr.
//!
//! The server sends most notices only once: a hook that swallowed one would let a reservation expire without a word.

use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::client::Inbox;
use crate::git::Repo;
use crate::local::{Cwd, ServerAccess, notices};
use crate::wire::Notice;

/// The notices for the session of a hook.
pub struct ReceivedNotices {
    inbox: Inbox,
    session: String,
    common_dir: PathBuf,
}

impl ReceivedNotices {
    /// Those that calls to this server will bring; none without a session.
    pub fn of(repo: &Repo, access: &ServerAccess) -> Option<ReceivedNotices> {
        let session = access.session.clone()?;
        Some(ReceivedNotices { inbox: access.inbox.clone(), session, common_dir: repo.common_dir.clone() })
    }

    /// Shows what has arrived. A pause is left to the verdict, which explains it.
    pub fn show(&self, out: &mut dyn Write) {
        let mut received = self.inbox.take();
        received.retain(|notice| !matches!(notice, Notice::Paused { .. }));
        let new = notices::not_shown_lately(&self.common_dir, &self.session, received, SystemTime::now());
        for sentence in new.iter().filter_map(|notice| notices::sentence(notice, &Cwd::default())) {
            super::show(out, &format!("git-dibs: {sentence}\n"));
        }
    }
}
