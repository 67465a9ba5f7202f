//! HistoryReader in git that people can read: who held what, when and why, and who holds it now.
//!
//! A thread follows the journal and renders it into a bare repository of the ledger's own, one commit for all that
//! happened since the last look. The tree shows what is held, at the paths where it is held; the message lists the
//! events; `.dibs/events` in the tree keeps them whole. Nothing here decides anything, and nobody waits for it: the
//! journal is the truth, and whatever becomes of the ledger, it is caught up or made anew from there.
//!
//! Start at [`Ledger::start`]. `writer` turns records into commits, with `live` (what is held), `shelf` (where that lies
//! in the tree), `tree` and `pack` (git's objects), `message` and `store` (the directory); `read` and what follows it are
//! for looking back.

mod deflate;
mod error;
mod history;
mod holdings;
mod message;
mod pack;
mod reader;
mod recover;
mod repack;
mod retain;
mod status;
mod store;
mod thread;
mod tree;
mod tree_path;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use error::LedgerError;
pub use history::{Cursor, EventPage, HistoryReader, Query};
pub use holdings::{Holding, Holdings, Stamp};
pub use message::{LedgerEvent, Trailers};
pub use reader::{LedgerReader, path_in_tree};
pub use repack::{git, repack};
pub use retain::RetainingJournal;
pub use status::{Lag, LedgerStatus};
pub use store::{BRANCH, Commit, SHARED, create};
pub use thread::Ledger;
pub use tree_path::OWN;
pub use verify::{VerifyReport, verify};
pub use writer::{FlushReport, Writer};
