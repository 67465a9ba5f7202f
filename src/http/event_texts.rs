//! The text of events, made once for all streams that follow them: of the latest ones, and of pages of the journal for streams
//! that are behind. Many streams that have equal shares of the time are behind by about as much.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use serde::Serialize;

use super::event_json::event_json;
use crate::desk::FeedPage;
use crate::engine::{Event, Record, Seq, SessionId};

/// The batches whose text is kept, and the bytes of their texts: as much as the feed buffers.
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

/// Pages of the journal and the records before them, in the order in which they were read; none for a page with too much text.
type Pages = VecDeque<(Seq, Option<Arc<TextPage>>)>;

/// The text of some records, and what a stream must know of them besides. The records themselves may be far larger.
pub struct TextPage {
    pub events: Vec<PageEvent>,
    pub texts: BatchText,
}

/// A record of a page.
pub struct PageEvent {
    pub seq: Seq,
    /// The session that ended with it.
    pub ended: Option<SessionId>,
}

impl TextPage {
    /// The first records, as many as give this number of bytes of text.
    pub fn of_first(records: &[Record], bytes: usize) -> TextPage {
        let texts = BatchText::of_first(records, bytes);
        let events = records[..texts.ends.len()].iter().map(|record| PageEvent {
            seq: record.seq,
            ended: match &record.event {
                Event::Ended { session, .. } => Some(session.clone()),
                _ => None,
            },
        });
        TextPage { events: events.collect(), texts }
    }
}

/// What [`EventTexts::journal_page`] found.
pub enum JournalPage {
    /// The page of the next record.
    Shared(Arc<TextPage>),
    /// There is no page to share; these are the next records.
    Records(Vec<Record>),
    /// A snapshot has dropped some of the next records.
    Dropped,
}

