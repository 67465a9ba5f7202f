//! Would a wait close a circle?
//!
//! A session waits for another when a live wait of the one is blocked by what the other holds, or by a wait of the
//! other that came first. The search goes from both ends, along "waits for" from what is asked and against it from the
//! asker, always from the end with fewer sessions to look at, so it is over as soon as either has nowhere to go.
//! A long queue is followed once, not once for everybody who stands in it.

use std::ops::ControlFlow;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::command::CycleStep;
use super::conflict::{clash, is_enough, stands_before};
use super::ids::Seq;
use super::record::{LeftWhy, Mode, Want};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{Engine, Stand};
use super::turn::Turn;
use crate::key::Key;

/// Where at most so many wait, looking again costs less than remembering that one has looked.
const SHORT_QUEUE: usize = 8;

/// Somebody waits for somebody: what they want, and what of the other's is in the way.
#[derive(Clone, Copy)]
struct Edge<'a> {
    from: SessionSlot,
    wants: &'a Key,
    holds: &'a Key,
}

/// One key that a session waits for, or would.
#[derive(Clone, Copy)]
struct Demand<'a> {
    session: SessionSlot,
    key: &'a Key,
    /// The key's place, if it has one.
    place: Option<PlaceSlot>,
    /// How the session holds the key already.
    held: Option<Mode>,
    mode: Mode,
    /// Waits from this one on are behind it in the queue.
    before: Seq,
}

/// A search from one end.
struct Side<'a> {
    /// Where the search began, which is no way to anywhere.
    root: SessionSlot,
    /// The way to every session that was reached, in the order in which they were.
    ways: Vec<Way<'a>>,
    /// Where among the ways a session's is.
    reached: HashMap<SessionSlot, usize>,
    /// The way whose end was looked at last, or the root before the first.
    at: Option<usize>,
    /// Up to which position the queue of a place was followed; the rest of the name decides who in it counts.
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
        Self { root, ways: Vec::new(), reached: HashMap::new(), at: None, followed: HashMap::new() }
    }

    /// From the session that is looked at, one step leads to this one.
    fn reach(&mut self, end: SessionSlot, edge: Edge<'a>) {
        if end != self.root
            && let Entry::Vacant(new) = self.reached.entry(end)
        {
            new.insert(self.ways.len());
            self.ways.push(Way { end, edge, before: self.at });
        }
    }

    /// How many sessions were reached and not looked at.
    fn left(&self) -> usize {
        self.ways.len() - self.at.map_or(0, |at| at + 1)
    }

    /// The next session to look at.
    fn next(&mut self) -> Option<SessionSlot> {
        let at = self.at.map_or(0, |at| at + 1);
        let way = self.ways.get(at)?;
        self.at = Some(at);
        Some(way.end)
    }

    /// The first session, from the given way on, that the other side has reached too.
    fn meets(&self, other: &Side<'_>, first: usize) -> Option<SessionSlot> {
        self.ways[first..].iter().map(|way| way.end).find(|end| other.reached.contains_key(end))
    }

    /// The steps to a session that was reached, the last one first.
    fn steps(&self, end: SessionSlot) -> impl Iterator<Item = Edge<'a>> {
        let last = self.reached.get(&end).map(|at| &self.ways[*at]);
        std::iter::successors(last, |way| way.before.map(|at| &self.ways[at])).map(|way| way.edge)
    }
}

impl Engine {
    /// Takes note of the waits that count on this reservation of their own session.
    pub(super) fn weaken(&self, turn: &mut Turn, slot: ReservationSlot) {
        let reservation = &self.reservations[slot];
        let waiters = self.index.place(reservation.place).waiters.iter();
        let own = waiters.filter(|waiter| waiter.session == reservation.session);
        turn.weakened.extend(own.map(|waiter| waiter.seq));
    }

    /// A wait whose session lost a key the wait names too stands behind others for that key from now on. Where one of
    /// those waits for the session, neither would ever be granted.
    pub(super) fn dismiss_circle(&mut self, turn: &mut Turn, seq: Seq) {
        let Some(waiter) = self.waiters.get(&seq) else { return };
        if self.circle(waiter.session, &waiter.wants, waiter.mode, seq).is_some() {
            self.totals.deadlocks += 1;
            self.leave(turn, seq, LeftWhy::Deadlock);
        }
    }

