//! A model of a server with these keys: the rules once more, written as briefly as possible.
//!
//! A [`Lock`] is everything that is held and every request that waits. [`Lock::after`] gives the state after a step of
//! a history, or says that the step cannot have happened then. Nothing in here is shared with the engine, and whether two keys
//! overlap is written down by hand.

use std::collections::BTreeSet;

/// Keys, and which of sixteen imaginary names each of them covers: two keys overlap where they share one. `@` stands
/// for the number of the round.
pub const KEYS: &[(&str, u16)] = &[
    ("p@/0", 1 << 0),
    ("p@/1", 1 << 1),
    ("p@/2", 1 << 2),
    ("p@/[01]", 0b11),
    ("p@/{1,2}", 0b110),
    ("p@/**", 0b111),
    ("q@/dir", 1 << 3 | 1 << 4),
    ("q@/dir/x", 1 << 3),
    ("q@/dir/**", 1 << 3 | 1 << 4),
    ("flag:f@/a", 1 << 5),
    ("flag:f@/*", 1 << 5 | 1 << 6),
    ("alone@", 1 << 7),
];

/// A place in [`KEYS`].
pub type Key = u8;

/// A number for each session.
pub type Session = u32;

/// The fence of a grant that its client was not told.
const UNKNOWN_FENCE: u64 = 0;

/// A reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hold {
    pub key: Key,
    pub session: Session,
    pub exclusive: bool,
    pub fence: u64,
}

/// The blockers in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conflict {
    pub asked: Key,
    pub key: Key,
    pub session: Session,
    pub exclusive: bool,
    pub waiting: bool,
}

/// The outcome of a reserve.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The fence and the version for each key.
    Granted(Vec<(Key, u64, u64)>),
    Refused(BTreeSet<Conflict>),
    /// Timed out while waiting; these were the blockers.
    TimedOut(BTreeSet<Conflict>),
    Deadlock,
}

/// A request whose response was lost.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Reserve { keys: Vec<Key>, exclusive: bool },
    Release(Vec<Key>),
    ReleaseAll,
}

/// A request of a client with its response, or an expiry.
#[derive(Debug, Clone, PartialEq)]
pub enum Did {
    Reserve {
        keys: Vec<Key>,
        exclusive: bool,
        /// It may wait.
        wait: bool,
        came: Outcome,
    },
    /// How many of them were held; `None` if another session holds one.
    Release {
        keys: Vec<Key>,
        count: Option<usize>,
    },
    ReleaseAll(BTreeSet<Key>),
    /// The session ends, with what that released.
    End(BTreeSet<Key>),
    /// The fence, where it was held.
    Renew(Key, Option<u64>),
    Check {
        keys: Vec<Key>,
        conflicts: BTreeSet<Conflict>,
    },
    List(BTreeSet<Hold>),
    /// It has happened as a whole, or not at all. What was granted may be given back: no client took it.
    Lost(Request),
    /// This reservation expires.
    Expire(Key, u64),
}

/// Which part of a request: one that may wait happens in two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// It is granted, or is in the queue from now on.
    Ask,
    /// Its answer is decided.
    Settle,
}

/// Something a session did, or one of its reservations.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    pub session: Session,
    /// In nanoseconds: not before this.
    pub from: u64,
    /// Not after this.
    pub to: u64,
    pub did: Did,
}

/// Everything that matters about a server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Lock {
    holds: BTreeSet<Hold>,
    /// Requests by their number in the history, the first to come first.
    queue: Vec<u32>,
    /// The highest so far.
    fence: u64,
    versions: [u64; KEYS.len()],
    /// Nothing happens in these sessions any more.
    ended: BTreeSet<Session>,
}

pub fn overlap(a: Key, b: Key) -> bool {
    KEYS[a as usize].1 & KEYS[b as usize].1 != 0
}

impl Op {
    /// The parts it happens in.
    pub fn parts(&self) -> &'static [Part] {
        match &self.did {
            Did::Reserve { wait: true, .. } | Did::Lost(Request::Reserve { .. }) => &[Part::Ask, Part::Settle],
            _ => &[Part::Whole],
        }
    }

    /// Whether this part of it changes nothing, whenever it happens.
    pub fn only_looks(&self, part: Part) -> bool {
        match &self.did {
            Did::Reserve { came: Outcome::Refused(_), .. } => true,
            Did::Reserve { came, .. } => matches!(came, Outcome::Granted(_)) && part == Part::Settle,
            Did::Release { count, .. } => !count.is_some_and(|count| count > 0),
            Did::ReleaseAll(keys) => keys.is_empty(),
            Did::Renew(..) | Did::Check { .. } | Did::List(_) => true,
            Did::End(_) | Did::Lost(_) | Did::Expire(..) => false,
        }
    }

    /// Whether it need not have happened.
    pub fn is_lost(&self) -> bool {
        matches!(self.did, Did::Lost(_))
    }
}

/// The most conflicts that an answer lists for one key.
const LISTED: usize = 3;

