//! Begins a new generation of a journal whose newest records are lost, so that no number is used twice.

use super::{Journal, JournalError};
use crate::engine::{Record, Seq, Timestamp};

/// Appends the record that begins a new generation. `used` is the largest number that is known to have been given out, and
/// `now` the time of the record, unless the last one is later. Returns the number of the new record.
pub fn begin_generation(journal: &mut dyn Journal, used: Seq, now: Timestamp) -> Result<Seq, JournalError> {
    let mut reader = journal.reader()?;
    let head = reader.head()?;
    let last = reader.read(Seq(head.0.saturating_sub(1)), 1)?.records.pop();
    let at = last.map_or(now, |last| last.at.max(now));
    let record = Record::restored(head, used, at).ok_or(JournalError::LastGeneration)?;
    let seq = record.seq;
    journal.append(head, &[record])?;
    Ok(seq)
}
