//! The text of events, made once for all streams that follow them: of the latest ones, and of pages of the journal for streams
//! that are behind. Many streams that have equal shares of the time are behind by about as much.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use serde::Serialize;

use super::event_json::event_json;
use crate::desk::FeedPage;
use crate::engine::{Record, Seq};

/// The batches whose text is kept, and the bytes of their texts: as much as the feed buffers. A stream that is further behind
/// makes its own text.
const BATCHES_MAX: usize = 16_384;
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A page of the journal has so many records, and begins after a multiple of this number. So streams that are a little apart
/// share it.
const PAGE_RECORDS: u64 = 512;

/// The pages that are kept, and the most bytes of text that are made for one of them.
const PAGES_MAX: usize = 8;
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// See the module.
#[derive(Default)]
pub struct EventTexts {
    recent: Mutex<Recent>,
    pages: Mutex<Pages>,
}

/// Pages of the journal and the records before them, in the order in which they were read.
type Pages = VecDeque<(Seq, Arc<TextPage>)>;

/// Records with their text.
pub struct TextPage {
    pub records: Vec<Record>,
    pub texts: BatchText,
}

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
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// A page of the journal with the record after this one, and its text; none if a part of it was dropped, if it is not full
    /// yet, or has too much text. `read` gives the records after another one. Streams that ask at the same time wait for the
    /// first of them.
    pub fn journal_page<E>(
        &self,
        after: Seq,
        read: impl FnOnce(Seq) -> Result<FeedPage, E>,
    ) -> Result<Option<Arc<TextPage>>, E> {
        let before = Seq(after.0 - after.0 % PAGE_RECORDS);
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, page)) = pages.iter().find(|(known, _)| *known == before) {
            return Ok(Some(page.clone()));
        }
        let FeedPage::Records(records) = read(before)? else { return Ok(None) };
        let is_whole = records.len() as u64 == PAGE_RECORDS
            && records.first().is_some_and(|first| first.seq == before.next())
            && records.last().is_some_and(|last| last.seq.0 == before.0 + PAGE_RECORDS);
        if !is_whole {
            return Ok(None);
        }
        let texts = BatchText::of_first(&records, PAGE_BYTES_MAX);
        if texts.ends.len() < records.len() {
            return Ok(None);
        }
        let page = Arc::new(TextPage { records, texts });
        if pages.len() == PAGES_MAX {
            pages.pop_front();
        }
        pages.push_back((before, page.clone()));
        Ok(Some(page))
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
    fn a_page_of_the_journal_is_read_once_for_streams_that_are_a_little_apart() {
        let texts = EventTexts::default();
        let page = |after| {
            let read = |before: Seq| Ok::<_, ()>(FeedPage::Records(batch(before.0 + 1, PAGE_RECORDS)));
            texts.journal_page(Seq(after), read).unwrap().expect("it is whole")
        };
        let first = page(PAGE_RECORDS);
        assert_eq!((first.records[0].seq, first.records.len() as u64), (Seq(PAGE_RECORDS + 1), PAGE_RECORDS));
        assert!(first.texts.of_record(first.records.len() - 1).is_some());
        let again =
            |after| texts.journal_page::<()>(Seq(after), |_| panic!("it is known")).unwrap().expect("it is known");
        assert!(Arc::ptr_eq(&first, &again(2 * PAGE_RECORDS - 1)));
        (0..PAGES_MAX as u64).for_each(|n| assert_eq!(page(PAGE_RECORDS * (n + 2)).records[0].seq.0 % PAGE_RECORDS, 1));
        assert_eq!(texts.pages.lock().unwrap().len(), PAGES_MAX);
        assert!(!Arc::ptr_eq(&first, &page(PAGE_RECORDS)), "the oldest page was dropped");
    }

    #[test]
    fn a_page_that_is_not_whole_is_not_shared() {
        let texts = EventTexts::default();
        let page =
            |records: Vec<Record>| texts.journal_page::<()>(Seq(700), |_| Ok(FeedPage::Records(records))).unwrap();
        assert!(page(batch(513, PAGE_RECORDS - 1)).is_none(), "more records will follow");
        assert!(page(batch(514, PAGE_RECORDS)).is_none(), "the first one was dropped");
        assert!(page(Vec::new()).is_none());
        assert!(texts.journal_page::<()>(Seq(700), |_| Ok(FeedPage::Dropped)).unwrap().is_none());
        assert!(texts.pages.lock().unwrap().is_empty());
    }

    #[test]
    fn only_the_latest_batches_are_kept() {
        let texts = EventTexts::default();
        (0..3 * BATCHES_MAX as u64).for_each(|n| drop(texts.of_batch(&batch(1 + 2 * n, 2))));
        let recent = texts.recent.lock().unwrap();
        assert_eq!((recent.batches.len(), recent.order.len()), (BATCHES_MAX, BATCHES_MAX));
        assert_eq!(recent.bytes, recent.batches.values().map(|text| text.text.len()).sum::<usize>());
    }
}
