//! Who waits for whom: every wait with what blocks it, for people who look. Nothing is decided here.

use std::ops::{Bound, ControlFlow};

use super::command::SessionName;
use super::conflict::Blocker;
use super::ids::{ReservationId, Timestamp, WaiterId};
use super::state::Engine;
use super::work::{LOOKUP_WORK, SMALL_WORK};
use crate::key::Key;

/// The keys of one wait that are listed and looked at.
const KEYS_LISTED: usize = 10;

/// The blockers of one wait that are listed.
const BLOCKERS_LISTED: usize = 10;

/// A wait, with some of what blocks it.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockedWait {
    pub waiter: WaiterId,
    pub who: SessionName,
    /// The first of its keys, with the ids that their reservations will have.
    pub keys: Vec<(Key, ReservationId)>,
    pub since: Timestamp,
    /// When it gives up.
    pub until: Timestamp,
    pub blockers: Vec<WaitBlocker>,
}

/// A session that blocks a wait, and the key that it holds or waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitBlocker {
    pub who: SessionName,
    pub key: Key,
    /// It waits itself, ahead in the queue.
    pub waits: bool,
}

impl Engine {
    /// The first keys of a wait.
    pub fn waited_keys(&self, id: WaiterId, most: usize) -> impl Iterator<Item = &Key> {
        self.waiters.get(&id).into_iter().flat_map(move |waiter| waiter.wants.iter().take(most).map(|want| &want.key))
    }

    /// The session that blocks each of the first keys of a wait, with the index of the key. Where several block a key, one of
    /// them is named, so that this costs the same in a long queue.
    pub fn first_blockers(&self, id: WaiterId) -> Vec<(usize, SessionName)> {
        let Some(waiter) = self.waiters.get(&id) else { return Vec::new() };
        self.index.meter.begin(SMALL_WORK, true);
        let mut found = Vec::new();
        for (index, want) in waiter.wants.iter().take(KEYS_LISTED).enumerate() {
            self.index.meter.spend(LOOKUP_WORK);
            let lookup = self.lookup(waiter.session, &want.key);
            let first = self.blockers(lookup, waiter.session, &want.key, waiter.mode, id, |_, blocker| {
                ControlFlow::Break(match blocker {
                    Blocker::Holder(slot) => self.reservations[slot].session,
                    Blocker::Waiter(ahead) => self.waiters[&ahead].session,
                })
            });
            if let ControlFlow::Break(session) = first {
                found.push((index, self.session_name(session)));
            }
        }
        self.index.meter.end();
        found
    }

    /// The next waits after this one, at most `most` of them, in the order of the queue. Of each wait only the first keys are
    /// looked at.
    pub fn blocked_waits(&self, after: Option<WaiterId>, most: usize) -> Vec<BlockedWait> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let waiters = self.waiters.range((start, Bound::Unbounded)).take(most);
        self.index.meter.begin(SMALL_WORK, true);
        let list = waiters
            .map(|(id, waiter)| {
                let wants = &waiter.wants[..waiter.wants.len().min(KEYS_LISTED)];
                let conflicts = self.conflicts(waiter.session, wants, waiter.mode, *id);
                let blocker = |conflict: super::command::Conflict| WaitBlocker {
                    who: conflict.who,
                    key: conflict.key,
                    waits: conflict.waiting,
                };
                BlockedWait {
                    waiter: *id,
                    who: self.session_name(waiter.session),
                    keys: wants.iter().map(|want| (want.key.clone(), want.id)).collect(),
                    since: waiter.since,
                    until: self.real(waiter.until),
                    blockers: conflicts.into_iter().take(BLOCKERS_LISTED).map(blocker).collect(),
                }
            })
            .collect();
        self.index.meter.end();
        list
    }
}
