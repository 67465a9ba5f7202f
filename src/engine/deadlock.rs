//! Would a wait close a circle?
//!
//! A session waits for another when a live wait of the one is blocked by what the other holds, or by a wait of the
//! other that came first. The search goes from both ends in turn, along "waits for" from what is asked and against
//! it from the asker, so it is over as soon as either side has nowhere to go.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use hashbrown::HashMap;

use super::command::CycleStep;
use super::ids::Seq;
use super::record::{Mode, Want};
use super::reserve::{Blocker, clash, is_enough};
use super::state::Engine;
use crate::key::Key;

/// One session waits for another: what it wants, and what of the other's is in the way.
#[derive(Clone)]
struct Edge {
    from: u32,
    to: u32,
    wants: Key,
    holds: Key,
}

/// A search from one end: how each session was reached, and whom to look at next.
#[derive(Default)]
struct Side {
    reached: HashMap<u32, Edge>,
    next: VecDeque<u32>,
}

impl Side {
    fn reach(&mut self, session: u32, edge: Edge) {
        if !self.reached.contains_key(&session) {
            self.reached.insert(session, edge);
            self.next.push_back(session);
        }
    }
}

impl Engine {
    /// The circle that would close, or has closed, if this session waits for these keys at this place in the queue.
    pub(super) fn circle(&self, session: u32, wants: &[Want], mode: Mode, place: Seq) -> Option<Vec<CycleStep>> {
        let mut behind = Side::default();
        self.waiting_for(session, |edge| behind.reach(edge.from, edge));
        if behind.next.is_empty() {
            return None;
        }
        let mut ahead = Side::default();
        self.blocked_by(session, wants, mode, place, |edge| ahead.reach(edge.to, edge));
        self.join(session, ahead, behind)
    }

    /// The circle that would close if this session, which may be waiting for others, came to hold this key.
    pub(super) fn circle_by_holding(&self, session: u32, key: &Key, mode: Mode) -> Option<Vec<CycleStep>> {
        let mut ahead = Side::default();
        for seq in &self.sessions[session].waits {
            let waiter = &self.waiters[seq];
            for want in &waiter.wants {
                // A wait for that very key is over then, or only wants more of it.
                let held = if want.key == *key { Some(mode) } else { self.held_mode(session, &want.key) };
                self.blocked_at(held, session, &want.key, waiter.mode, *seq, |edge| ahead.reach(edge.to, edge));
            }
        }
        if ahead.next.is_empty() {
            return None;
        }
        let mut behind = Side::default();
        self.waiting_behind(session, key, mode, Seq::ZERO, |edge| behind.reach(edge.from, edge));
        self.join(session, ahead, behind)
    }

    fn join(&self, session: u32, mut ahead: Side, mut behind: Side) -> Option<Vec<CycleStep>> {
        let meets = |ahead: &Side, behind: &Side| {
            let (fewer, more) =
                if ahead.reached.len() < behind.reached.len() { (ahead, behind) } else { (behind, ahead) };
            fewer.reached.keys().find(|id| more.reached.contains_key(*id)).copied()
        };
        let mut found = meets(&ahead, &behind);
        while found.is_none() {
            let at = behind.next.pop_front()?;
            self.waiting_for(at, |edge| {
                if edge.from != session {
                    if ahead.reached.contains_key(&edge.from) {
                        found = Some(edge.from);
                    }
                    behind.reach(edge.from, edge);
                }
            });
            if found.is_some() {
                break;
            }
            let at = ahead.next.pop_front()?;
            self.waits_of(at, |edge| {
                if edge.to != session {
                    if behind.reached.contains_key(&edge.to) {
                        found = Some(edge.to);
                    }
                    ahead.reach(edge.to, edge);
                }
            });
        }
        // From the asker to the meeting point along the one side, and on to the asker again along the other.
        let meeting = found?;
        let mut edges = VecDeque::new();
        let mut at = meeting;
        while at != session {
            let edge = ahead.reached[&at].clone();
            at = edge.from;
            edges.push_front(edge);
        }
        at = meeting;
        while at != session {
            let edge = behind.reached[&at].clone();
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
    fn waits_of(&self, session: u32, mut see: impl FnMut(Edge)) {
        for seq in &self.sessions[session].waits {
            let waiter = &self.waiters[seq];
            self.blocked_by(session, &waiter.wants, waiter.mode, *seq, &mut see);
        }
    }

    fn blocked_by(&self, from: u32, wants: &[Want], mode: Mode, before: Seq, mut see: impl FnMut(Edge)) {
        for want in wants {
            let held = self.held_mode(from, &want.key);
            self.blocked_at(held, from, &want.key, mode, before, &mut see);
        }
    }

    fn blocked_at(&self, held: Option<Mode>, from: u32, key: &Key, mode: Mode, before: Seq, mut see: impl FnMut(Edge)) {
        let _: ControlFlow<()> = self.blockers(held, from, key, mode, before, |place, blocker| {
            let (to, holds) = match blocker {
                Blocker::Holder(slot) => (self.reservations[slot].session, self.reservations[slot].key.clone()),
                Blocker::Waiter(seq) => (self.waiters[&seq].session, self.index.place(place).key.clone()),
            };
            see(Edge { from, to, wants: key.clone(), holds });
            ControlFlow::Continue(())
        });
    }

    /// Who waits for the session: for what it holds, or behind it in the queue.
    fn waiting_for(&self, session: u32, mut see: impl FnMut(Edge)) {
        if self.waiters.is_empty() {
            return;
        }
        for slot in &self.sessions[session].held {
            let held = &self.reservations[*slot];
            self.waiting_behind(session, &held.key, held.mode, Seq::ZERO, &mut see);
        }
        for seq in &self.sessions[session].waits {
            let waiter = &self.waiters[seq];
            for want in &waiter.wants {
                self.waiting_behind(session, &want.key, waiter.mode, *seq, &mut see);
            }
        }
    }

    fn waiting_behind(&self, to: u32, key: &Key, mode: Mode, after: Seq, mut see: impl FnMut(Edge)) {
        let _: ControlFlow<()> = self.index.meet(key, |id| {
            let place = self.index.place(id);
            let first = place.waiters.partition_point(|seq| *seq <= after);
            for seq in &place.waiters[first..] {
                let waiter = &self.waiters[seq];
                if waiter.session == to || !clash(waiter.mode, mode) {
                    continue;
                }
                // The same exceptions as in `blockers`, or there would be circles of waits that nobody waits.
                let held = self.mode_at(place, waiter.session);
                let passes = after > Seq::ZERO && held.is_some_and(|held| clash(held, mode));
                if !is_enough(held, waiter.mode) && !passes {
                    see(Edge { from: waiter.session, to, wants: place.key.clone(), holds: key.clone() });
                }
            }
            ControlFlow::Continue(())
        });
    }
}
