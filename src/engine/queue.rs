//! Waiting: a fair queue. A request waits as a whole: half a grant would let two sessions block each other. No request
//! overtakes an earlier one that it conflicts with.

use std::ops::ControlFlow;
use std::time::Duration;

use super::command::{Outcome, Refusal, Reserve};
use super::ids::{Text, WaiterId};
use super::index::Place;
use super::record::{Event, LeftWhy, Want};
use super::reserve::KeyRequest;
use super::slab::SessionSlot;
use super::state::{Engine, Waiter};
use super::turn::Turn;
use super::work::{GRANT_WORK, WAIT_WORK};

/// When waits are looked at that took too much work before.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Engine {
    /// Adds a blocked request to the end of the queue, unless it would wait forever.
    pub(super) fn enqueue(
        &mut self,
        turn: &mut Turn,
        slot: SessionSlot,
        ask: &Reserve,
        wants: &[Want],
        feature: Option<&Text>,
        wait: Duration,
    ) -> Result<Outcome, Refusal> {
        let limit = self.policy.waiters_per_session;
        if self.sessions[slot].waits.len() >= limit {
            return Err(Refusal::OverQuota { what: "waiting requests of one session", limit });
        }
        // Versions only grow: a version that is wrong now will never be right.
        self.at_version(wants, ask.if_version)?;
        if let Some(cycle) = self.find_cycle(slot, wants, ask.mode, WaiterId::LAST) {
            return Err(Refusal::Deadlock(cycle));
        }
        self.refuse_if_incomplete()?;
        let Reserve { mode, if_version, .. } = *ask;
        let (session, wants, reason) = (ask.session.clone(), wants.to_vec(), ask.reason.clone());
        let id = WaiterId::from(self.emit(turn, Event::Queued { session, wants, mode, reason, if_version }));
        let until = self.listening(turn.now).after(wait);
        let waiter = self.waiters.get_mut(&id).expect("just queued");
        (waiter.until, waiter.feature) = (until, feature.cloned());
        self.wait_deadlines.insert((until, id));
        Ok(Outcome::Queued(id))
    }

    /// Ends a wait without a grant. Waits behind it may become free to go.
    pub(super) fn leave(&mut self, turn: &mut Turn, id: WaiterId, why: LeftWhy) {
        let Some(waiter) = self.waiters.get(&id).cloned() else { return };
        let refusal = match why {
            LeftWhy::Version => self.at_version(&waiter.wants, waiter.if_version).err(),
            LeftWhy::Paused => {
                self.pause_of(waiter.session, waiter.feature.as_ref()).map(|pause| Refusal::Paused(Box::new(pause)))
            }
            LeftWhy::TimedOut => {
                let conflicts = self.conflicts(waiter.session, &waiter.wants, waiter.mode, id);
                self.totals.conflicts += u64::from(!conflicts.is_empty());
                Some(Refusal::WaitOver { why, conflicts })
            }
            LeftWhy::Deadlock => self.find_cycle(waiter.session, &waiter.wants, waiter.mode, id).map(Refusal::Deadlock),
            LeftWhy::Gone | LeftWhy::Stopped | LeftWhy::Ended => None,
        };
        let refusal = refusal.unwrap_or(Refusal::WaitOver { why, conflicts: Vec::new() });
        let session = self.sessions[waiter.session].id.clone();
        self.emit(turn, Event::Left { waiter: id, session, why });
        turn.settled.push((id, Err(refusal)));
        turn.freed.extend(waiter.wants.into_iter().map(|want| want.key));
    }

    /// Grants every wait that nothing blocks any more, in the order of the queue. Only waits for a freed key can be
    /// unblocked. Then ends the waits that became part of a cycle.
    ///
    /// Where that takes much work, the rest of the waits is looked at a moment later; see [`Engine::undecided`].
    pub(super) fn grant_waiters(&mut self, turn: &mut Turn) {
        if turn.freed.is_empty() && turn.look_again.is_empty() {
            return;
        }
        let mut candidates = std::mem::take(&mut turn.look_again);
        let work_before = self.index.meter.spent();
        self.index.meter.begin(WAIT_WORK, false);
        loop {
            for key in std::mem::take(&mut turn.freed) {
                let is_waited_for = |place: &Place| !place.queue.is_empty();
                let _: ControlFlow<()> = self.index.visit_overlaps(&key, is_waited_for, |place| {
                    candidates.extend(self.index.place(place).queue.iter().map(|entry| entry.waiter));
                    ControlFlow::Continue(())
                });
                if self.index.meter.is_exhausted() {
                    // It is not known which waits the key concerns, so it may concern all of them.
                    candidates.extend(self.waiters.keys());
                }
            }
            if self.index.meter.spent().wrapping_sub(work_before) > GRANT_WORK && !candidates.is_empty() {
                self.undecided.extend(std::mem::take(&mut candidates));
                self.undecided_until = turn.now.after(LOOK_AGAIN_AFTER);
            }
            let Some(id) = candidates.pop_first() else {
                match turn.weakened.pop_first() {
                    Some(id) => self.dismiss_deadlocked(turn, id),
                    None => return,
                }
                continue;
            };
            let Some(waiter) = self.waiters.get(&id) else { continue };
            // Versions only grow: such a wait would never be granted, and would block those behind it for nothing.
            if self.at_version(&waiter.wants, waiter.if_version).is_err() {
                self.leave(turn, id, LeftWhy::Version);
                continue;
            }
            self.index.meter.begin(WAIT_WORK, false);
            // A wait that takes too much work for one look stays in the queue.
            if self.is_waiter_blocked(id, waiter) || self.index.meter.is_exhausted() {
                if waiter.until <= self.listening(turn.now) {
                    self.wait_deadlines.insert((waiter.until, id));
                }
                continue;
            }
            let waiter = waiter.clone();
            let session = self.sessions[waiter.session].id.clone();
            self.emit(turn, Event::Seated { waiter: id, session: session.clone() });
            // Looked up again: a place that existed only for this wait is gone by now.
            let lookups: Vec<_> = waiter.wants.iter().map(|want| self.lookup(waiter.session, &want.key)).collect();
            let Waiter { session: slot, wants, mode, reason, .. } = &waiter;
            let reason = reason.as_ref();
            let request = KeyRequest { session: *slot, id: &session, wants, lookups: &lookups, mode: *mode, reason };
            let grants = self.grant(turn, &request);
            turn.settled.push((id, Ok(Outcome::Granted(grants))));
        }
    }

    /// Whether anything blocks a wait. What blocked it before is looked at first: mostly it still does.
    pub(super) fn is_waiter_blocked(&self, id: WaiterId, waiter: &Waiter) -> bool {
        let Waiter { session, ref wants, ref places, mode, ref blocked_at, .. } = *waiter;
        let first = blocked_at.get();
        let found = (first..wants.len()).chain(0..first).find(|at| {
            let lookup = self.lookup_at(session, places[*at]);
            self.is_blocked(session, &wants[*at..=*at], &[lookup], mode, id)
        });
        found.inspect(|at| blocked_at.set(*at)).is_some()
    }
}
