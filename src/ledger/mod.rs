//! History in git that people can read: which session held what, when and why, and what is held now.
//!
//! A thread reads the journal and renders it into a bare repository of its own, one commit for everything since the last
//! look. The tree has a blob for each held key, at the key's path; the message lists the events; `.dibs/events` in the
//! tree has them in full. There are no rules here, and no request waits for the ledger: the journal is the source of
//! truth, and a damaged or deleted ledger is caught up or rebuilt from there.
//!
//! Start at [`Ledger::start`]; `thread` is the loop. `writer` turns records into commits, and `recover` finds out where an
//! existing ledger ends. They use `holdings` (what is held), `tree_path` (where that is in the tree), `tree` and `pack`
//! (git objects), `message` (commit messages) and `store` (the directory). `pack_check` finds damage. `reader`, `history` and `verify` read a ledger
//! back. `retain` keeps records in the journal until they are in the ledger.

mod deflate;
mod error;
mod history;
mod holdings;
mod message;
mod pack;
mod pack_check;
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

pub use error::{LedgerError, LedgerProblem};
pub use history::{Cursor, EventPage, HistoryReader, Query};
pub use holdings::{Holding, Holdings, Stamp};
pub use message::{LedgerEvent, Trailers};
pub use reader::{LedgerReader, end, path_in_tree};
pub use repack::{git, repack};
pub use retain::RetainingJournal;
pub use status::{Lag, LedgerStatus};
pub use store::{BRANCH, Commit, SHARED, create};
pub use thread::Ledger;
pub use tree_path::OWN;
pub use verify::{VerifyReport, verify};
pub use writer::{FlushReport, Writer};