impl JournalPage {
    fn not_shared<E>(read: Result<FeedPage, E>) -> Result<JournalPage, E> {
        Ok(match read? {
            FeedPage::Records(records) => JournalPage::Records(records),
            FeedPage::Dropped => JournalPage::Dropped,
        })
    }
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
    fn of_first(records: &[Record], bytes: usize) -> BatchText {
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

    /// The page of the journal that has the record after this one. A page is not shared while it is not full, if a part of it was
    /// dropped, and if it has too much text. `read` gives the records after another one. Streams that ask at the same time
    /// wait for the first of them.
    pub fn journal_page<E>(&self, after: Seq, read: impl Fn(Seq) -> Result<FeedPage, E>) -> Result<JournalPage, E> {
        let before = Seq(after.0 - after.0 % PAGE_RECORDS);
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        match pages.iter().find(|(known, _)| *known == before) {
            Some((_, Some(page))) => return Ok(JournalPage::Shared(page.clone())),
            Some((_, None)) => {
                drop(pages);
                return JournalPage::not_shared(read(after));
            }
            None => {}
        }
        let mut records = match read(before)? {
            FeedPage::Records(records) => records,
            FeedPage::Dropped => {
                drop(pages);
                // The record after this one may still be there.
                return if before < after { JournalPage::not_shared(read(after)) } else { Ok(JournalPage::Dropped) };
            }
        };
        let is_whole = records.len() as u64 == PAGE_RECORDS
            && records.first().is_some_and(|first| first.seq == before.next())
            && records.last().is_some_and(|last| last.seq.0 == before.0 + PAGE_RECORDS);
        if is_whole {
            let page = Some(TextPage::of_first(&records, PAGE_BYTES_MAX))
                .filter(|page| page.events.len() == records.len() && page.texts.text.len() <= PAGE_BYTES_MAX)
                .map(Arc::new);
            if pages.len() == PAGES_MAX {
                pages.pop_front();
            }
            pages.push_back((before, page.clone()));
            if let Some(page) = page {
                return Ok(JournalPage::Shared(page));
            }
        }
        records.drain(..records.partition_point(|record| record.seq <= after));
        Ok(JournalPage::Records(records))
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
    use crate::engine::{EndState, ReservationId, Timestamp};
    use crate::key::{Key, KeyRules};

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

    fn shared(page: Result<JournalPage, ()>) -> Arc<TextPage> {
        match page {
            Ok(JournalPage::Shared(page)) => page,
            _ => panic!("the page is not shared"),
        }
    }

    #[test]
    fn a_page_of_the_journal_is_read_once_for_streams_that_are_a_little_apart() {
        let texts = EventTexts::default();
        let page = |after| {
            let read = |before: Seq| Ok(FeedPage::Records(batch(before.0 + 1, PAGE_RECORDS)));
            shared(texts.journal_page(Seq(after), read))
        };
        let first = page(PAGE_RECORDS);
        assert_eq!((first.events[0].seq, first.events.len() as u64), (Seq(PAGE_RECORDS + 1), PAGE_RECORDS));
        assert_eq!(first.events[0].ended, SessionId::parse("ana"));
        assert!(first.texts.of_record(first.events.len() - 1).is_some());
        let again = |after| shared(texts.journal_page(Seq(after), |_| panic!("it is known")));
        assert!(Arc::ptr_eq(&first, &again(2 * PAGE_RECORDS - 1)));
        (0..PAGES_MAX as u64).for_each(|n| assert_eq!(page(PAGE_RECORDS * (n + 2)).events[0].seq.0 % PAGE_RECORDS, 1));
        assert_eq!(texts.pages.lock().unwrap().len(), PAGES_MAX);
        assert!(!Arc::ptr_eq(&first, &page(PAGE_RECORDS)), "the oldest page was dropped");
    }

    #[test]
    fn a_page_that_is_not_whole_is_not_shared_and_read_once() {
        let texts = EventTexts::default();
        let first = |records: Vec<Record>| {
            let reads = std::cell::Cell::new(0);
            let read = |_| {
                reads.set(reads.get() + 1);
                Ok::<_, ()>(FeedPage::Records(records.clone()))
            };
            let Ok(JournalPage::Records(rest)) = texts.journal_page(Seq(700), read) else {
                panic!("the page is shared");
            };
            assert_eq!(reads.get(), 1);
            rest.first().map(|record| record.seq)
        };
        assert_eq!(first(batch(513, PAGE_RECORDS - 1)), Some(Seq(701)), "more records will follow");
        assert_eq!(first(batch(514, PAGE_RECORDS)), Some(Seq(701)), "the first one is not there");
        assert_eq!(first(Vec::new()), None);
        assert!(texts.pages.lock().unwrap().is_empty());
    }

    #[test]
    fn where_the_beginning_of_a_page_was_dropped_the_rest_is_found() {
        let texts = EventTexts::default();
        let read = |after: Seq| {
            Ok::<_, ()>(if after < Seq(600) { FeedPage::Dropped } else { FeedPage::Records(batch(after.0 + 1, 9)) })
        };
        let page = texts.journal_page(Seq(700), read);
        assert!(matches!(page, Ok(JournalPage::Records(records)) if records[0].seq == Seq(701)));
        assert!(matches!(texts.journal_page(Seq(599), read), Ok(JournalPage::Dropped)));
        assert!(matches!(texts.journal_page(Seq(512), read), Ok(JournalPage::Dropped)));
    }

    #[test]
    fn a_page_whose_last_record_has_too_much_text_is_not_shared_and_its_text_made_once() {
        let texts = EventTexts::default();
        let mut records = batch(1, PAGE_RECORDS);
        records.last_mut().unwrap().event = Event::UnlockRequested {
            request: uuid::Uuid::nil(),
            reservation: ReservationId(uuid::Uuid::nil()),
            key: Key::parse("file:a", &KeyRules::default()).unwrap(),
            session: SessionId::parse("ana").unwrap(),
            reason: "x".repeat(PAGE_BYTES_MAX).into(),
        };
        for after in [0, 7] {
            let read = |before: Seq| Ok::<_, ()>(FeedPage::Records(records[before.0 as usize..].to_vec()));
            let page = texts.journal_page(Seq(after), read);
            assert!(matches!(page, Ok(JournalPage::Records(records)) if records[0].seq == Seq(after + 1)));
            assert!(matches!(*texts.pages.lock().unwrap().make_contiguous(), [(Seq(0), None)]), "no text is kept");
        }
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