    /// The circle that would close, or has closed, if this session waits for these keys at this place in the queue.
    pub(super) fn circle<'a>(
        &'a self,
        session: SessionSlot,
        wants: &'a [Want],
        mode: Mode,
        place: Seq,
    ) -> Option<Vec<CycleStep>> {
        let mut behind = Side::from(session);
        self.waiting_for(session, &mut behind);
        if behind.ways.is_empty() {
            return None;
        }
        let mut ahead = Side::from(session);
        for want in wants {
            let spot = self.spot(session, &want.key);
            let (key, at, held) = (&want.key, spot.place(), self.mode_of(spot));
            self.blocked_at(Demand { session, key, place: at, held, mode, before: place }, &mut ahead);
        }
        self.join(ahead, behind)
    }

    /// The circle that would close if this session, which may be waiting for others, came to hold this key.
    pub(super) fn circle_by_holding<'a>(
        &'a self,
        session: SessionSlot,
        key: &'a Key,
        mode: Mode,
    ) -> Option<Vec<CycleStep>> {
        let mut ahead = Side::from(session);
        for stand in &self.sessions[session].stands {
            let mut demand = self.demand_of(session, stand);
            // A wait for that very key is over then, or only wants more of it.
            if demand.key == key {
                demand.held = Some(mode);
            }
            self.blocked_at(demand, &mut ahead);
        }
        if ahead.ways.is_empty() {
            return None;
        }
        let mut behind = Side::from(session);
        self.waiting_behind(session, (self.index.find(key), key), mode, None, &mut behind);
        self.join(ahead, behind)
    }

    fn join<'a>(&'a self, mut ahead: Side<'a>, mut behind: Side<'a>) -> Option<Vec<CycleStep>> {
        let mut meeting = ahead.meets(&behind, 0);
        while meeting.is_none() {
            // A step back looks at what a session holds and waits for, a step ahead only at the latter.
            meeting = if ahead.left() <= 2 * behind.left() {
                let (at, known) = (ahead.next()?, ahead.ways.len());
                self.waits_of(at, &mut ahead);
                ahead.meets(&behind, known)
            } else {
                let (at, known) = (behind.next()?, behind.ways.len());
                self.waiting_for(at, &mut behind);
                behind.meets(&ahead, known)
            };
        }
        // From the asker to the meeting point along the one side, and on to the asker again along the other.
        let meeting = meeting?;
        let mut edges: Vec<Edge<'_>> = ahead.steps(meeting).collect();
        edges.reverse();
        edges.extend(behind.steps(meeting));
        let before = edges.iter().cycle().skip(edges.len() - 1);
        let steps = edges.iter().zip(before).map(|(edge, before)| CycleStep {
            session: self.sessions[edge.from].id.clone(),
            holds: before.holds.clone(),
            wants: edge.wants.clone(),
        });
        Some(steps.collect())
    }

    /// Whom the session waits for, by each of its waits.
    fn waits_of<'a>(&'a self, session: SessionSlot, side: &mut Side<'a>) {
        for stand in &self.sessions[session].stands {
            self.blocked_at(self.demand_of(session, stand), side);
        }
    }

    /// What one entry of a session's waits demands.
    fn demand_of(&self, session: SessionSlot, stand: &Stand) -> Demand<'_> {
        let Stand { waiter: before, place, mode } = *stand;
        let held = self.mode_of(self.spot_at(session, place));
        Demand { session, key: &self.index.place(place).key, place: Some(place), held, mode, before }
    }

    /// Whom the session waits for, or would, with one key: the same as the blockers of that key.
    fn blocked_at<'a>(&'a self, demand: Demand<'a>, side: &mut Side<'a>) {
        let Demand { session: from, key: wants, place, held, mode, before } = demand;
        if is_enough(held, mode) {
            return;
        }
        let _: ControlFlow<()> = self.index.meet_at(place, wants, |id| {
            let place = self.index.place(id);
            let queue = &place.waiters[..place.waiters.partition_point(|waiter| waiter.seq < before)];
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
                        side.reach(to, Edge { from, wants, holds: &reservation.key });
                    }
                }
            }
            for waiter in &queue[first..] {
                if waiter.session != from && stands_before(waiter.mode, held, mode) {
                    let to = waiter.session;
                    side.reach(to, Edge { from, wants, holds: &place.key });
                }
            }
            ControlFlow::Continue(())
        });
    }

    /// Who waits for the session: for what it holds, or behind it in the queue.
    fn waiting_for<'a>(&'a self, session: SessionSlot, side: &mut Side<'a>) {
        if self.waiters.is_empty() {
            return;
        }
        for slot in &self.sessions[session].held {
            let held = &self.reservations[*slot];
            self.waiting_behind(session, (Some(held.place), &held.key), held.mode, None, side);
        }
        for stand in &self.sessions[session].stands {
            let wants = &self.index.place(stand.place).key;
            self.waiting_behind(session, (Some(stand.place), wants), stand.mode, Some(stand.waiter), side);
        }
    }

    /// Who waits for a key that is held, or stands behind a wait for it.
    fn waiting_behind<'a>(
        &'a self,
        to: SessionSlot,
        (place, holds): (Option<PlaceSlot>, &'a Key),
        mode: Mode,
        after: Option<Seq>,
        side: &mut Side<'a>,
    ) {
        let _: ControlFlow<()> = self.index.meet_at(place, holds, |id| {
            let place = self.index.place(id);
            let first = after.map_or(0, |after| place.waiters.partition_point(|waiter| waiter.seq <= after));
            let mut queue = &place.waiters[first..];
            if queue.len() > SHORT_QUEUE {
                let all = place.waiters.len();
                let followed = side.followed.entry((id, after.is_some(), mode)).or_insert(all);
                queue = &place.waiters[first..(*followed).max(first)];
                *followed = first.min(*followed);
            }
            for waiter in queue {
                if waiter.session == to || !clash(waiter.mode, mode) {
                    continue;
                }
                // The same exceptions as in `blockers`, or there would be circles of waits that nobody waits.
                let held = self.mode_at(place, waiter.session);
                let passes = after.is_some() && held.is_some_and(|held| clash(held, mode));
                if !is_enough(held, waiter.mode) && !passes {
                    let from = waiter.session;
                    side.reach(from, Edge { from, wants: &place.key, holds });
                }
            }
            ControlFlow::Continue(())
        });
    }
}
