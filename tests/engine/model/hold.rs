//! Granting and releasing.

use super::*;
use crate::keys::PORTS;

impl Model {
    pub(super) fn reserve(&mut self, ask: Wait, may_wait: bool, now: Timestamp) -> Result<Outcome, Refusal> {
        let fresh = ask.wants.iter().filter(|(_, key, _)| self.held_at(ask.session, *key).is_none()).count();
        if fresh > 0 {
            if let Some(pause) = self.pause_of(ask.session, ask.feature) {
                return Err(Refusal::Paused(Box::new(pause)));
            }
            self.within_quota(ask.session, fresh)?;
        }
        let version = self.at_version(&ask);
        if !self.is_blocked(&ask) {
            version?;
            return Ok(Outcome::Granted(self.grant(&ask, now).into()));
        }
        if !may_wait {
            return Err(Refusal::Locked(self.conflicts(&ask)));
        }
        let limit = self.policy.waiters_per_session;
        if self.waits.iter().filter(|wait| wait.session == ask.session).count() >= limit {
            return Err(Refusal::OverQuota { what: "waiting requests of one session", limit });
        }
        version?;
        let (seq, session) = (ask.seq, ask.session);
        self.waits.push(ask);
        if self.is_in_a_cycle(session) {
            self.waits.pop();
            return Err(Refusal::Deadlock(Vec::new()));
        }
        Ok(Outcome::Queued(seq))
    }

    pub(super) fn grant(&mut self, ask: &Wait, now: Timestamp) -> Vec<Grant> {
        let (mut grants, mut pauses) = (Vec::new(), Vec::new());
        for (id, key, ttl) in &ask.wants {
            match self.held_at(ask.session, *key) {
                Some(at) => self.amend(at, ask.mode, *ttl, ask.reason.clone(), now),
                None => {
                    self.heard_by_grant(ask.session, *ttl, now);
                    self.held.push(Held {
                        id: *id,
                        session: ask.session,
                        key: *key,
                        mode: ask.mode,
                        ttl: *ttl,
                        reason: ask.reason.clone(),
                        since: now,
                        expires: now.after(ttl.duration()),
                        renewals: 0,
                    });
                    self.totals.granted += 1;
                    let session = &mut self.sessions[ask.session];
                    if let Some(at) = session.lapsed.iter().position(|lapsed| lapsed == key) {
                        session.untold -= usize::from(session.lapsed.len() - at <= session.untold);
                        session.lapsed.remove(at);
                    }
                    pauses.extend(self.keyset.pauses[*key]);
                }
            }
            let at = self.held_at(ask.session, *key).unwrap();
            grants.push(self.grant_of(at));
        }
        for feature in pauses {
            self.dismiss_paused(feature, now);
        }
        grants
    }

