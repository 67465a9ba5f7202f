//! Deadlocks: sessions that wait for each other in a cycle.
//!
//! A session waits for another if one of its waits is blocked by a reservation or an earlier wait of the other. A cycle is
//! searched from both ends: forward along "waits for" from the keys of the request, and backward from the session itself.
//! A backward step reads everything that a session holds, so the side that costs less goes first, and the search ends as
//! soon as either side is exhausted. Mostly no session ahead waits itself, and nothing has to be read backward. A long queue
//! is followed once per search, not once per session in it.

use std::ops::ControlFlow;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::command::CycleStep;
use super::conflict::{clash, is_ahead, is_enough};
use super::ids::WaiterId;
use super::index::Place;
use super::record::{LeftWhy, Mode, Want};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{Engine, QueuedKey, Reservation};
use super::turn::Turn;
use super::work::LOOKUP_WORK;
use crate::key::Key;

/// A queue up to this length is cheaper to read again than to remember as read.
const SHORT_QUEUE: usize = 8;

/// One session waits for another: the key it wants, and the key of the other session that blocks it.
#[derive(Clone, Copy)]
struct Edge<'a> {
    from: SessionSlot,
    wants: &'a Key,
    holds: &'a Key,
}

/// One key that a session waits for or would wait for.
#[derive(Clone, Copy)]
struct Demand<'a> {
    session: SessionSlot,
    key: &'a Key,
    /// The key's place, if it has one.
    place: Option<PlaceSlot>,
    /// How the session holds the key now.
    held: Option<Mode>,
    mode: Mode,
    /// Only waits before this one are ahead of it in the queue.
    before: WaiterId,
}

/// One side of the search.
struct Side<'a> {
    /// The session where the search began. It has no way.
    root: SessionSlot,
    /// The way to every session reached so far, in the order in which they were reached.
    ways: Vec<Way<'a>>,
    /// The index of a session's way.
    reached: HashMap<SessionSlot, usize>,
    /// The way whose end was expanded last; none while it is the root.
    at: Option<usize>,
    /// The root is still to be expanded.
    is_new: bool,
    /// How many keys were read to expand it so far.
    cost: usize,
    /// A way back to the root: a cycle.
    back: Option<Way<'a>>,
    /// How far the queue of a place was read. The other parts of the key decide which of its entries count.
    followed: HashMap<(PlaceSlot, bool, Mode), usize>,
}

struct Way<'a> {
    end: SessionSlot,
    /// The last step.
    edge: Edge<'a>,
    /// The steps before it.
    before: Option<usize>,
}

impl<'a> Side<'a> {
    fn from(root: SessionSlot) -> Self {
        let (ways, reached, followed) = (Vec::new(), HashMap::new(), HashMap::new());
        Self { root, ways, reached, at: None, is_new: true, cost: 0, back: None, followed }
    }

    /// Adds a session that is one step from the one being expanded.
    fn reach(&mut self, end: SessionSlot, edge: Edge<'a>) {
        if end == self.root {
            self.back.get_or_insert(Way { end, edge, before: self.at });
        } else if let Entry::Vacant(new) = self.reached.entry(end) {
            new.insert(self.ways.len());
            self.ways.push(Way { end, edge, before: self.at });
        }
    }

    /// The next session to expand.
    fn next(&self) -> Option<SessionSlot> {
        if self.is_new {
            return Some(self.root);
        }
        self.ways.get(self.at.map_or(0, |at| at + 1)).map(|way| way.end)
    }

    /// Begins to expand the next session, which takes reading this many keys.
    fn advance(&mut self, keys: usize) {
        self.cost += keys;
        if !std::mem::take(&mut self.is_new) {
            self.at = Some(self.at.map_or(0, |at| at + 1));
        }
    }

    /// The first session, starting with the given way, that the other side has reached too.
    fn meets(&self, other: &Side<'_>, first: usize) -> Option<SessionSlot> {
        self.ways[first..].iter().map(|way| way.end).find(|end| other.reached.contains_key(end))
    }

    /// The steps to a session that was reached, the last one first.
    fn steps(&self, end: SessionSlot) -> impl Iterator<Item = Edge<'a>> {
        self.steps_of(self.reached.get(&end).map(|at| &self.ways[*at]))
    }

    fn steps_of<'b>(&'b self, last: Option<&'b Way<'a>>) -> impl Iterator<Item = Edge<'a>> + 'b {
        std::iter::successors(last, |way| way.before.map(|at| &self.ways[at])).map(|way| way.edge)
    }
}

