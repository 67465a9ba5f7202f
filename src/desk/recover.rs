//! Rebuilding the engine from the journal: at start, and on another thread for a snapshot.

use super::Clock;
use crate::engine::{Engine, Image, Policy, Record, ReservationImage, Seq, Timestamp};
use crate::journal::{Journal, JournalError, JournalReader, Replay, replay};

impl Replay for Engine {
    fn restore(
        &mut self,
        image: Image,
        reservations: &mut dyn Iterator<Item = ReservationImage>,
        expected_count: usize,
    ) {
        *self = Engine::restore_parts(self.policy().clone(), image, reservations, expected_count);
    }

    fn apply(&mut self, record: &Record) {
        Engine::apply(self, record);
    }
}

/// The engine as the journal has it, and the last record that the journal's snapshot contains. The clock never shows a
/// time before the last record.
pub(super) fn recover(
    journal: &mut dyn Journal,
    policy: Policy,
    clock: &mut dyn Clock,
) -> Result<(Engine, Seq), JournalError> {
    let mut state = RecoveredState { engine: Engine::new(policy), last_record: None };
    let range = replay(|on| journal.load(on), &mut state)?;
    let last_record = match state.last_record {
        // An image does not store a time. A snapshot keeps the records just before it, and the last of them has the time.
        None if range.head > Seq::ZERO => {
            let page = journal.reader()?.read(Seq(range.head.0 - 1), 1)?;
            page.records.first().map(|record| record.at)
        }
        last_record => last_record,
    };
    if let Some(at) = last_record {
        clock.not_before(at);
    }
    Ok((state.engine, range.snapshot))
}

/// The engine as it was after the record `up_to`, and the last record that it contains.
pub(super) fn rebuild(
    reader: &mut dyn JournalReader,
    up_to: Seq,
    policy: Policy,
) -> Result<(Engine, Seq), JournalError> {
    let mut engine = Engine::new(policy);
    let range = replay(|on| reader.load(up_to, on), &mut engine)?;
    Ok((engine, range.head))
}

struct RecoveredState {
    engine: Engine,
    /// The time of the last record of the replay.
    last_record: Option<Timestamp>,
}

impl Replay for RecoveredState {
    fn restore(
        &mut self,
        image: Image,
        reservations: &mut dyn Iterator<Item = ReservationImage>,
        expected_count: usize,
    ) {
        Replay::restore(&mut self.engine, image, reservations, expected_count);
    }

    fn apply(&mut self, record: &Record) {
        self.last_record = Some(record.at);
        self.engine.apply(record);
    }
}
