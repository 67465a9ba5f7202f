//! Would a wait close a circle?
//!
//! A session waits for another when a live wait of the one is blocked by what the other holds, or by a wait of the
//! other that came first. The search goes from both ends, along "waits for" from what is asked and against it from the
//! asker, always from the end with fewer sessions to look at, so it is over as soon as either has nowhere to go.
//! A long queue is followed once, not once for everybody who stands in it.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::command::CycleStep;
use super::ids::Seq;
use super::index::PlaceId;
use super::record::{Mode, Want};
use super::reserve::{clash, is_enough, stands_before};
use super::state::Engine;
use crate::key::Key;

/// Where at most so many wait, looking again costs less than remembering that one has looked.
const SHORT_QUEUE: usize = 8;

/// One session waits for another: what it wants, and what of the other's is in the way.
#[derive(Clone, Copy)]
struct Edge<'a> {
    from: u32,
    to: u32,
    wants: &'a Key,
    holds: &'a Key,
}

/// A search from one end: how each session was reached, and whom to look at next.
struct Side<'a> {
    /// Where the search began, which is no way to anywhere.
    root: u32,
    reached: HashMap<u32, Edge<'a>>,
    next: VecDeque<u32>,
    /// Up to which position the queue of a place was followed; the rest of the name decides who in it counts.
    followed: HashMap<(PlaceId, bool, Mode), usize>,
}

impl<'a> Side<'a> {
    fn from(root: u32) -> Self {
        Self { root, reached: HashMap::new(), next: VecDeque::new(), followed: HashMap::new() }
    }

    fn reach(&mut self, session: u32, edge: Edge<'a>) {
        if session != self.root
            && let Entry::Vacant(new) = self.reached.entry(session)
        {
            new.insert(edge);
            self.next.push_back(session);
        }
    }

    /// The first session in line, from the given one on, that the other side has reached too.
    fn meets(&self, other: &Side<'_>, first: usize) -> Option<u32> {
        self.next.range(first..).find(|session| other.reached.contains_key(*session)).copied()
    }
}