impl Engine {
    /// Notes the waits that name a key which their own session is about to lose, or to hold only shared.
    pub(super) fn note_weakened(&self, turn: &mut Turn, slot: ReservationSlot) {
        let reservation = &self.reservations[slot];
        let queue = self.index.place(reservation.place).queue.iter();
        let own = queue.filter(|entry| entry.session == reservation.session);
        turn.weakened.extend(own.map(|entry| entry.waiter));
    }

    /// Ends a wait that became part of a cycle because its session lost a key that the wait names too. The wait is then
    /// behind others for that key, and one of those may wait for the session.
    pub(super) fn dismiss_deadlocked(&mut self, turn: &mut Turn, id: WaiterId) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        if self.find_cycle(waiter.session, &waiter.wants, waiter.mode, id).is_some() {
            self.totals.deadlocks += 1;
            self.leave(turn, id, LeftWhy::Deadlock);
        }
    }

    /// The cycle that exists if this session waits for these keys at this position in the queue.
    pub(super) fn find_cycle<'a>(
        &'a self,
        session: SessionSlot,
        wants: &'a [Want],
        mode: Mode,
        position: WaiterId,
    ) -> Option<Vec<CycleStep>> {
        let (mut ahead, behind) = (Side::from(session), Side::from(session));
        ahead.advance(wants.len());
        for want in wants {
            let lookup = self.lookup(session, &want.key);
            let (key, at, held) = (&want.key, lookup.place(), self.mode_of(lookup));
            self.add_blockers(Demand { session, key, place: at, held, mode, before: position }, &mut ahead);
        }
        self.join(ahead, behind)
    }

    /// The cycle that would exist if this session, which may have waits, got this key.
    pub(super) fn find_cycle_by_holding<'a>(
        &'a self,
        session: SessionSlot,
        key: &'a Key,
        mode: Mode,
    ) -> Option<Vec<CycleStep>> {
        let mut ahead = Side::from(session);
        ahead.advance(self.sessions[session].queued_keys.len());
        for queued in &self.sessions[session].queued_keys {
            let mut demand = self.demand_of(session, queued);
            // A wait for the same key would be over then, or want only a stronger mode.
            if demand.key == key {
                demand.held = Some(mode);
            }
            self.add_blockers(demand, &mut ahead);
        }
        if ahead.ways.is_empty() {
            return None;
        }
        let mut behind = Side::from(session);
        behind.advance(1);
        self.add_waiters_behind(session, (self.index.find(key), key), mode, None, &mut behind);
        self.join(ahead, behind)
    }

    fn join<'a>(&'a self, mut ahead: Side<'a>, mut behind: Side<'a>) -> Option<Vec<CycleStep>> {
        let mut meeting = ahead.meets(&behind, 0);
        while meeting.is_none() && ahead.back.is_none() {
            let (next_ahead, next_behind) = (ahead.next()?, behind.next()?);
            // A backward step reads what a session holds and waits for, a forward step only what it waits for.
            let forward = self.sessions[next_ahead].queued_keys.len();
            let backward = self.sessions[next_behind].held.len() + self.sessions[next_behind].queued_keys.len();
            // A decision that takes too much work is refused.
            if !self.index.meter.spend(LOOKUP_WORK) {
                return None;
            }
            meeting = if ahead.cost + forward <= behind.cost + backward {
                let known = ahead.ways.len();
                ahead.advance(forward);
                self.add_blocking_sessions(next_ahead, &mut ahead);
                ahead.meets(&behind, known)
            } else {
                let known = behind.ways.len();
                behind.advance(backward);
                self.add_waiting_sessions(next_behind, &mut behind);
                behind.meets(&ahead, known)
            };
        }
        // From the session to the meeting point along one side, and back to the session along the other.
        let mut edges: Vec<Edge<'_>> = match meeting {
            Some(meeting) => ahead.steps(meeting).collect(),
            None => ahead.steps_of(ahead.back.as_ref()).collect(),
        };
        edges.reverse();
        edges.extend(meeting.into_iter().flat_map(|meeting| behind.steps(meeting)));
        let before = edges.iter().cycle().skip(edges.len() - 1);
        let steps = edges.iter().zip(before).map(|(edge, before)| CycleStep {
            session: self.sessions[edge.from].id.clone(),
            holds: before.holds.clone(),
            wants: edge.wants.clone(),
        });
        Some(steps.collect())
    }

    /// Adds the sessions that this session waits for.
    fn add_blocking_sessions<'a>(&'a self, session: SessionSlot, side: &mut Side<'a>) {
        for queued in &self.sessions[session].queued_keys {
            self.add_blockers(self.demand_of(session, queued), side);
        }
    }

    fn demand_of(&self, session: SessionSlot, queued: &QueuedKey) -> Demand<'_> {
        let QueuedKey { waiter: before, place, mode } = *queued;
        let held = self.mode_of(self.lookup_at(session, place));
        Demand { session, key: &self.index.place(place).key, place: Some(place), held, mode, before }
    }

    /// Adds the sessions that block one key. These are the same as in `blockers`.
    fn add_blockers<'a>(&'a self, demand: Demand<'a>, side: &mut Side<'a>) {
        let Demand { session: from, key: wants, place, held, mode, before } = demand;
        if is_enough(held, mode) {
            return;
        }
        self.index.meter.spend(LOOKUP_WORK);
        let blocks = |reservation: &Reservation| {
            reservation.session != from && clash(reservation.mode, mode) && !self.is_over(reservation)
        };
        let concerns = |place: &Place| {
            !place.queue.is_empty() || place.holders.iter().any(|slot| blocks(&self.reservations[slot]))
        };
        let _: ControlFlow<()> = self.index.visit_overlaps_at(place, wants, concerns, |id| {
            let place = self.index.place(id);
            let queue = &place.queue[..place.queue.partition_point(|entry| entry.waiter < before)];
            let mut first = 0;
            if queue.len() > SHORT_QUEUE {
                let followed = side.followed.entry((id, held.is_some(), mode)).or_insert(0);
                first = queue.len().min(*followed);
                *followed = queue.len().max(*followed);
            }
            if first == 0 {
                for reservation in place.holders.iter().map(|slot| &self.reservations[slot]) {
                    if blocks(reservation) {
                        let to = reservation.session;
                        side.reach(to, Edge { from, wants, holds: &reservation.key });
                    }
                }
            }
            for entry in &queue[first..] {
                if entry.session != from && is_ahead(entry.mode, held, mode) {
                    let to = entry.session;
                    side.reach(to, Edge { from, wants, holds: &place.key });
                }
            }
            ControlFlow::Continue(())
        });
    }

    /// Adds the sessions that wait for this session: for a key it holds, or behind it in the queue.
    fn add_waiting_sessions<'a>(&'a self, session: SessionSlot, side: &mut Side<'a>) {
        if self.waiters.is_empty() {
            return;
        }
        for slot in self.sessions[session].held.iter(&self.reservations) {
            let held = &self.reservations[slot];
            self.add_waiters_behind(session, (Some(held.place), &held.key), held.mode, None, side);
        }
        for queued in &self.sessions[session].queued_keys {
            let wants = &self.index.place(queued.place).key;
            self.add_waiters_behind(session, (Some(queued.place), wants), queued.mode, Some(queued.waiter), side);
        }
    }

    /// Adds the sessions that wait for a held key, or that are behind a wait for it.
    fn add_waiters_behind<'a>(
        &'a self,
        to: SessionSlot,
        (place, holds): (Option<PlaceSlot>, &'a Key),
        mode: Mode,
        after: Option<WaiterId>,
        side: &mut Side<'a>,
    ) {
        self.index.meter.spend(LOOKUP_WORK);
        let is_waited_for = |place: &Place| !place.queue.is_empty();
        let _: ControlFlow<()> = self.index.visit_overlaps_at(place, holds, is_waited_for, |id| {
            let place = self.index.place(id);
            let first = after.map_or(0, |after| place.queue.partition_point(|entry| entry.waiter <= after));
            let mut queue = &place.queue[first..];
            if queue.len() > SHORT_QUEUE {
                let all = place.queue.len();
                let followed = side.followed.entry((id, after.is_some(), mode)).or_insert(all);
                queue = &place.queue[first..(*followed).max(first)];
                *followed = first.min(*followed);
            }
            for entry in queue {
                if entry.session == to || !clash(entry.mode, mode) {
                    continue;
                }
                // The same exceptions as in `blockers`; otherwise the search would find cycles that do not exist.
                let held = self.mode_at(place, entry.session);
                let passes = after.is_some() && held.is_some_and(|held| clash(held, mode));
                if !is_enough(held, entry.mode) && !passes {
                    let from = entry.session;
                    side.reach(from, Edge { from, wants: &place.key, holds });
                }
            }
            ControlFlow::Continue(())
        });
    }
}
