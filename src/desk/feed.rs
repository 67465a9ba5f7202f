//! What happened, for whoever follows it: every batch of records, once it is durable.
//!
//! While nobody follows, the desk only moves a number. While somebody does, it keeps the latest batches at hand and
//! wakes whoever waits for more. Whoever is further behind looks back into the journal, on a thread of their own.
//! The desk never waits for a follower: a slow one falls behind, and nothing is kept for it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::engine::{Record, Seq};
use crate::journal::{JournalError, JournalReader};

/// Records kept at hand while somebody follows; a few megabytes, and seconds of a busy repository.
const AT_HAND_MAX: usize = 16_384;

/// Records handed to a follower in one go.
const PAGE: usize = 4096;

/// The records of one repository as they become durable.
pub struct Feed {
    /// The last durable record.
    head: AtomicU64,
    followers: AtomicUsize,
    recent: Mutex<Recent>,
    journal: Mutex<Box<dyn JournalReader>>,
}

#[derive(Default)]
struct Recent {
    /// The latest batches, without a gap between them.
    batches: VecDeque<Arc<[Record]>>,
    /// How many records these are.
    held: usize,
    /// Whoever waits for more, by the follower's number.
    sleepers: HashMap<u64, Waker>,
    next_follower: u64,
}

/// Somebody who follows; until it is dropped.
pub struct Follower {
    feed: Arc<Feed>,
    number: u64,
}

/// What there is after a record, without looking into the journal.
#[derive(Debug, PartialEq)]
pub enum Buffered {
    /// Nothing happened since.
    UpToDate,
    /// What happened next, oldest first. The first batch may begin with records that are known already.
    Batches(Vec<Arc<[Record]>>),
    /// It is not at hand any more; see [`Follower::read_journal`].
    TooOld,
}

/// What the journal has after a record.
#[derive(Debug, PartialEq)]
pub enum FeedPage {
    /// What happened next, oldest first.
    Records(Vec<Record>),
    /// Some of it was dropped when a snapshot was taken.
    Dropped,
}

impl Feed {
    pub(super) fn new(journal: Box<dyn JournalReader>) -> Self {
        Self {
            head: AtomicU64::new(0),
            followers: AtomicUsize::new(0),
            recent: Mutex::default(),
            journal: Mutex::new(journal),
        }
    }

    /// The last durable record.
    pub fn head(&self) -> Seq {
        Seq(self.head.load(Ordering::SeqCst))
    }

    /// How many follow.
    pub fn followers(&self) -> usize {
        self.followers.load(Ordering::Relaxed)
    }

    /// Follows what happens from now on, unless `max` do so already.
    pub fn follow(self: &Arc<Self>, max: usize) -> Option<Follower> {
        let one_more = |count: usize| (count < max).then_some(count + 1);
        self.followers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        let mut recent = lock(&self.recent);
        recent.next_follower += 1;
        Some(Follower { feed: Arc::clone(self), number: recent.next_follower })
    }

    /// Where the journal ended when the desk was opened.
    pub(super) fn begin(&self, head: Seq) {
        self.head.store(head.0, Ordering::SeqCst);
    }

