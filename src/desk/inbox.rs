//! The way of messages to the desk's thread: any thread sends, only the desk's receives.
//!
//! The thread takes everything that has arrived at once, so a message costs each side one short lock. A thread that waits
//! says how many messages it waits for: to wake it for each of them would cost more than to decide them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An inbox that takes messages until so many are in it.
pub(super) fn inbox<T>(room: usize) -> (Sender<T>, Inbox<T>) {
    let queue = Queue { messages: VecDeque::new(), is_abandoned: false, is_closed: false, wanted: 0, blocked: 0 };
    let shared = Shared {
        queue: Mutex::new(queue),
        room,
        arrived: Condvar::new(),
        emptied: Condvar::new(),
        count: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
    };
    let shared = Arc::new(shared);
    (Sender(Arc::new(Senders(shared.clone()))), Inbox { shared, taken: VecDeque::new() })
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    room: usize,
    arrived: Condvar,
    emptied: Condvar,
    /// The number of messages in the queue, to be read without the lock.
    count: AtomicUsize,
    /// The number of messages that the receiver has taken out of the queue and not received yet.
    taken: AtomicUsize,
}

struct Queue<T> {
    messages: VecDeque<T>,
    /// All senders are gone.
    is_abandoned: bool,
    /// The receiver is gone.
    is_closed: bool,
    /// With how many messages the receiving thread is to be woken; zero unless it waits.
    wanted: usize,
    /// How many senders wait for room.
    blocked: usize,
}

/// Why a message was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendError {
    Full,
    Closed,
}

pub(super) struct Sender<T>(Arc<Senders<T>>);

/// What all senders share. It is dropped with the last of them.
struct Senders<T>(Arc<Shared<T>>);

/// The receiving end.
pub(super) struct Inbox<T> {
    shared: Arc<Shared<T>>,
    /// What was taken from the queue and is not received yet.
    taken: VecDeque<T>,
}

/// What ends a wait for messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited<T> {
    Message(T),
    TimeOver,
    /// All senders are gone.
    Abandoned,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        // No panic leaves a half-changed value behind.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut queue: MutexGuard<'_, Queue<T>>, message: T) {
        queue.messages.push_back(message);
        let count = queue.messages.len();
        self.count.store(count, Ordering::Release);
        let wakes = queue.wanted > 0 && count >= queue.wanted;
        if wakes {
            queue.wanted = 0;
        }
        drop(queue);
        if wakes {
            self.arrived.notify_one();
        }
    }
}

impl<T> Sender<T> {
    /// Sends unless the inbox is full. What the receiver has taken at once and not received yet counts too.
    pub fn try_send(&self, message: T) -> Result<(), SendError> {
        let Senders(shared) = &*self.0;
        let queue = shared.lock();
        if queue.is_closed {
            return Err(SendError::Closed);
        }
        if queue.messages.len() + shared.taken.load(Ordering::Relaxed) >= shared.room {
            return Err(SendError::Full);
        }
        shared.push(queue, message);
        Ok(())
    }

    /// Sends, and waits for room if the inbox is full.
    pub fn send(&self, message: T) -> Result<(), SendError> {
        let Senders(shared) = &*self.0;
        let mut queue = shared.lock();
        while queue.messages.len() >= shared.room && !queue.is_closed {
            queue.blocked += 1;
            queue = shared.emptied.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.blocked -= 1;
        }
        if queue.is_closed {
            return Err(SendError::Closed);
        }
        shared.push(queue, message);
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Drop for Senders<T> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_abandoned = true;
        drop(queue);
        self.0.arrived.notify_one();
    }
}

impl<T> Inbox<T> {
    /// The next message, if there is one.
    pub fn try_next(&mut self) -> Option<T> {
        if self.taken.is_empty() && self.shared.count.load(Ordering::Acquire) > 0 {
            take_all(&mut self.taken, &self.shared, self.shared.lock());
        }
        self.pop()
    }

    fn pop(&mut self) -> Option<T> {
        let message = self.taken.pop_front();
        self.shared.taken.store(self.taken.len(), Ordering::Relaxed);
        message
    }

    /// The next message. Waits at most this long for it.
    pub fn next_within(&mut self, time: Duration) -> Waited<T> {
        self.await_messages(1, time)
    }

