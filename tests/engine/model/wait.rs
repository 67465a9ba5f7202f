//! Waiting, and who is in the way of whom.

use super::*;

impl Model {
    /// Grants every wait that can be granted, the first in the queue first.
    pub(super) fn settle(&mut self, now: Timestamp) {
        loop {
            let ready = |wait: &&Wait| self.at_version(wait).is_err() || !self.is_blocked(wait);
            if let Some(wait) = self.waits.iter().find(ready).cloned() {
                if self.at_version(&wait).is_err() {
                    self.leave(wait.seq, LeftWhy::Version, now);
                    continue;
                }
                self.unqueue(wait.seq, now);
                let grants = self.grant(&wait, now);
                self.settled.push((wait.seq, Ok(Outcome::Granted(grants.into()))));
                continue;
            }
            self.weakened.sort();
            if self.weakened.is_empty() {
                return;
            }
            let seq = self.weakened.remove(0);
            if self.waits.iter().any(|wait| wait.seq == seq && self.closes_a_cycle(wait)) {
                self.totals.deadlocks += 1;
                self.leave(seq, LeftWhy::Deadlock, now);
            }
        }
    }

    pub(super) fn unqueue(&mut self, seq: WaiterId, now: Timestamp) {
        let at = self.waits.iter().position(|wait| wait.seq == seq).unwrap();
        let session = self.waits.remove(at).session;
        let session = &mut self.sessions[session];
        session.last_seen = session.last_seen.max(now);
        session.last_heard = session.last_heard.max(now);
    }

    pub(super) fn leave(&mut self, seq: WaiterId, why: LeftWhy, now: Timestamp) {
        let Some(wait) = self.waits.iter().find(|wait| wait.seq == seq).cloned() else { return };
        let over = |conflicts| Refusal::WaitOver { why, conflicts };
        let refusal = match why {
            LeftWhy::Version => self.at_version(&wait).unwrap_err(),
            LeftWhy::Paused => Refusal::Paused(Box::new(self.pause_of(wait.session, wait.feature).unwrap())),
            LeftWhy::TimedOut => over(self.conflicts(&wait)),
            LeftWhy::Deadlock => Refusal::Deadlock(Vec::new()),
            LeftWhy::Gone | LeftWhy::Stopped | LeftWhy::Ended => over(Vec::new()),
        };
        self.settled.push((seq, Err(refusal)));
        self.unqueue(seq, now);
    }

    pub(super) fn dismiss_paused(&mut self, feature: &'static str, now: Timestamp) {
        let stopped =
            |wait: &&Wait| self.pause_of(wait.session, wait.feature).is_some_and(|pause| *pause.feature == *feature);
        let stopped: Vec<WaiterId> = self.waits.iter().filter(stopped).map(|wait| wait.seq).collect();
        for seq in stopped {
            self.leave(seq, LeftWhy::Paused, now);
        }
    }

    /// Takes note of the waits that count on this reservation of their own session.
    pub(super) fn weaken(&mut self, at: usize) {
        let Held { session, key, .. } = self.held[at];
        let counts_on_it = |wait: &&Wait| wait.session == session && wait.wants.iter().any(|want| want.1 == key);
        for wait in self.waits.iter().filter(counts_on_it) {
            if !self.weakened.contains(&wait.seq) {
                self.weakened.push(wait.seq);
            }
        }
    }

    pub fn pause_of(&self, session: usize, feature: Option<&'static str>) -> Option<Pause> {
        let features = [feature, self.sessions[session].feature];
        features.into_iter().flatten().find_map(|feature| {
            let holders = || self.held.iter().filter(|held| self.keyset.pauses[held.key] == Some(feature));
            let first = holders().next()?;
            (!holders().any(|held| held.session == session)).then(|| Pause {
                feature: feature.into(),
                by: self.person(first.session),
                reason: first.reason.clone(),
                until: self.deadline(first),
            })
        })
    }