    /// These records are durable, and follow the head.
    pub(super) fn publish(&self, records: &[Record]) {
        let Some(last) = records.last() else { return };
        if self.followers.load(Ordering::SeqCst) == 0 {
            self.head.store(last.seq.0, Ordering::SeqCst);
            // Whoever begins to follow is counted before it looks at the head. So either it is counted here, or it
            // sees the new head and does not go to sleep.
            if self.followers.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
        let mut recent = lock(&self.recent);
        recent.keep(records);
        self.head.store(last.seq.0, Ordering::SeqCst);
        let woken: Vec<Waker> = recent.sleepers.drain().map(|(_, waker)| waker).collect();
        drop(recent);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Recent {
    fn keep(&mut self, records: &[Record]) {
        let (first, count) = (records[0].seq, records.len());
        let joins = self.batches.back().and_then(|batch| batch.last()).is_none_or(|last| last.seq.next() == first);
        if !joins || count > AT_HAND_MAX {
            self.forget();
        }
        if count > AT_HAND_MAX {
            return;
        }
        self.batches.push_back(records.into());
        self.held += count;
        while self.held > AT_HAND_MAX {
            let oldest = self.batches.pop_front().expect("more than one batch is held");
            self.held -= oldest.len();
        }
    }

    fn forget(&mut self) {
        self.batches = VecDeque::new();
        self.held = 0;
    }
}

impl Follower {
    /// Ready once something happened after this record; until then the task that asks is woken when it does.
    pub fn poll_news(&self, after: Seq, context: &mut Context<'_>) -> Poll<()> {
        if self.feed.head() <= after {
            lock(&self.feed.recent).sleepers.insert(self.number, context.waker().clone());
        }
        // Looked at again, because the desk may have published just before the entry was made.
        if self.feed.head() > after { Poll::Ready(()) } else { Poll::Pending }
    }

    /// What happened after this record, as far as it is at hand.
    pub fn buffered(&self, after: Seq) -> Buffered {
        if self.feed.head() <= after {
            return Buffered::UpToDate;
        }
        let recent = lock(&self.feed.recent);
        let known = recent.batches.partition_point(|batch| batch[batch.len() - 1].seq <= after);
        match recent.batches.get(known) {
            Some(batch) if batch[0].seq <= after.next() => {
                let mut room = PAGE;
                let fits = |batch: &&Arc<[Record]>| {
                    let begun = room > 0;
                    room = room.saturating_sub(batch.len());
                    begun
                };
                Buffered::Batches(recent.batches.range(known..).take_while(fits).cloned().collect())
            }
            _ => Buffered::TooOld,
        }
    }

    /// The same from the journal, a page at a time. Reads a file, so it is nothing for a thread that must not wait.
    pub fn read_journal(&self, after: Seq) -> Result<FeedPage, JournalError> {
        let page = lock(&self.feed.journal).read(after, PAGE)?;
        Ok(if page.begins_late(after) { FeedPage::Dropped } else { FeedPage::Records(page.records) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut recent = lock(&self.feed.recent);
        recent.sleepers.remove(&self.number);
        if self.feed.followers.fetch_sub(1, Ordering::SeqCst) == 1 {
            recent.forget();
        }
    }
}

/// Whoever panicked while it was held has left whole values behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;
    use crate::engine::{EndState, Event, SessionId, Timestamp};
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

    /// A feed, and how its desk makes records known.
    fn feed() -> (Arc<Feed>, impl FnMut(std::ops::RangeInclusive<u64>)) {
        let mut journal = MemoryJournal::new();
        let feed = Arc::new(Feed::new(journal.reader().unwrap()));
        let told = Arc::clone(&feed);
        let publish = move |numbers: std::ops::RangeInclusive<u64>| {
            let records = records(numbers);
            journal.append(told.head(), &records).unwrap();
            told.publish(&records);
        };
        (feed, publish)
    }

    fn numbers(at_hand: Buffered) -> Vec<u64> {
        let Buffered::Batches(batches) = at_hand else { panic!("not at hand: {at_hand:?}") };
        batches.iter().flat_map(|batch| batch.iter()).map(|record| record.seq.0).collect()
    }

    #[test]
    fn nothing_is_kept_while_nobody_follows() {
        let (feed, mut publish) = feed();
        publish(1..=3);
        assert_eq!((feed.head(), lock(&feed.recent).held), (Seq(3), 0));
        let follower = feed.follow(1).unwrap();
        assert_eq!(follower.buffered(Seq(3)), Buffered::UpToDate);
        assert_eq!(follower.buffered(Seq(2)), Buffered::TooOld);
        assert_eq!(follower.read_journal(Seq(1)).unwrap(), FeedPage::Records(records(2..=3)));
        publish(4..=5);
        publish(6..=6);
        assert_eq!(numbers(follower.buffered(Seq(3))), [4, 5, 6]);
        assert_eq!(numbers(follower.buffered(Seq(4))), [4, 5, 6], "a batch stays whole");
        assert_eq!(numbers(follower.buffered(Seq(5))), [6]);
        assert_eq!(follower.buffered(Seq(2)), Buffered::TooOld);
        drop(follower);
        assert_eq!((feed.followers(), lock(&feed.recent).held), (0, 0));
    }

    #[test]
    fn what_was_missed_while_nobody_followed_leaves_no_gap() {
        let (feed, mut publish) = feed();
        let follower = feed.follow(2).unwrap();
        publish(1..=1);
        drop(follower);
        publish(2..=2);
        let follower = feed.follow(2).unwrap();
        publish(3..=3);
        assert_eq!(follower.buffered(Seq(0)), Buffered::TooOld);
        assert_eq!(numbers(follower.buffered(Seq(2))), [3]);
    }

    #[test]
    fn only_so_much_is_kept() {
        let (feed, mut publish) = feed();
        let follower = feed.follow(1).unwrap();
        let many = AT_HAND_MAX as u64;
        publish(1..=many);
        publish(many + 1..=many + 1);
        assert_eq!(lock(&feed.recent).held, 1);
        assert_eq!(follower.buffered(Seq(many - 1)), Buffered::TooOld);
        publish(many + 2..=3 * many);
        assert_eq!(lock(&feed.recent).held, 0, "a batch larger than all that is kept is not kept");
        assert_eq!(follower.buffered(Seq(many + 1)), Buffered::TooOld);
        let FeedPage::Records(page) = follower.read_journal(Seq(many + 1)).unwrap() else { panic!("it is all there") };
        assert_eq!((page[0].seq.0, page.len()), (many + 2, PAGE));
    }

    #[test]
    fn whoever_waits_is_woken_once_and_whoever_left_is_not() {
        let (feed, mut publish) = feed();
        let (waits, left) = (feed.follow(2).unwrap(), feed.follow(2).unwrap());
        assert!(feed.follow(2).is_none(), "there may be no third");
        let bells = [Arc::new(Bell(AtomicUsize::new(0))), Arc::new(Bell(AtomicUsize::new(0)))];
        for (follower, bell) in [&waits, &left].into_iter().zip(&bells) {
            let waker = Waker::from(Arc::clone(bell));
            for _ in 0..3 {
                assert_eq!(follower.poll_news(Seq(0), &mut Context::from_waker(&waker)), Poll::Pending);
            }
        }
        drop(left);
        publish(1..=1);
        publish(2..=2);
        assert_eq!(bells.map(|bell| bell.0.load(Ordering::SeqCst)), [1, 0]);
        assert_eq!(waits.poll_news(Seq(1), &mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        assert_eq!(waits.poll_news(Seq(2), &mut Context::from_waker(Waker::noop())), Poll::Pending);
        assert!(feed.follow(2).is_some());
    }

    #[test]
    fn a_past_that_was_dropped_is_gone() {
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