    pub(super) fn amend(&mut self, at: usize, mode: Mode, ttl: Ttl, reason: Option<Text>, now: Timestamp) {
        // Nothing that is reserved again ends earlier than it would have.
        let before = self.deadline(&self.held[at]);
        let ttl = match ttl {
            Ttl::Plain(_) => ttl,
            Ttl::WhileSession(idle) => {
                let left = now.until(before).as_millis().div_ceil(1000);
                Ttl::WhileSession(idle.max(left as u32))
            }
        };
        self.heard_by_grant(self.held[at].session, ttl, now);
        let held = &mut self.held[at];
        let weaker = held.mode == Mode::Exclusive && mode == Mode::Shared;
        held.expires = before.max(now.after(ttl.duration()));
        held.renewals += 1;
        (held.mode, held.ttl) = (mode, ttl);
        held.reason = reason.or(held.reason.clone());
        if weaker {
            let held = self.held[at].clone();
            self.freed.push(held.key);
            self.weaken(&held);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a command with all its parts")]
    pub(super) fn ports(
        &mut self,
        session: usize,
        ids: &[ReservationId],
        ttl: Ttl,
        start: u16,
        busy: &[u16],
        feature: Option<&'static str>,
        now: Timestamp,
    ) -> Result<Outcome, Refusal> {
        self.rank_ports();
        let key = |port: u16| {
            let text = format!("port:{port}");
            (0..self.keyset.keys.len()).find(|key| self.keyset.key(*key).text() == text).unwrap()
        };
        let number = |held: &Held| self.keyset.key(held.key).text().strip_prefix("port:").and_then(|n| n.parse().ok());
        let own = self.held.iter().filter(|held| held.session == session);
        let own =
            own.filter_map(|held| Some((self.port_ranks.iter().find(|(id, _)| *id == held.id)?.1, number(held)?)));
        // By rank.
        let mut ports: BTreeMap<usize, u16> = own.collect();
        let more = ids.len().saturating_sub(ports.len());
        if more > 0 {
            if let Some(pause) = self.pause_of(session, feature) {
                return Err(Refusal::Paused(Box::new(pause)));
            }
            self.within_quota(session, more)?;
            let is_free = |port: u16| {
                PORTS.contains(&port) && !busy.contains(&port) && self.held.iter().all(|held| held.key != key(port))
            };
            let fits = |first: &u16| (*first..*first + more as u16).all(is_free);
            let Some(first) = (start..=*PORTS.end()).find(fits).or_else(|| (*PORTS.start()..=*PORTS.end()).find(fits))
            else {
                return Err(Refusal::OverQuota { what: "ports in the range of this repository", limit: PORTS.len() });
            };
            for port in first..first + more as u16 {
                let rank = (0..).find(|rank| !ports.contains_key(rank)).unwrap();
                ports.insert(rank, port);
            }
        }
        // The ports the session has keep their reservations.
        let mut unused = ids[..more].iter();
        let mut wants = Vec::new();
        for port in ports.values() {
            let held = self.held_at(session, key(*port)).map(|at| self.held[at].id);
            wants.push((held.unwrap_or_else(|| *unused.next().unwrap()), key(*port), ttl));
        }
        let (seq, mode, reason, if_version) = (WaiterId::LAST, Mode::Exclusive, None, None);
        let ask = Wait { seq, session, wants, mode, reason, if_version, since: now, until: now, feature };
        Ok(Outcome::Granted(self.grant(&ask, now).into()))
    }

    /// Gives every port that has none the lowest rank that no port of its session has.
    pub(super) fn rank_ports(&mut self) {
        let held = &self.held;
        self.port_ranks.retain(|(id, _)| held.iter().any(|held| held.id == *id));
        for held in &self.held {
            let is_port = self.keyset.key(held.key).text().starts_with("port:");
            if !is_port || self.port_ranks.iter().any(|(id, _)| *id == held.id) {
                continue;
            }
            let is_own = |id: ReservationId| self.held.iter().any(|h| h.id == id && h.session == held.session);
            let used: Vec<usize> =
                self.port_ranks.iter().filter(|(id, _)| is_own(*id)).map(|(_, rank)| *rank).collect();
            let rank = (0..).find(|rank| !used.contains(rank)).unwrap();
            self.port_ranks.push((held.id, rank));
        }
    }

    /// What lasts while the session gives signs of life counts from the grant at least.
    fn heard_by_grant(&mut self, session: usize, ttl: Ttl, now: Timestamp) {
        if ttl.is_while_session() {
            let heard = &mut self.sessions[session].last_heard;
            *heard = (*heard).max(now);
        }
    }

    /// When a reservation ends.
    pub fn deadline(&self, held: &Held) -> Timestamp {
        match held.ttl {
            Ttl::Plain(_) => held.expires,
            Ttl::WhileSession(_) => self.sessions[held.session].last_heard.after(held.ttl.duration()),
        }
    }

    pub(super) fn renew(
        &mut self,
        session: usize,
        keys: &[usize],
        ttl: Option<Ttl>,
        now: Timestamp,
    ) -> Result<Outcome, Refusal> {
        let mut found = Vec::new();
        for key in keys {
            let Some(at) = self.own(session, *key) else {
                let name = self.keyset.key(*key).clone();
                if self.has_lapsed(session, *key) {
                    return Err(Refusal::Lapsed { key: name });
                }
                return Err(Refusal::NotHeld { key: name, holder: self.holder_of(*key), has_lapsed: false });
            };
            found.push(at);
        }
        for at in &found {
            let held = &self.held[*at];
            self.amend(*at, held.mode, ttl.unwrap_or(held.ttl), None, now);
        }
        Ok(Outcome::Granted(found.into_iter().map(|at| self.grant_of(at)).collect()))
    }

    pub(super) fn heartbeat(&mut self, session: usize, now: Timestamp) -> Outcome {
        // The first of them ends then at the earliest.
        let mut expires = Timestamp(i64::MAX);
        self.sessions[session].seen(now);
        let mut renewed = 0;
        for held in self.held.iter_mut().filter(|held| held.session == session) {
            held.expires = held.expires.max(now.after(held.ttl.duration()));
            held.renewals += 1;
            expires = expires.min(now.after(held.ttl.duration()));
            renewed += 1;
        }
        if renewed == 0 {
            expires = now.after(self.policy.session_timeout);
        }
        Outcome::Alive { renewed, expires }
    }

    pub(super) fn within_quota(&self, session: usize, more: usize) -> Result<(), Refusal> {
        let held = self.held.iter().filter(|held| held.session == session).count();
        let waited_for: usize = self.waits_of(session).map(|wait| wait.wants.len()).sum();
        let limit = self.policy.reservations_per_session;
        if more > 0 && held + waited_for + more > limit {
            return Err(Refusal::OverQuota { what: "reservations of one session", limit });
        }
        let waited_for: usize = self.waits.iter().map(|wait| wait.wants.len()).sum();
        let limit = self.policy.reservations;
        if more > 0 && self.held.len() + self.over.len() + waited_for + more > limit {
            return Err(Refusal::OverQuota { what: "reservations in this repository", limit });
        }
        Ok(())
    }

    pub(super) fn at_version(&self, ask: &Wait) -> Result<(), Refusal> {
        let Some(expected) = ask.if_version else { return Ok(()) };
        match ask.wants.iter().find(|(_, key, _)| self.versions[*key] != expected) {
            Some((_, key, _)) => {
                Err(Refusal::WrongVersion { key: self.keyset.key(*key).clone(), version: self.versions[*key] })
            }
            None => Ok(()),
        }
    }

    pub(super) fn release(&mut self, session: usize, keys: &[usize], now: Timestamp) -> Result<Outcome, Refusal> {
        let (mut ids, mut late) = (Vec::new(), Vec::new());
        for key in keys {
            match self.own(session, *key) {
                Some(at) => ids.push(self.held[at].id),
                None if self.has_lapsed(session, *key) && self.holder_of(*key).is_none() => {
                    late.push(self.keyset.key(*key).clone())
                }
                None => {
                    if let Some(person) = self.holder_of(*key) {
                        let (key, has_lapsed) = (self.keyset.key(*key).clone(), self.has_lapsed(session, *key));
                        return Err(Refusal::NotHeld { key, holder: Some(person), has_lapsed });
                    }
                }
            }
        }
        let mut released = Vec::new();
        for id in ids {
            if let Some(at) = self.held.iter().position(|held| held.id == id) {
                released.push(self.let_go(at, &Why::Released, now));
            }
        }
        let released: git_dibs::engine::Few<Key> = released.into();
        let outcome = match late.is_empty() {
            true => Outcome::Released { count: released.len(), keys: released },
            false => Outcome::ReleasedLate { released, lapsed: late.into() },
        };
        Ok(outcome)
    }

    fn has_lapsed(&self, session: usize, key: usize) -> bool {
        let lapsed = &self.sessions[session].lapsed;
        lapsed.contains(&key) || self.keyset.literal[key].is_some_and(|key| lapsed.contains(&key))
    }

    /// Little is released at once, much is over at once and released in slices.
    pub(super) fn release_everything(&mut self, session: usize, now: Timestamp) -> Vec<Key> {
        let held = self.held.iter().filter(|held| held.session == session);
        let keys: Vec<usize> = held.map(|held| held.key).collect();
        if keys.len() > self.policy.records_per_slice {
            self.end_holdings(session, &Why::Released);
            self.sweep(self.policy.records_per_slice, now);
        } else {
            while let Some(at) = self.held.iter().position(|held| held.session == session) {
                self.let_go(at, &Why::Released, now);
            }
        }
        self.keys(&keys)
    }

    /// Everything that a session holds is over, and the releases are to be recorded.
    fn end_holdings(&mut self, session: usize, why: &Why) {
        while let Some(at) = self.held.iter().position(|held| held.session == session) {
            let held = self.held.remove(at);
            self.versions[held.key] += 1;
            self.over.push((held, why.clone()));
        }
    }

    /// Records releases of what is over.
    pub(super) fn sweep(&mut self, limit: usize, now: Timestamp) {
        for _ in 0..limit.min(self.over.len()) {
            self.sweep_at(0, now);
        }
    }

    pub(super) fn sweep_at(&mut self, at: usize, now: Timestamp) {
        let (held, why) = self.over.remove(at);
        self.weaken(&held);
        self.record_release(&held, &why, now);
    }

    pub(super) fn let_go(&mut self, at: usize, why: &Why, now: Timestamp) -> Key {
        let held = self.held.remove(at);
        self.weaken(&held);
        self.versions[held.key] += 1;
        self.record_release(&held, why, now)
    }

    fn record_release(&mut self, held: &Held, why: &Why, now: Timestamp) -> Key {
        self.freed.push(held.key);
        self.totals.over += 1;
        self.totals.held_ms += (now.0 - held.since.0) as u64;
        let key = self.keyset.key(held.key).clone();
        let session = &mut self.sessions[held.session];
        match why {
            Why::Expired => {
                self.totals.expired += 1;
                session.lapsed.push(held.key);
                session.untold += 1;
            }
            Why::Overridden { .. } => {
                session.notices.push(Notice::ReleasedEarly {
                    id: held.id,
                    key: key.clone(),
                    at: now,
                    why: why.clone(),
                });
            }
            _ => {}
        }
        for at in 0..self.requests.len() {
            if self.requests[at].reservation == held.id && self.requests[at].answer.is_none() {
                self.answer(at, UnlockAnswer::Moot, None, now);
            }
        }
        key
    }

    pub(super) fn end(&mut self, session: usize, state: EndState, now: Timestamp) {
        let held: Vec<usize> = self.held.iter().filter(|held| held.session == session).map(|held| held.key).collect();
        let waits: Vec<WaiterId> = self.waits_of(session).map(|wait| wait.seq).collect();
        for seq in waits {
            self.leave(seq, LeftWhy::Ended, now);
        }
        let id = self.sessions[session].id.clone();
        for at in 0..self.requests.len() {
            if self.requests[at].by == id && self.requests[at].answer.is_none() {
                self.answer(at, UnlockAnswer::Withdrawn, None, now);
            }
        }
        self.end_holdings(session, &Why::Ended);
        self.sweep(self.policy.records_per_slice, now);
        let session = &mut self.sessions[session];
        session.ended = Some((state, now, held));
        session.untold = 0;
        if state != EndState::Lost {
            session.lapsed.clear();
            session.notices.clear();
        }
    }

    /// Ends what is due. A step ends only so much; which part of it, the records say.
    pub(super) fn tick(&mut self, now: Timestamp, hint: &Hint) {
        // A session with a waiting request is there.
        for session in 0..self.sessions.len() {
            let is_due = self
                .held
                .iter()
                .any(|held| held.session == session && held.ttl.is_while_session() && self.deadline(held) <= now);
            if is_due && self.waits_of(session).next().is_some() {
                self.sessions[session].last_heard = now;
            }
        }
        let slice = self.policy.records_per_slice;
        let overdue = self.held.iter().filter(|held| self.deadline(held) <= now).count();
        assert!(hint.expired.len() <= overdue.min(slice), "a step ends only so much");
        self.expire(&hint.expired, now);
        let mut lost: Vec<usize> = (0..self.sessions.len())
            .filter(|session| self.sessions[*session].ended.is_none())
            .filter(|session| self.sessions[*session].last_heard.after(self.policy.session_timeout) <= now)
            .filter(|session| self.waits_of(*session).next().is_none())
            .filter(|session| self.held.iter().all(|held| held.session != *session))
            .collect();
        lost.sort_by_key(|session| hint.lost.iter().position(|id| *id == self.sessions[*session].id));
        for session in lost {
            self.end(session, EndState::Lost, now);
        }
        self.settle(now);
        let mut due: Vec<(Timestamp, WaiterId)> = self.waits.iter().map(|wait| (wait.until, wait.seq)).collect();
        due.retain(|(until, _)| *until <= now);
        due.sort();
        for (_, seq) in due.into_iter().take(slice) {
            let wait = self.waits.iter().find(|wait| wait.seq == seq).unwrap();
            if self.is_blocked(wait) {
                self.leave(seq, LeftWhy::TimedOut, now);
            } else {
                self.due_and_free.push(seq);
            }
        }
    }

    /// These reservations expire.
    fn expire(&mut self, ids: &[ReservationId], now: Timestamp) {
        for id in ids {
            let at = self.held.iter().position(|held| held.id == *id).expect("only what is held expires");
            assert!(self.deadline(&self.held[at]) <= now, "nothing expires early");
            self.let_go(at, &Why::Expired, now);
        }
    }

    /// Ends what is overdue and in the way of a request, unless something else is in its way in any case.
    pub fn expire_in_the_way(&mut self, ask: &ModelCommand, now: Timestamp, hint: &Hint) {
        let ModelCommand::Reserve { .. } = ask else { return };
        self.expire(&hint.expired, now);
        self.settle(now);
        self.freed.clear();
    }
}