/// Whether an answer lists these conflicts: all of them, or for a key with many, some of them.
fn lists(told: &BTreeSet<Conflict>, all: &BTreeSet<Conflict>) -> bool {
    let of = |list: &BTreeSet<Conflict>, asked: Key| list.iter().filter(|one| one.asked == asked).count();
    told.is_subset(all)
        && all.iter().all(|one| {
            let (listed, found) = (of(told, one.asked), of(all, one.asked));
            // Several waits of one session for one key look the same here, but each is listed.
            listed == found || listed == LISTED || (one.waiting && listed > 0)
        })
}

impl Lock {
    /// The state after one step of the history; `None` if the step cannot happen now.
    pub fn after(&self, history: &[Op], op: u32, part: Part) -> Vec<Lock> {
        let Op { session, did, .. } = &history[op as usize];
        let mut next = self.clone();
        let possible = match (did, part) {
            (Did::Reserve { keys, exclusive, came: Outcome::Refused(told), .. }, _) => {
                let in_the_way = self.in_the_way(history, *session, keys, *exclusive, self.queue.len());
                !told.is_empty() && lists(told, &in_the_way)
            }
            (Did::Reserve { keys, exclusive, came, .. }, Part::Whole | Part::Ask) => {
                if self.in_the_way(history, *session, keys, *exclusive, self.queue.len()).is_empty() {
                    // A change from exclusive to shared may be what others wait for.
                    next.grant(history, op) && next.seat(history)
                } else if part == Part::Whole {
                    false
                } else {
                    next.queue.push(op);
                    // A cycle is refused at once, or later when another change closes it.
                    if *came == Outcome::Deadlock {
                        return vec![self.clone(), next];
                    }
                    true
                }
            }
            (Did::Reserve { came: Outcome::Granted(_), .. }, Part::Settle) => !self.queue.contains(&op),
            (Did::Reserve { keys, exclusive, came, .. }, Part::Settle) => {
                match self.queue.iter().position(|waiter| *waiter == op) {
                    Some(place) => {
                        let told = match came {
                            Outcome::TimedOut(told) => {
                                lists(told, &self.in_the_way(history, *session, keys, *exclusive, place))
                            }
                            _ => true,
                        };
                        next.queue.remove(place);
                        told && next.seat(history)
                    }
                    None => *came == Outcome::Deadlock,
                }
            }
            (Did::Release { keys, count: None }, _) => self.is_foreign(*session, keys),
            (Did::Release { keys, count: Some(count) }, _) => {
                let freed = keys.iter().filter(|key| next.free(*session, **key)).count();
                !self.is_foreign(*session, keys) && freed == *count && next.seat(history)
            }
            (Did::ReleaseAll(released), _) => {
                let own = self.held_by(*session);
                let freed = own.iter().filter(|key| next.free(*session, **key)).count();
                own == *released && freed == own.len() && next.seat(history)
            }
            (Did::End(released), _) => {
                let own = self.held_by(*session);
                for key in &own {
                    next.free(*session, *key);
                }
                next.ended.insert(*session);
                own == *released && next.seat(history)
            }
            (Did::Lost(_), _) if self.ended.contains(session) => false,
            (Did::Lost(Request::Reserve { .. }), Part::Settle) => {
                let given_back = |hold: &&Hold| hold.session == *session && hold.fence == UNKNOWN_FENCE;
                let keys: Vec<Key> = self.holds.iter().filter(given_back).map(|hold| hold.key).collect();
                for key in &keys {
                    next.free(*session, *key);
                }
                !keys.is_empty() && next.seat(history)
            }
            (Did::Lost(Request::Reserve { keys, exclusive }), _) => {
                keys.iter().for_each(|key| next.grant_unseen(*session, *key, *exclusive));
                let in_the_way = self.in_the_way(history, *session, keys, *exclusive, self.queue.len());
                in_the_way.is_empty() && next.seat(history)
            }
            (Did::Lost(Request::Release(keys)), _) => {
                for key in keys {
                    next.free(*session, *key);
                }
                !self.is_foreign(*session, keys) && next.seat(history)
            }
            (Did::Lost(Request::ReleaseAll), _) => {
                for key in self.held_by(*session) {
                    next.free(*session, key);
                }
                next.seat(history)
            }
            (Did::Renew(key, fence), _) => self.held(*session, *key).map(|hold| hold.fence) == *fence,
            (Did::Check { keys, conflicts }, _) => lists(conflicts, &self.blocked_by(*session, keys, true)),
            (Did::List(all), _) => self.is_list(all),
            (Did::Expire(key, fence), _) => {
                let running = self.held(*session, *key).is_some_and(|hold| hold.fence == *fence);
                running && next.free(*session, *key) && next.seat(history)
            }
        };
        if possible { vec![next] } else { Vec::new() }
    }