    /// Calls `see` with every holder in the way of one want, and with every earlier wait, by the key it is in the way with.
    fn blockers<'a>(&'a self, ask: &Wait, key: usize, mut see: impl FnMut(Blocker<'a>)) {
        let own = self.held_at(ask.session, key).map(|at| self.held[at].mode);
        if own == Some(Mode::Exclusive) || own == Some(ask.mode) {
            return;
        }
        for held in &self.held {
            if held.session != ask.session && clash(held.mode, ask.mode) && self.keyset.meet(held.key, key) {
                see(Blocker::Held(held));
            }
        }
        for wait in self.waits.iter().filter(|wait| wait.seq < ask.seq && wait.session != ask.session) {
            // A wait that our own reservation blocks does not block us when we want a stronger mode.
            if clash(wait.mode, ask.mode) && !own.is_some_and(|own| clash(own, wait.mode)) {
                for (_, other, _) in wait.wants.iter().filter(|(_, other, _)| self.keyset.meet(*other, key)) {
                    see(Blocker::Wait(wait, *other));
                }
            }
        }
    }

    pub fn is_blocked(&self, ask: &Wait) -> bool {
        let mut blocked = false;
        for (_, key, _) in &ask.wants {
            self.blockers(ask, *key, |_| blocked = true);
        }
        blocked
    }

    pub(super) fn conflicts(&self, ask: &Wait) -> Vec<Conflict> {
        let (mut holders, mut waiters) = (Vec::new(), Vec::new());
        for (position, (_, key, _)) in ask.wants.iter().enumerate() {
            self.blockers(ask, *key, |blocker| match blocker {
                Blocker::Held(held) => holders.push(self.held_conflict(position, *key, held)),
                Blocker::Wait(wait, other) => waiters.push(Conflict {
                    asked: self.keyset.key(*key).clone(),
                    position,
                    key: self.keyset.key(other).clone(),
                    who: self.person(wait.session),
                    mode: wait.mode,
                    reason: wait.reason.clone(),
                    since: wait.since,
                    until: wait.until,
                    example: self.example(*key, other),
                    waiting: true,
                    queue_length: self.queue_length(other),
                    more_holders: 0,
                }),
            });
        }
        if holders.is_empty() { waiters } else { holders }
    }

    pub(super) fn held_conflict(&self, position: usize, asked: usize, held: &Held) -> Conflict {
        Conflict {
            asked: self.keyset.key(asked).clone(),
            position,
            key: self.keyset.key(held.key).clone(),
            who: self.person(held.session),
            mode: held.mode,
            reason: held.reason.clone(),
            since: held.since,
            until: self.deadline(held),
            example: self.example(asked, held.key),
            waiting: false,
            queue_length: self.queue_length(held.key),
            more_holders: 0,
        }
    }

    pub(super) fn example(&self, asked: usize, other: usize) -> Option<String> {
        self.keyset.overlaps[asked][other].as_ref().and_then(|overlap| overlap.example.clone())
    }

    pub(super) fn queue_length(&self, key: usize) -> usize {
        self.waits.iter().filter(|wait| wait.wants.iter().any(|want| want.1 == key)).count()
    }

    /// Whom this wait waits for.
    pub fn waits_for(&self, wait: &Wait) -> Vec<usize> {
        let mut sessions = Vec::new();
        for (_, key, _) in &wait.wants {
            self.blockers(wait, *key, |blocker| {
                let session = match blocker {
                    Blocker::Held(held) => held.session,
                    Blocker::Wait(wait, _) => wait.session,
                };
                if !sessions.contains(&session) {
                    sessions.push(session);
                }
            });
        }
        sessions
    }

    /// Whether one of `from`, or a session that they wait for directly or indirectly, is `to`.
    pub(super) fn reaches(&self, from: Vec<usize>, to: usize) -> bool {
        let mut seen = from;
        let mut at = 0;
        while at < seen.len() {
            let session = seen[at];
            if session == to {
                return true;
            }
            for wait in self.waits_of(session) {
                for session in self.waits_for(wait) {
                    if !seen.contains(&session) {
                        seen.push(session);
                    }
                }
            }
            at += 1;
        }
        false
    }

    pub fn closes_a_cycle(&self, wait: &Wait) -> bool {
        self.reaches(self.waits_for(wait), wait.session)
    }

    pub(super) fn is_in_a_cycle(&self, session: usize) -> bool {
        self.waits_of(session).any(|wait| self.closes_a_cycle(wait))
    }
}

enum Blocker<'a> {
    Held(&'a Held),
    Wait(&'a Wait, usize),
}
