//! The stream of durable records, for event streams: every batch, once it is durable.
//!
//! Without followers the desk only updates the number of the last record. With followers it also buffers the latest
//! batches and wakes the followers that wait. A follower that is further behind reads the journal, on its own thread.
//! The desk never waits for a follower, and a follower never keeps records in the journal: once a snapshot drops records
//! that a slow follower has not read, it gets [`FeedPage::Dropped`].
//!
//! The ledger is no follower. It reads the journal directly, and it does hold back truncation: the server wraps the
//! journal so that a snapshot keeps every record that is not in the ledger yet (see `ledger::RetainingJournal`). The desk
//! does not know about this; it only asks a snapshot to keep a number of records, and may find more of them kept.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::engine::{Record, Seq};
use crate::journal::{JournalError, JournalReader};

/// The most records in the buffer: a few megabytes, and some seconds of a busy repository.
const BUFFER_MAX: usize = 16_384;

/// The most bytes of keys in the buffer. Only requests with thousands of keys come near it.
const BUFFER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// About how many records a follower gets at once: a few blocks of text. The batches are collected under the lock of the buffer.
const PAGE: usize = 256;

/// The same from the journal, where each record is read and decoded for one follower.
const JOURNAL_PAGE: usize = 512;

/// The records of one repository as they become durable.
pub struct Feed {
    /// The last durable record.
    head: AtomicU64,
    followers: AtomicUsize,
    buffer: Mutex<Buffer>,
    journal: Mutex<Box<dyn JournalReader>>,
}

#[derive(Default)]
struct Buffer {
    /// The latest batches, without a gap between them.
    batches: VecDeque<Arc<[Record]>>,
    /// The number of records in `batches`.
    length: usize,
    /// The bytes of their keys.
    bytes: usize,
    /// The tasks that wait for the next batch, by the follower's number.
    wakers: HashMap<u64, Waker>,
    next_follower: u64,
}

/// Reads a feed. The feed buffers records as long as there is a follower.
pub struct Follower {
    feed: Arc<Feed>,
    number: u64,
}

/// What the buffer has after a record.
#[derive(Debug, PartialEq)]
pub enum BufferPage {
    /// There is no later record.
    UpToDate,
    /// The next records, oldest first. The first batch may begin with records that the follower already has.
    Batches(Vec<Arc<[Record]>>),
    /// The next record is not in the buffer; see [`Follower::read_journal`].
    TooOld,
}

/// What the journal has after a record.
#[derive(Debug, PartialEq)]
pub enum FeedPage {
    /// The next records, oldest first.
    Records(Vec<Record>),
    /// A snapshot has dropped some of the next records.
    Dropped,
}

impl Feed {
    pub(super) fn new(journal: Box<dyn JournalReader>) -> Self {
        Self {
            head: AtomicU64::new(0),
            followers: AtomicUsize::new(0),
            buffer: Mutex::default(),
            journal: Mutex::new(journal),
        }
    }

    /// The last durable record.
    pub fn head(&self) -> Seq {
        Seq(self.head.load(Ordering::SeqCst))
    }

    pub fn followers(&self) -> usize {
        self.followers.load(Ordering::Relaxed)
    }

    /// A new follower, unless there are `max` already.
    pub fn follow(self: &Arc<Self>, max: usize) -> Option<Follower> {
        let one_more = |count: usize| (count < max).then_some(count + 1);
        self.followers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        let mut buffer = lock(&self.buffer);
        buffer.next_follower += 1;
        Some(Follower { feed: Arc::clone(self), number: buffer.next_follower })
    }

    /// Sets the head that the journal had at start.
    pub(super) fn begin(&self, head: Seq) {
        self.head.store(head.0, Ordering::SeqCst);
    }

