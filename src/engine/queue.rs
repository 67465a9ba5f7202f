//! Waiting: a fair queue in which a request waits as a whole, and nobody passes a waiter they conflict with.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::command::{Outcome, Refusal, Reserve};
use super::ids::{Seq, Text, Timestamp};
use super::record::{Event, LeftWhy, Want};
use super::reserve::KeyRequest;
use super::slab::SessionSlot;
use super::state::{Engine, Spot, Waiter};
use super::turn::Turn;

impl Engine {
    /// Puts a request that cannot be granted now at the end of the queue, unless it would wait forever.
    pub(super) fn enqueue(
        &mut self,
        turn: &mut Turn,
        slot: SessionSlot,
        ask: &Reserve,
        wants: &[Want],
        feature: Option<&Text>,
        until: Timestamp,
    ) -> Result<Outcome, Refusal> {
        let limit = self.policy.waiters_per_session;
        if self.sessions[slot].waits.len() >= limit {
            return Err(Refusal::OverQuota { what: "waiting requests of one session", limit });
        }
        // Versions only grow, so a wrong one now is wrong for good.
        self.at_version(wants, ask.if_version)?;
        if let Some(cycle) = self.circle(slot, wants, ask.mode, Seq(u64::MAX)) {
            return Err(Refusal::Deadlock(cycle));
        }
        let Reserve { mode, if_version, .. } = *ask;
        let (session, wants, reason) = (ask.session.clone(), wants.to_vec(), ask.reason.clone());
        let seq = self.emit(turn, Event::Queued { session, wants, mode, reason, if_version });
        let waiter = self.waiters.get_mut(&seq).expect("just queued");
        (waiter.until, waiter.feature) = (until, feature.cloned());
        self.patience.insert((until, seq));
        Ok(Outcome::Queued(seq))
    }

    /// Ends a wait without a grant; those behind it may move up.
    pub(super) fn leave(&mut self, turn: &mut Turn, seq: Seq, why: LeftWhy) {
        let Some(waiter) = self.waiters.get(&seq).cloned() else { return };
        let refusal = match why {
            LeftWhy::Version => self.at_version(&waiter.wants, waiter.if_version).err(),
            LeftWhy::Paused => {
                self.pause_of(waiter.session, waiter.feature.as_ref()).map(|pause| Refusal::Paused(Box::new(pause)))
            }
            LeftWhy::TimedOut => {
                let conflicts = self.conflicts(waiter.session, &waiter.wants, waiter.mode, seq);
                Some(Refusal::WaitOver { why, conflicts })
            }
            LeftWhy::Deadlock => self.circle(waiter.session, &waiter.wants, waiter.mode, seq).map(Refusal::Deadlock),
            LeftWhy::Gone | LeftWhy::Stopped | LeftWhy::Ended => None,
        };
        let refusal = refusal.unwrap_or(Refusal::WaitOver { why, conflicts: Vec::new() });
        let session = self.sessions[waiter.session].id.clone();
        self.emit(turn, Event::Left { waiter: seq, session, why });
        turn.settled.push((seq, Err(refusal)));
        turn.freed.extend(waiter.wants.into_iter().map(|want| want.key));
    }

    /// Grants every wait that nothing blocks any more, in order. Only those that wait for a freed key can be such.
    pub(super) fn seat(&mut self, turn: &mut Turn) {
        if turn.freed.is_empty() {
            return;
        }
        let mut candidates = BTreeSet::new();
        loop {
            for key in std::mem::take(&mut turn.freed) {
                let _: ControlFlow<()> = self.index.meet(&key, |place| {
                    candidates.extend(self.index.place(place).waiters.iter().map(|waiter| waiter.seq));
                    ControlFlow::Continue(())
                });
            }
            // Whatever the last one freed is wanted by others behind it: it was the one in their way.
            let Some(seq) = candidates.pop_first() else {
                match turn.weakened.pop_first() {
                    Some(seq) => self.dismiss_circle(turn, seq),
                    None => return,
                }
                continue;
            };
            let Some(waiter) = self.waiters.get(&seq) else { continue };
            // Versions only grow: such a wait would never be granted, and those behind it need not stand there for it.
            if self.at_version(&waiter.wants, waiter.if_version).is_err() {
                self.leave(turn, seq, LeftWhy::Version);
                continue;
            }
            if self.is_blocked(waiter.session, &waiter.wants, &self.spots_of(waiter), waiter.mode, seq) {
                continue;
            }
            let waiter = waiter.clone();
            let session = self.sessions[waiter.session].id.clone();
            self.emit(turn, Event::Seated { waiter: seq, session: session.clone() });
            // Found anew: a place that was there only for this wait is gone by now.
            let spots: Vec<_> = waiter.wants.iter().map(|want| self.spot(waiter.session, &want.key)).collect();
            let Waiter { session: slot, wants, mode, reason, .. } = &waiter;
            let (id, reason) = (&session, reason.as_ref());
            let request = KeyRequest { session: *slot, id, wants, spots: &spots, mode: *mode, reason };
            let grants = self.grant(turn, &request);
            turn.settled.push((seq, Ok(Outcome::Granted(grants))));
        }
    }

    pub(super) fn spots_of(&self, waiter: &Waiter) -> Vec<Spot> {
        waiter.places.iter().map(|place| self.spot_at(waiter.session, *place)).collect()
    }
}