    fn held(&self, session: Session, key: Key) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.session == session && hold.key == key)
    }

    fn held_by(&self, session: Session) -> BTreeSet<Key> {
        self.holds.iter().filter(|hold| hold.session == session).map(|hold| hold.key).collect()
    }

    /// Whether another session holds one of these keys and this one does not.
    fn is_foreign(&self, session: Session, keys: &[Key]) -> bool {
        keys.iter().any(|key| self.held(session, *key).is_none() && self.holds.iter().any(|hold| hold.key == *key))
    }

    /// Whether this is everything that is held.
    fn is_list(&self, all: &BTreeSet<Hold>) -> bool {
        let is_told = |(hold, told): (&Hold, &Hold)| {
            let fence = if hold.fence == UNKNOWN_FENCE { told.fence } else { hold.fence };
            Hold { fence, ..*hold } == *told
        };
        // The fence comes last in the order, and a session holds a key once.
        self.holds.len() == all.len() && self.holds.iter().zip(all).all(is_told)
    }

    /// Reservations of others that cannot be held beside these keys.
    fn blocked_by(&self, session: Session, keys: &[Key], exclusive: bool) -> BTreeSet<Conflict> {
        let conflict = |asked: Key, hold: &Hold| {
            let clash = hold.session != session && overlap(asked, hold.key) && (hold.exclusive || exclusive);
            let Hold { key, session, exclusive, .. } = *hold;
            clash.then_some(Conflict { asked, key, session, exclusive, waiting: false })
        };
        keys.iter().flat_map(|key| self.holds.iter().filter_map(move |hold| conflict(*key, hold))).collect()
    }

    /// What stands in the way of a request that is at this place of the queue: holders, and where there are none,
    /// whoever came before. What one holds already is no question.
    fn in_the_way(
        &self,
        history: &[Op],
        session: Session,
        keys: &[Key],
        exclusive: bool,
        place: usize,
    ) -> BTreeSet<Conflict> {
        let held = |key: &Key| self.held(session, *key).map(|hold| hold.exclusive);
        let keys: Vec<Key> =
            keys.iter().copied().filter(|key| held(key).is_none_or(|held| exclusive && !held)).collect();
        let holders = self.blocked_by(session, &keys, exclusive);
        if !holders.is_empty() {
            return holders;
        }
        let mut waiters = BTreeSet::new();
        for waiter in &self.queue[..place] {
            let Op { session: other, did: Did::Reserve { keys: wanted, exclusive: alone, .. }, .. } =
                &history[*waiter as usize]
            else {
                unreachable!("only requests for keys wait")
            };
            for (asked, key) in keys.iter().flat_map(|asked| wanted.iter().map(move |key| (*asked, *key))) {
                // A holder that asks for more does not wait behind requests that wait for its release.
                let first = (*alone || exclusive) && !held(&asked).is_some_and(|held| held || *alone);
                if *other != session && overlap(asked, key) && first {
                    waiters.insert(Conflict { asked, key, session: *other, exclusive: *alone, waiting: true });
                }
            }
        }
        waiters
    }

    /// Gives a request what its answer says it got: old fences for what was held, new and higher ones for the rest.
    fn grant(&mut self, history: &[Op], op: u32) -> bool {
        let Op { session, did: Did::Reserve { exclusive, came: Outcome::Granted(grants), .. }, .. } =
            &history[op as usize]
        else {
            return false;
        };
        grants.iter().all(|&(key, fence, version)| {
            let before = self.held(*session, key).copied();
            let right = match before {
                Some(hold) => hold.fence == fence,
                None => fence > self.fence,
            };
            if let Some(hold) = before {
                self.holds.remove(&hold);
            }
            self.holds.insert(Hold { key, session: *session, exclusive: *exclusive, fence });
            self.fence = self.fence.max(fence);
            right && self.versions[key as usize] == version
        })
    }

    /// Gives a key to a session that was not told so.
    fn grant_unseen(&mut self, session: Session, key: Key, exclusive: bool) {
        let before = self.held(session, key).copied();
        if let Some(hold) = before {
            self.holds.remove(&hold);
        }
        let fence = before.map_or(UNKNOWN_FENCE, |hold| hold.fence);
        self.holds.insert(Hold { key, session, exclusive, fence });
    }

    fn free(&mut self, session: Session, key: Key) -> bool {
        let Some(hold) = self.held(session, key).copied() else { return false };
        self.holds.remove(&hold);
        self.versions[key as usize] += 1;
        true
    }

    /// Grants every waiting request that has no blocker any more, in order.
    fn seat(&mut self, history: &[Op]) -> bool {
        let mut place = 0;
        while let Some(&op) = self.queue.get(place) {
            let Op { session, did: Did::Reserve { keys, exclusive, .. }, .. } = &history[op as usize] else {
                unreachable!("only requests for keys wait")
            };
            if self.in_the_way(history, *session, keys, *exclusive, place).is_empty() {
                self.queue.remove(place);
                if !self.grant(history, op) {
                    return false;
                }
                place = 0;
            } else {
                place += 1;
            }
        }
        true
    }
}