    /// Waits until so many messages are here, at most this long. Returns the first of them.
    pub fn await_messages(&mut self, wanted: usize, time: Duration) -> Waited<T> {
        // If enough is here, the queue stays as it is: the receiver must not take messages faster than it receives them.
        if self.taken.len() >= wanted.max(1) {
            return self.pop().map_or(Waited::TimeOver, Waited::Message);
        }
        // Longer than any wait, and it cannot overflow.
        let until = Instant::now() + time.min(Duration::from_secs(3600));
        let mut queue = self.shared.lock();
        while self.taken.len() + queue.messages.len() < wanted.max(1) && !queue.is_abandoned {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue.wanted = wanted.max(1) - self.taken.len();
            queue = self.shared.arrived.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.wanted = 0;
        let is_abandoned = queue.is_abandoned;
        take_all(&mut self.taken, &self.shared, queue);
        match self.pop() {
            Some(message) => Waited::Message(message),
            None if is_abandoned => Waited::Abandoned,
            None => Waited::TimeOver,
        }
    }
}

fn take_all<T>(taken: &mut VecDeque<T>, shared: &Shared<T>, mut queue: MutexGuard<'_, Queue<T>>) {
    if taken.is_empty() {
        std::mem::swap(taken, &mut queue.messages);
    } else {
        taken.append(&mut queue.messages);
    }
    shared.count.store(0, Ordering::Release);
    shared.taken.store(taken.len(), Ordering::Relaxed);
    if queue.blocked > 0 {
        shared.emptied.notify_all();
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_closed = true;
        // What is not received is dropped without the lock: a message may hold a sender.
        let messages = std::mem::take(&mut queue.messages);
        drop(queue);
        self.shared.emptied.notify_all();
        drop(messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn messages_keep_their_order() {
        let (sender, mut inbox) = inbox(100);
        assert_eq!(inbox.try_next(), None);
        (0..3).for_each(|n| sender.try_send(n).unwrap());
        assert_eq!(inbox.try_next(), Some(0));
        sender.try_send(3).unwrap();
        assert_eq!(inbox.await_messages(3, LONG), Waited::Message(1), "two that were taken, and one that was not");
        assert_eq!((inbox.try_next(), inbox.try_next(), inbox.try_next()), (Some(2), Some(3), None));
    }

    #[test]
    fn a_full_inbox_refuses_or_makes_the_sender_wait() {
        let (sender, mut inbox) = inbox(2);
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert_eq!(sender.try_send(3), Err(SendError::Full));
        let sender_too = sender.clone();
        let waiting = std::thread::spawn(move || sender.send(3));
        while inbox.shared.lock().blocked == 0 {
            std::thread::yield_now();
        }
        assert_eq!(inbox.try_next(), Some(1));
        assert_eq!(inbox.try_next(), Some(2));
        assert_eq!(inbox.next_within(LONG), Waited::Message(3));
        waiting.join().unwrap().unwrap();
        assert_eq!(sender_too.try_send(4), Ok(()), "there is room again");
    }

    #[test]
    fn messages_that_were_taken_and_not_received_count_as_well() {
        let (sender, mut inbox) = inbox(3);
        (0..3).for_each(|n| sender.try_send(n).unwrap());
        assert_eq!(inbox.try_next(), Some(0), "the others were taken with it");
        sender.try_send(3).unwrap();
        assert_eq!(sender.try_send(4), Err(SendError::Full));
        for n in 1..50 {
            assert_eq!(inbox.next_within(LONG), Waited::Message(n));
            sender.try_send(n + 3).unwrap();
            assert_eq!(sender.try_send(0), Err(SendError::Full), "there are never more than three");
        }
    }

    #[test]
    fn a_thread_that_waits_for_several_is_woken_once() {
        let (sender, mut inbox) = inbox(100);
        let waiting = std::thread::spawn(move || (inbox.await_messages(3, LONG), inbox));
        while sender.0.0.lock().wanted == 0 {
            std::thread::yield_now();
        }
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert_eq!(sender.0.0.lock().wanted, 3, "it still waits");
        sender.try_send(3).unwrap();
        let (first, mut inbox) = waiting.join().unwrap();
        assert_eq!((first, inbox.try_next(), inbox.try_next()), (Waited::Message(1), Some(2), Some(3)));
        sender.try_send(4).unwrap();
        assert_eq!(inbox.await_messages(3, Duration::from_millis(1)), Waited::Message(4), "the time is over");
        assert_eq!(inbox.next_within(Duration::ZERO), Waited::TimeOver);
    }

    #[test]
    fn both_ends_learn_that_the_other_is_gone() {
        let (sender, mut gone) = inbox(1);
        let other = sender.clone();
        sender.try_send(1).unwrap();
        drop(sender);
        assert_eq!(gone.next_within(LONG), Waited::Message(1));
        let waiting = std::thread::spawn(move || gone.next_within(LONG));
        drop(other);
        assert_eq!(waiting.join().unwrap(), Waited::Abandoned);
        let (sender, closed) = inbox(1);
        sender.try_send(1).unwrap();
        let blocked = std::thread::spawn(move || (sender.send(2), sender.try_send(3)));
        while closed.shared.lock().blocked == 0 {
            std::thread::yield_now();
        }
        drop(closed);
        assert_eq!(blocked.join().unwrap(), (Err(SendError::Closed), Err(SendError::Closed)));
    }
}
