//! What commands are decided with, and what comes of them besides their results.

use std::collections::BTreeSet;

use super::command::{Outcome, Refusal};
use super::ids::{Timestamp, WaiterId};
use super::record::Record;
use crate::key::Key;

/// The context of commands that are decided at the same moment.
///
/// The caller sets the time, and takes the records and the settled waits out. A turn can be used again.
#[derive(Default)]
pub struct Turn {
    pub now: Timestamp,
    /// What changed, numbered and already applied. It counts once it is durable.
    pub records: Vec<Record>,
    /// Waits that ended, and how.
    pub settled: Vec<(WaiterId, Result<Outcome, Refusal>)>,
    /// Keys that the current command freed: waits for them may be granted. Empty between commands.
    pub(super) freed: Vec<Key>,
    /// Waits that may be free to go, besides those for freed keys. Empty between commands.
    pub(super) look_again: BTreeSet<WaiterId>,
    /// Waits for a key that their own session lost in the current command, or holds only shared since. Empty between
    /// commands.
    pub(super) weakened: BTreeSet<WaiterId>,
}

impl Turn {
    pub fn at(now: Timestamp) -> Turn {
        Turn { now, ..Turn::default() }
    }
}