impl Engine {
    /// The circle that would close, or has closed, if this session waits for these keys at this place in the queue.
    pub(super) fn circle<'a>(
        &'a self,
        session: u32,
        wants: &'a [Want],
        mode: Mode,
        place: Seq,
    ) -> Option<Vec<CycleStep>> {
        let mut behind = Side::from(session);
        self.waiting_for(session, &mut behind);
        if behind.next.is_empty() {
            return None;
        }
        let mut ahead = Side::from(session);
        for want in wants {
            self.blocked_at(self.held_mode(session, &want.key), session, &want.key, mode, place, &mut ahead);
        }
        self.join(session, ahead, behind)
    }

    /// The circle that would close if this session, which may be waiting for others, came to hold this key.
    pub(super) fn circle_by_holding<'a>(&'a self, session: u32, key: &'a Key, mode: Mode) -> Option<Vec<CycleStep>> {
        let mut ahead = Side::from(session);
        for seq in &self.sessions[session].waits {
            let waiter = &self.waiters[seq];
            for want in &waiter.wants {
                // A wait for that very key is over then, or only wants more of it.
                let held = if want.key == *key { Some(mode) } else { self.held_mode(session, &want.key) };
                self.blocked_at(held, session, &want.key, waiter.mode, *seq, &mut ahead);
            }
        }
        if ahead.next.is_empty() {
            return None;
        }
        let mut behind = Side::from(session);
        self.waiting_behind(session, key, mode, None, &mut behind);
        self.join(session, ahead, behind)
    }

    fn join<'a>(&'a self, session: u32, mut ahead: Side<'a>, mut behind: Side<'a>) -> Option<Vec<CycleStep>> {
        let mut meeting = ahead.meets(&behind, 0);
        while meeting.is_none() {
            meeting = if ahead.next.len() <= behind.next.len() {
                let at = ahead.next.pop_front()?;
                let known = ahead.next.len();
                self.waits_of(at, &mut ahead);
                ahead.meets(&behind, known)
            } else {
                let at = behind.next.pop_front()?;
                let known = behind.next.len();
                self.waiting_for(at, &mut behind);
                behind.meets(&ahead, known)
            };
        }
        // From the asker to the meeting point along the one side, and on to the asker again along the other.
        let meeting = meeting?;
        let mut edges = VecDeque::new();
        let mut at = meeting;
        while at != session {
            let edge = ahead.reached[&at];
            at = edge.from;
            edges.push_front(edge);
        }
        at = meeting;
        while at != session {
            let edge = behind.reached[&at];
            at = edge.to;
            edges.push_back(edge);
        }
        let before = edges.iter().cycle().skip(edges.len() - 1);
        let steps = edges.iter().zip(before).map(|(edge, before)| CycleStep {
            session: self.sessions[edge.from].id.clone(),
            holds: before.holds.clone(),
            wants: edge.wants.clone(),
        });
        Some(steps.collect())
    }

    /// Whom the session waits for, by each of its waits.
    fn waits_of<'a>(&'a self, session: u32, side: &mut Side<'a>) {
        for seq in &self.sessions[session].waits {
            let waiter = &self.waiters[seq];
            for want in &waiter.wants {
                let held = self.held_mode(session, &want.key);
                self.blocked_at(held, session, &want.key, waiter.mode, *seq, side);
            }
        }
    }

    /// Whom the session waits for, or would, with one key: the same as the blockers of that key.
    fn blocked_at<'a>(
        &'a self,
        held: Option<Mode>,
        from: u32,
        wants: &'a Key,
        mode: Mode,
        before: Seq,
        side: &mut Side<'a>,
    ) {
        if is_enough(held, mode) {
            return;
        }
        let _: ControlFlow<()> = self.index.meet(wants, |id| {
            let place = self.index.place(id);
            let queue = &place.waiters[..place.waiters.partition_point(|seq| *seq < before)];
            let mut first = 0;
            if queue.len() > SHORT_QUEUE {
                let followed = side.followed.entry((id, held.is_some(), mode)).or_insert(0);
                first = queue.len().min(*followed);
                *followed = queue.len().max(*followed);
            }
            if first == 0 {
                for reservation in place.holders.iter().map(|slot| &self.reservations[slot]) {
                    if reservation.session != from && clash(reservation.mode, mode) {
                        let to = reservation.session;
                        side.reach(to, Edge { from, to, wants, holds: &reservation.key });
                    }
                }
            }
            for seq in &queue[first..] {
                let waiter = &self.waiters[seq];
                if waiter.session != from && stands_before(waiter.mode, held, mode) {
                    let to = waiter.session;
                    side.reach(to, Edge { from, to, wants, holds: &place.key });
                }
            }
            ControlFlow::Continue(())
        });
    }

    /// Who waits for the session: for what it holds, or behind it in the queue.
    fn waiting_for<'a>(&'a self, session: u32, side: &mut Side<'a>) {
        if self.waiters.is_empty() {
            return;
        }
        for slot in &self.sessions[session].held {
            let held = &self.reservations[*slot];
            self.waiting_behind(session, &held.key, held.mode, None, side);
        }
        for seq in &self.sessions[session].waits {
            let waiter = &self.waiters[seq];
            for want in &waiter.wants {
                self.waiting_behind(session, &want.key, waiter.mode, Some(*seq), side);
            }
        }
    }

    /// Who waits for a key that is held, or stands behind a wait for it.
    fn waiting_behind<'a>(&'a self, to: u32, holds: &'a Key, mode: Mode, after: Option<Seq>, side: &mut Side<'a>) {
        let _: ControlFlow<()> = self.index.meet(holds, |id| {
            let place = self.index.place(id);
            let first = after.map_or(0, |after| place.waiters.partition_point(|seq| *seq <= after));
            let mut queue = &place.waiters[first..];
            if queue.len() > SHORT_QUEUE {
                let all = place.waiters.len();
                let followed = side.followed.entry((id, after.is_some(), mode)).or_insert(all);
                queue = &place.waiters[first..(*followed).max(first)];
                *followed = first.min(*followed);
            }
            for seq in queue {
                let waiter = &self.waiters[seq];
                if waiter.session == to || !clash(waiter.mode, mode) {
                    continue;
                }
                // The same exceptions as in `blockers`, or there would be circles of waits that nobody waits.
                let held = self.mode_at(place, waiter.session);
                let passes = after.is_some() && held.is_some_and(|held| clash(held, mode));
                if !is_enough(held, waiter.mode) && !passes {
                    let from = waiter.session;
                    side.reach(from, Edge { from, to, wants: &place.key, holds });
                }
            }
            ControlFlow::Continue(())
        });
    }
}
