//! Rebuilding state from a journal: the newest snapshot, then every record after it.
//!
//! This is the only place that turns an [`Image`] into the bytes of a snapshot and back. What images and records mean is
//! up to the [`Replay`] that receives them.

use super::{JournalError, LoadCallback, LoadItem};
use crate::engine::{Image, Record, Seq};

/// State that can be rebuilt from a journal.
pub trait Replay {
    /// Replaces the state with the state in a snapshot.
    fn restore(&mut self, image: Image);

    /// Adds the next record.
    fn apply(&mut self, record: &Record);
}

/// Which part of the journal a replay covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayRange {
    /// The last record that the snapshot contains; zero where there is no snapshot.
    pub snapshot: Seq,
    /// The last record of the replay.
    pub head: Seq,
}

/// Rebuilds `state` from what `load` reads, which is [`Journal::load`](super::Journal::load) or
/// [`JournalReader::load`](super::JournalReader::load).
pub fn replay(
    load: impl FnOnce(LoadCallback<'_>) -> Result<Seq, JournalError>,
    state: &mut impl Replay,
) -> Result<ReplayRange, JournalError> {
    let mut snapshot = Seq::ZERO;
    let head = load(&mut |loaded| {
        match loaded {
            LoadItem::Snapshot { at, state: bytes } => {
                let image = decode_image(at, &bytes)?;
                drop(bytes);
                state.restore(image);
                snapshot = at;
            }
            LoadItem::Record(record) => state.apply(&record),
        }
        Ok(())
    })?;
    Ok(ReplayRange { snapshot, head })
}

/// The bytes that a snapshot stores for an image.
pub fn encode_image(image: &Image) -> Vec<u8> {
    serde_json::to_vec(image).expect("an image is plain data")
}

fn decode_image(at: Seq, bytes: &[u8]) -> Result<Image, JournalError> {
    serde_json::from_slice(bytes)
        .map_err(|error| JournalError::Unreadable { what: format!("the snapshot at {at}"), why: error.to_string() })
}
