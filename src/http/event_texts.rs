//! The text of the latest events, made once for all streams that follow them.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use serde::Serialize;

use super::event_json::event_json;
use crate::engine::{Record, Seq};

/// The batches whose text is kept, and the bytes of their texts: as much as the feed buffers. A stream that is further behind
/// makes its own text.
const BATCHES_MAX: usize = 16_384;
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// See the module.
#[derive(Default)]
pub struct EventTexts(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    /// By the first record of the batch.
    batches: HashMap<Seq, Arc<BatchText>>,
    /// In the order in which they were made.
    order: VecDeque<Seq>,
    bytes: usize,
}

/// A batch of records as server-sent events.
pub struct BatchText {
    text: Vec<u8>,
    /// Where the text of each record ends.
    ends: Vec<usize>,
}

impl BatchText {
    fn of(records: &[Record]) -> BatchText {
        BatchText::of_first(records, usize::MAX)
    }

    /// The text of the first records, as many as give this number of bytes.
    pub fn of_first(records: &[Record], bytes: usize) -> BatchText {
        let (mut text, mut ends) = (Vec::new(), Vec::with_capacity(records.len()));
        for record in records {
            if text.len() >= bytes {
                break;
            }
            write_record(&mut text, record);
            ends.push(text.len());
        }
        BatchText { text, ends }
    }

    /// The text of one record of the batch, if it was made.
    pub fn of_record(&self, position: usize) -> Option<&[u8]> {
        let start = position.checked_sub(1).map_or(0, |before| self.ends.get(before).copied().unwrap_or_default());
        self.ends.get(position).map(|end| &self.text[start..*end])
    }
}

impl EventTexts {
    /// The text of a batch of the feed. Streams that ask at the same time wait for the first of them.
    pub fn of_batch(&self, records: &[Record]) -> Arc<BatchText> {
        let Some(first) = records.first().map(|record| record.seq) else { return Arc::new(BatchText::of(records)) };
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = recent.batches.get(&first) {
            return text.clone();
        }
        let text = Arc::new(BatchText::of(records));
        recent.bytes += text.text.len();
        recent.batches.insert(first, text.clone());
        recent.order.push_back(first);
        while recent.batches.len() > BATCHES_MAX || recent.bytes > BYTES_MAX {
            let Some(oldest) = recent.order.pop_front() else { break };
            recent.bytes -= recent.batches.remove(&oldest).map_or(0, |text| text.text.len());
        }
        text
    }
}

/// Writes a record as a server-sent event.
pub fn write_record(text: &mut Vec<u8>, record: &Record) {
    let event = event_json(record, None);
    write_event(text, Some(record.seq), event.kind.verb(), &event);
}

/// Writes a server-sent event.
pub fn write_event(text: &mut Vec<u8>, id: Option<Seq>, name: &str, data: &impl Serialize) {
    if let Some(id) = id {
        writeln!(text, "id: {}", id.0).expect("a Vec accepts every write");
    }
    write!(text, "event: {name}\ndata: ").expect("a Vec accepts every write");
    // serde_json writes no line breaks, and escapes those in names.
    serde_json::to_writer(&mut *text, data).expect("events are plain data");
    text.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EndState, Event, SessionId, Timestamp};

    fn batch(first: u64, count: u64) -> Vec<Record> {
        let event = Event::Ended { session: SessionId::parse("ana").unwrap(), state: EndState::Completed };
        (first..first + count).map(|n| Record { seq: Seq(n), at: Timestamp(0), event: event.clone() }).collect()
    }

    #[test]
    fn a_batch_is_written_once_and_each_record_can_be_taken_out_of_it() {
        let texts = EventTexts::default();
        let records = batch(5, 3);
        let text = texts.of_batch(&records);
        assert!(Arc::ptr_eq(&text, &texts.of_batch(&records)), "the same text again");
        for (position, record) in records.iter().enumerate() {
            let mut alone = Vec::new();
            write_record(&mut alone, record);
            assert_eq!(text.of_record(position), Some(&*alone));
            assert!(alone.starts_with(format!("id: {}\nevent: ended\ndata: {{", 5 + position).as_bytes()));
        }
    }

    #[test]
    fn only_the_latest_batches_are_kept() {
        let texts = EventTexts::default();
        (0..3 * BATCHES_MAX as u64).for_each(|n| drop(texts.of_batch(&batch(1 + 2 * n, 2))));
        let recent = texts.0.lock().unwrap();
        assert_eq!((recent.batches.len(), recent.order.len()), (BATCHES_MAX, BATCHES_MAX));
        assert_eq!(recent.bytes, recent.batches.values().map(|text| text.text.len()).sum::<usize>());
    }
}