    /// Publishes durable records, which must follow the head.
    pub(super) fn publish(&self, records: &[Record]) {
        let Some(last) = records.last() else { return };
        if self.followers.load(Ordering::SeqCst) == 0 {
            self.head.store(last.seq.0, Ordering::SeqCst);
            // A new follower is counted before it reads the head. So either it is counted here, or it sees the new
            // head and does not sleep.
            if self.followers.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
        let mut buffer = lock(&self.buffer);
        buffer.push(records);
        self.head.store(last.seq.0, Ordering::SeqCst);
        let wakers: Vec<Waker> = buffer.wakers.drain().map(|(_, waker)| waker).collect();
        drop(buffer);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Buffer {
    fn push(&mut self, records: &[Record]) {
        let (first, count, bytes) = (records[0].seq, records.len(), key_bytes(records));
        let joins = self.batches.back().and_then(|batch| batch.last()).is_none_or(|last| last.seq.next() == first);
        let is_too_large = count > BUFFER_MAX || bytes > BUFFER_BYTES_MAX;
        if !joins || is_too_large {
            self.clear();
        }
        if is_too_large {
            return;
        }
        self.batches.push_back(records.into());
        self.length += count;
        self.bytes += bytes;
        while self.length > BUFFER_MAX || self.bytes > BUFFER_BYTES_MAX {
            let oldest = self.batches.pop_front().expect("the buffer has more than one batch");
            self.length -= oldest.len();
            self.bytes -= key_bytes(&oldest);
        }
    }

    fn clear(&mut self) {
        self.batches = VecDeque::new();
        (self.length, self.bytes) = (0, 0);
    }
}

fn key_bytes(records: &[Record]) -> usize {
    records.iter().map(|record| record.event.key_bytes()).sum()
}

impl Follower {
    /// Ready once there is a record after this one. Otherwise the task is woken when there is.
    pub fn poll_news(&self, after: Seq, context: &mut Context<'_>) -> Poll<()> {
        if self.feed.head() <= after {
            lock(&self.feed.buffer).wakers.insert(self.number, context.waker().clone());
        }
        // Checked again, because the desk may have published right before the waker was stored.
        if self.feed.head() > after { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The records after this one that are in the buffer.
    pub fn buffered(&self, after: Seq) -> BufferPage {
        if self.feed.head() <= after {
            return BufferPage::UpToDate;
        }
        let buffer = lock(&self.feed.buffer);
        let start = buffer.batches.partition_point(|batch| batch[batch.len() - 1].seq <= after);
        match buffer.batches.get(start) {
            Some(batch) if batch[0].seq <= after.next() => {
                let mut room = PAGE;
                let fits = |batch: &&Arc<[Record]>| {
                    let has_room = room > 0;
                    room = room.saturating_sub(batch.len());
                    has_room
                };
                BufferPage::Batches(buffer.batches.range(start..).take_while(fits).cloned().collect())
            }
            _ => BufferPage::TooOld,
        }
    }

    /// The records after this one, from the journal, a page at a time. Reads a file, so it blocks.
    pub fn read_journal(&self, after: Seq) -> Result<FeedPage, JournalError> {
        let page = lock(&self.feed.journal).read(after, JOURNAL_PAGE)?;
        Ok(if page.begins_late(after) { FeedPage::Dropped } else { FeedPage::Records(page.records) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut buffer = lock(&self.feed.buffer);
        buffer.wakers.remove(&self.number);
        if self.feed.followers.fetch_sub(1, Ordering::SeqCst) == 1 {
            buffer.clear();
        }
    }
}

/// No panic leaves a half-changed value behind, so a poisoned lock is taken as it is.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;
    use crate::engine::{EndState, Event, Mode, ReservationId, SessionId, Timestamp, Ttl, Want};
    use crate::journal::{Journal, MemoryJournal};

    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn records(numbers: std::ops::RangeInclusive<u64>) -> Vec<Record> {
        let event = Event::Ended { session: SessionId::parse("ana").unwrap(), state: EndState::Completed };
        numbers.map(|n| Record { seq: Seq(n), at: Timestamp(0), event: event.clone() }).collect()
    }

    /// A feed, and a closure that appends and publishes records like a desk.
    fn feed() -> (Arc<Feed>, impl FnMut(std::ops::RangeInclusive<u64>)) {
        let mut journal = MemoryJournal::new();
        let feed = Arc::new(Feed::new(journal.reader().unwrap()));
        let published = Arc::clone(&feed);
        let publish = move |numbers: std::ops::RangeInclusive<u64>| {
            let records = records(numbers);
            journal.append(published.head(), &records).unwrap();
            published.publish(&records);
        };
        (feed, publish)
    }

    fn numbers(buffered: BufferPage) -> Vec<u64> {
        let BufferPage::Batches(batches) = buffered else { panic!("not in the buffer: {buffered:?}") };
        batches.iter().flat_map(|batch| batch.iter()).map(|record| record.seq.0).collect()
    }

    #[test]
    fn nothing_is_buffered_without_followers() {
        let (feed, mut publish) = feed();
        publish(1..=3);
        assert_eq!((feed.head(), lock(&feed.buffer).length), (Seq(3), 0));
        let follower = feed.follow(1).unwrap();
        assert_eq!(follower.buffered(Seq(3)), BufferPage::UpToDate);
        assert_eq!(follower.buffered(Seq(2)), BufferPage::TooOld);
        assert_eq!(follower.read_journal(Seq(1)).unwrap(), FeedPage::Records(records(2..=3)));
        publish(4..=5);
        publish(6..=6);
        assert_eq!(numbers(follower.buffered(Seq(3))), [4, 5, 6]);
        assert_eq!(numbers(follower.buffered(Seq(4))), [4, 5, 6], "a batch stays whole");
        assert_eq!(numbers(follower.buffered(Seq(5))), [6]);
        assert_eq!(follower.buffered(Seq(2)), BufferPage::TooOld);
        drop(follower);
        assert_eq!((feed.followers(), lock(&feed.buffer).length), (0, 0));
    }

    #[test]
    fn records_published_without_followers_leave_no_gap_in_the_buffer() {
        let (feed, mut publish) = feed();
        let follower = feed.follow(2).unwrap();
        publish(1..=1);
        drop(follower);
        publish(2..=2);
        let follower = feed.follow(2).unwrap();
        publish(3..=3);
        assert_eq!(follower.buffered(Seq(0)), BufferPage::TooOld);
        assert_eq!(numbers(follower.buffered(Seq(2))), [3]);
    }

    #[test]
    fn the_buffer_is_bounded() {
        let (feed, mut publish) = feed();
        let follower = feed.follow(1).unwrap();
        let many = BUFFER_MAX as u64;
        publish(1..=many);
        publish(many + 1..=many + 1);
        assert_eq!(lock(&feed.buffer).length, 1);
        assert_eq!(follower.buffered(Seq(many - 1)), BufferPage::TooOld);
        publish(many + 2..=3 * many);
        assert_eq!(lock(&feed.buffer).length, 0, "a batch larger than the buffer is not buffered");
        assert_eq!(follower.buffered(Seq(many + 1)), BufferPage::TooOld);
        let FeedPage::Records(page) = follower.read_journal(Seq(many + 1)).unwrap() else { panic!("it is all there") };
        assert_eq!((page[0].seq.0, page.len()), (many + 2, JOURNAL_PAGE));
    }

    #[test]
    fn the_buffer_is_bounded_in_bytes_too() {
        let (feed, _) = feed();
        let follower = feed.follow(1).unwrap();
        let text = vec!["d".repeat(200); 10].join("/");
        let key = crate::key::Key::parse(&text, &crate::key::KeyRules::default()).unwrap();
        let want = Want { id: ReservationId(uuid::Uuid::nil()), key, ttl: Ttl::Plain(1) };
        let (session, wants) = (SessionId::parse("ana").unwrap(), vec![want; 1000]);
        let event = Event::Queued { session, wants, mode: Mode::Exclusive, reason: None, if_version: None };
        let record = |n| Record { seq: Seq(n), at: Timestamp(0), event: event.clone() };
        let fit = BUFFER_BYTES_MAX / (1000 * text.len());
        for n in 1..=fit as u64 + 3 {
            feed.publish(&[record(n)]);
        }
        assert_eq!(lock(&feed.buffer).length, fit);
        assert_eq!(numbers(follower.buffered(Seq(fit as u64 + 2))), [fit as u64 + 3]);
        assert_eq!(follower.buffered(Seq(1)), BufferPage::TooOld);
    }

    #[test]
    fn a_waiting_follower_is_woken_once_and_a_dropped_one_is_not() {
        let (feed, mut publish) = feed();
        let (waiting, dropped) = (feed.follow(2).unwrap(), feed.follow(2).unwrap());
        assert!(feed.follow(2).is_none(), "there may be no third");
        let bells = [Arc::new(Bell(AtomicUsize::new(0))), Arc::new(Bell(AtomicUsize::new(0)))];
        for (follower, bell) in [&waiting, &dropped].into_iter().zip(&bells) {
            let waker = Waker::from(Arc::clone(bell));
            for _ in 0..3 {
                assert_eq!(follower.poll_news(Seq(0), &mut Context::from_waker(&waker)), Poll::Pending);
            }
        }
        drop(dropped);
        publish(1..=1);
        publish(2..=2);
        assert_eq!(bells.map(|bell| bell.0.load(Ordering::SeqCst)), [1, 0]);
        assert_eq!(waiting.poll_news(Seq(1), &mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        assert_eq!(waiting.poll_news(Seq(2), &mut Context::from_waker(Waker::noop())), Poll::Pending);
        assert!(feed.follow(2).is_some());
    }

    #[test]
    fn records_that_a_snapshot_dropped_are_reported_as_dropped() {
        let mut journal = MemoryJournal::new();
        journal.append(Seq::ZERO, &records(1..=4)).unwrap();
        journal.reader().unwrap().save_snapshot(Seq(3), b"{}", Seq(3)).unwrap();
        let feed = Arc::new(Feed::new(journal.reader().unwrap()));
        feed.begin(Seq(4));
        let follower = feed.follow(1).unwrap();
        assert_eq!(follower.read_journal(Seq(1)).unwrap(), FeedPage::Dropped);
        assert_eq!(follower.read_journal(Seq(2)).unwrap(), FeedPage::Records(records(3..=4)));
    }
}
