//! Waiting: a fair queue in which a request waits as a whole, and nobody passes a waiter they conflict with.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::command::{Outcome, Reserve};
use super::ids::{Seq, Text, Timestamp};
use super::record::{Event, LeftWhy, Record};
use super::state::Engine;

impl Engine {
    /// Puts a request that cannot be granted now at the end of the queue, unless it would wait forever.
    pub(super) fn enqueue(
        &mut self,
        slot: u32,
        ask: Reserve,
        until: Timestamp,
        now: Timestamp,
        out: &mut Vec<Record>,
    ) -> Outcome {
        let limit = self.policy.waiters_per_session;
        if self.sessions[slot].waits.len() >= limit {
            return Outcome::OverQuota { what: "waiting requests of one session", limit };
        }
        // Versions only grow, so a wrong one now is wrong for good.
        if let Some(refusal) = self.wrong_version(&ask.wants, ask.if_version) {
            return refusal;
        }
        if let Some(cycle) = self.circle(slot, &ask.wants, ask.mode) {
            return Outcome::Deadlock(cycle);
        }
        let Reserve { session, wants, mode, reason, if_version, .. } = ask;
        let seq = self.emit(now, out, Event::Queued { session, wants, mode, reason, if_version });
        self.waiters.get_mut(&seq).expect("just queued").until = until;
        self.patience.insert((until, seq));
        Outcome::Queued(seq)
    }

    /// Ends a wait without a grant; those behind it may move up.
    pub(super) fn leave(&mut self, seq: Seq, why: LeftWhy, now: Timestamp, out: &mut Vec<Record>) {
        let Some(waiter) = self.waiters.get(&seq).cloned() else { return };
        let outcome = match why {
            LeftWhy::Version => self.wrong_version(&waiter.wants, waiter.if_version),
            LeftWhy::Paused => self.pause_of(waiter.session, None).map(Outcome::Paused),
            LeftWhy::TimedOut => {
                let conflicts = self.conflicts(waiter.session, &waiter.wants, waiter.mode, seq);
                Some(Outcome::WaitOver { why, conflicts })
            }
            LeftWhy::Gone | LeftWhy::Stopped | LeftWhy::Ended => None,
        };
        let outcome = outcome.unwrap_or(Outcome::WaitOver { why, conflicts: Vec::new() });
        let session = self.sessions[waiter.session].id.clone();
        self.emit(now, out, Event::Left { waiter: seq, session, why });
        self.settled.push((seq, outcome));
        self.freed.extend(waiter.wants.into_iter().map(|want| want.key));
    }

    /// Grants every wait that nothing blocks any more, in order. Only those that wait for a freed key can be such.
    pub(super) fn seat(&mut self, now: Timestamp, out: &mut Vec<Record>) {
        if self.freed.is_empty() {
            return;
        }
        let mut candidates = BTreeSet::new();
        loop {
            for key in std::mem::take(&mut self.freed) {
                let _: ControlFlow<()> = self.index.meet(&key, |place| {
                    candidates.extend(self.index.place(place).waiters.iter().copied());
                    ControlFlow::Continue(())
                });
            }
            // Whatever the last one freed is wanted by others behind it: it was the one in their way.
            let Some(seq) = candidates.pop_first() else { return };
            let Some(waiter) = self.waiters.get(&seq) else { continue };
            // Versions only grow: such a wait would never be granted, and those behind it need not stand there for it.
            if self.wrong_version(&waiter.wants, waiter.if_version).is_some() {
                self.leave(seq, LeftWhy::Version, now, out);
                continue;
            }
            if self.is_blocked(waiter.session, &waiter.wants, waiter.mode, seq) {
                continue;
            }
            let waiter = waiter.clone();
            let session = self.sessions[waiter.session].id.clone();
            self.emit(now, out, Event::Seated { waiter: seq, session });
            let grants = self.grant(waiter.session, waiter.wants, waiter.mode, waiter.reason, now, out);
            self.settled.push((seq, Outcome::Granted(grants)));
        }
    }

    /// A pause begins: sessions of that feature do not get anything new, so they do not wait for it either.
    pub(super) fn dismiss_paused(&mut self, feature: &Text, now: Timestamp, out: &mut Vec<Record>) {
        let stopped: Vec<Seq> = self
            .waiters
            .iter()
            .filter(|(_, waiter)| self.sessions[waiter.session].feature.as_ref() == Some(feature))
            .filter(|(_, waiter)| self.pause_of(waiter.session, None).is_some())
            .map(|(seq, _)| *seq)
            .collect();
        for seq in stopped {
            self.leave(seq, LeftWhy::Paused, now, out);
        }
    }
}
