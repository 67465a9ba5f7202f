//! The rules once more, written to be obviously right: plain lists, walked from one end to the other.
//!
//! What the engine finds by index, timer and search, this finds by looking at everything. It takes the same commands
//! and gives the same outcomes, except that it knows no record numbers: fences are left at zero, the places of waiters
//! are told to it, and of a deadlock it only says that there is one.

use std::time::Duration;

use git_dibs::engine::{
    Answer, Checked, Conflict, EndState, Grant, LeftWhy, Mode, Notice, Outcome, Pause, Person, Policy, ReservationId,
    Seq, SessionId, Text, Timestamp, Totals, Ttl, UnlockRequest, Why,
};
use git_dibs::key::Key;
use uuid::Uuid;

use crate::world::World;

pub struct Model {
    pub world: World,
    pub policy: Policy,
    /// Every session there ever was.
    pub sessions: Vec<Session>,
    /// In the order of the grants.
    pub held: Vec<Held>,
    /// In the order of the queue.
    pub waits: Vec<Wait>,
    /// In the order they were made.
    pub requests: Vec<UnlockRequest>,
    pub versions: Vec<u64>,
    pub totals: Totals,
    pub counted: (u64, u64),
    pub settled: Vec<(Seq, Outcome)>,
    /// Waits for a key their own session lost in this command.
    weakened: Vec<Seq>,
}

pub struct Session {
    pub id: SessionId,
    pub owner: Option<usize>,
    pub feature: Option<&'static str>,
    pub last_seen: Timestamp,
    pub ended: Option<(EndState, Vec<usize>)>,
    pub lapsed: Vec<usize>,
    pub told: Vec<Notice>,
}

#[derive(Clone)]
pub struct Held {
    pub id: ReservationId,
    pub session: usize,
    pub key: usize,
    pub mode: Mode,
    pub ttl: Ttl,
    pub reason: Option<Text>,
    pub since: Timestamp,
    pub expires: Timestamp,
    pub renewals: u32,
}

#[derive(Clone)]
pub struct Wait {
    pub seq: Seq,
    pub session: usize,
    pub wants: Vec<(ReservationId, usize, Ttl)>,
    pub mode: Mode,
    pub reason: Option<Text>,
    pub if_version: Option<u64>,
    pub since: Timestamp,
    pub until: Timestamp,
    pub feature: Option<&'static str>,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Who {
    /// A session by its number, with the owner and the feature of its token.
    Session(usize, usize, Option<&'static str>),
    Admin,
    Desk,
}

/// Something asked, in numbers.
#[derive(Debug, Clone)]
pub enum Ask {
    Touch,
    Create(Option<&'static str>),
    Reserve {
        wants: Vec<(ReservationId, usize, Ttl)>,
        mode: Mode,
        reason: Option<Text>,
        wait: Option<Duration>,
        if_version: Option<u64>,
    },
    Release(Vec<usize>),
    ReleaseAll,
    Renew(Vec<usize>, Option<Ttl>),
    Heartbeat,
    End(EndState),
    Override(ReservationId),
    Unheard(Vec<Grant>),
    Leave(Seq),
    Request {
        id: Uuid,
        key: usize,
        reason: Text,
    },
    Respond {
        id: Uuid,
        answer: Answer,
        hand_over: Option<ReservationId>,
    },
    Tick,
    Count,
}

impl Model {
    pub fn new(world: World, policy: Policy) -> Model {
        let versions = vec![0; world.keys.len()];
        Model {
            world,
            policy,
            sessions: Vec::new(),
            held: Vec::new(),
            waits: Vec::new(),
            requests: Vec::new(),
            versions,
            totals: Totals::default(),
            counted: (0, 0),
            settled: Vec::new(),
            weakened: Vec::new(),
        }
    }

    /// Decides one command about `session`. `hint` says what only the records know: the place a new wait would get,
    /// and in which order sessions that are lost together end.
    pub fn execute(&mut self, who: Who, session: &SessionId, ask: &Ask, now: Timestamp, hint: &Hint) -> Outcome {
        let outcome = match self.admit(who, session, ask, now) {
            Ok(number) => self.decide(who, number, session, ask, now, hint),
            Err(refusal) => refusal,
        };
        self.settle(now);
        match &outcome {
            Outcome::Refused(_) => self.totals.conflicts += 1,
            Outcome::Deadlock(_) => self.totals.deadlocks += 1,
            _ => {}
        }
        outcome
    }

    fn admit(&mut self, who: Who, id: &SessionId, ask: &Ask, now: Timestamp) -> Result<Option<usize>, Outcome> {
        let known = self.sessions.iter().position(|session| session.id == *id);
        let about_a_session = !matches!(
            ask,
            Ask::Touch | Ask::Create(_) | Ask::Override(_) | Ask::Unheard(_) | Ask::Leave(_) | Ask::Tick | Ask::Count
        );
        let dead = |session: &Session| match &session.ended {
            Some((state, _)) if !matches!(ask, Ask::End(_)) => {
                Err(Outcome::SessionEnded { session: session.id.clone(), state: *state })
            }
            _ => Ok(()),
        };
        match (who, known) {
            (Who::Session(_, owner, feature), None) => {
                self.room_for_a_session()?;
                Ok(Some(self.open(id, Some(owner), feature, now)))
            }
            (Who::Session(_, owner, _), Some(number)) => {
                let session = &mut self.sessions[number];
                if session.owner.is_some_and(|other| other != owner) {
                    return Err(Outcome::NotYours);
                }
                if session.ended.is_none() {
                    session.owner = Some(owner);
                }
                dead(session)?;
                session.last_seen = now;
                Ok(known)
            }
            (Who::Admin, None) if about_a_session => Err(Outcome::NoSession(id.clone())),
            (Who::Admin, Some(number)) if about_a_session => dead(&self.sessions[number]).map(|()| known),
            _ => Ok(known),
        }
    }

    fn room_for_a_session(&self) -> Result<(), Outcome> {
        let limit = self.policy.sessions;
        let full = self.sessions.iter().filter(|session| session.ended.is_none()).count() >= limit;
        if full { Err(Outcome::OverQuota { what: "sessions in this repository", limit }) } else { Ok(()) }
    }

    fn open(&mut self, id: &SessionId, owner: Option<usize>, feature: Option<&'static str>, now: Timestamp) -> usize {
        self.sessions.push(Session {
            id: id.clone(),
            owner,
            feature,
            last_seen: now,
            ended: None,
            lapsed: Vec::new(),
            told: Vec::new(),
        });
        self.sessions.len() - 1
    }

    fn decide(
        &mut self,
        who: Who,
        number: Option<usize>,
        id: &SessionId,
        ask: &Ask,
        now: Timestamp,
        hint: &Hint,
    ) -> Outcome {
        let session = number.unwrap_or(usize::MAX);
        match ask {
            Ask::Touch => Outcome::Done,
            Ask::Create(feature) => match number {
                Some(number) => match &self.sessions[number].ended {
                    Some((state, _)) => Outcome::SessionEnded { session: id.clone(), state: *state },
                    None => Outcome::Done,
                },
                None => match self.room_for_a_session() {
                    Err(full) => full,
                    Ok(()) => {
                        self.open(id, None, *feature, now);
                        Outcome::Done
                    }
                },
            },
            Ask::Reserve { wants, mode, reason, wait, if_version } => {
                let feature = match who {
                    Who::Session(_, _, feature) => feature,
                    _ => None,
                };
                let mut distinct: Vec<(ReservationId, usize, Ttl)> = Vec::new();
                for want in wants {
                    if distinct.iter().all(|other| other.1 != want.1) {
                        distinct.push(*want);
                    }
                }
                let wait = Wait {
                    seq: hint.queued,
                    session,
                    wants: distinct,
                    mode: *mode,
                    reason: reason.clone(),
                    if_version: *if_version,
                    since: now,
                    until: wait.map_or(now, |wait| now.after(wait)),
                    feature,
                };
                self.reserve(wait, matches!(ask, Ask::Reserve { wait: Some(_), .. }), now)
            }
            Ask::Release(keys) => self.release(session, keys, now),
            Ask::ReleaseAll => Outcome::Released(self.release_everything(session, &Why::Released, now)),
            Ask::Renew(keys, ttl) => self.renew(session, keys, *ttl, now),
            Ask::Heartbeat => self.heartbeat(session, now),
            Ask::End(state) => {
                if self.sessions[session].ended.is_none() {
                    self.end(session, *state, now);
                }
                let (state, released) = self.sessions[session].ended.clone().unwrap();
                Outcome::Ended { state, released: self.keys(&released) }
            }
            Ask::Override(id) => match self.held.iter().position(|held| held.id == *id) {
                Some(at) => {
                    let why = Why::Overridden { by: "admin".into(), reason: "because".into() };
                    Outcome::Released(vec![self.let_go(at, &why, now)])
                }
                None => Outcome::NoReservation,
            },
            Ask::Unheard(grants) => {
                for grant in grants {
                    let known = |held: &Held| held.session == session && held.id == grant.id && held.renewals == 0;
                    if let Some(at) = self.held.iter().position(known) {
                        self.let_go(at, &Why::Unheard, now);
                    }
                }
                Outcome::Done
            }
            Ask::Leave(seq) => {
                self.leave(*seq, LeftWhy::Gone, now);
                Outcome::Done
            }
            Ask::Request { id, key, reason } => self.request(session, *id, *key, reason, now),
            Ask::Respond { id, answer, hand_over } => self.respond(session, *id, *answer, *hand_over, now),
            Ask::Tick => {
                self.tick(now, &hint.lost);
                Outcome::Done
            }
            Ask::Count => {
                self.counted = (self.totals.conflicts, self.totals.deadlocks);
                Outcome::Done
            }
        }
    }

    // Granting.

    fn reserve(&mut self, ask: Wait, may_wait: bool, now: Timestamp) -> Outcome {
        let fresh = ask.wants.iter().filter(|(_, key, _)| self.held_at(ask.session, *key).is_none()).count();
        if fresh > 0 {
            if let Some(pause) = self.pause_of(ask.session, ask.feature) {
                return Outcome::Paused(Box::new(pause));
            }
            if let Some(full) = self.over_quota(ask.session, fresh) {
                return full;
            }
        }
        let wrong_version = self.wrong_version(&ask);
        if !self.is_blocked(&ask) {
            if let Some(refusal) = wrong_version {
                return refusal;
            }
            return Outcome::Granted(self.grant(&ask, now));
        }
        if !may_wait {
            return Outcome::Refused(self.conflicts(&ask));
        }
        let limit = self.policy.waiters_per_session;
        if self.waits.iter().filter(|wait| wait.session == ask.session).count() >= limit {
            return Outcome::OverQuota { what: "waiting requests of one session", limit };
        }
        if let Some(refusal) = wrong_version {
            return refusal;
        }
        let (seq, session) = (ask.seq, ask.session);
        self.waits.push(ask);
        if self.is_in_a_circle(session) {
            self.waits.pop();
            return Outcome::Deadlock(Vec::new());
        }
        Outcome::Queued(seq)
    }

    fn grant(&mut self, ask: &Wait, now: Timestamp) -> Vec<Grant> {
        let mut grants = Vec::new();
        for (id, key, ttl) in &ask.wants {
            match self.held_at(ask.session, *key) {
                Some(at) => self.amend(at, ask.mode, *ttl, ask.reason.clone(), now),
                None => {
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
                    self.sessions[ask.session].lapsed.retain(|lapsed| lapsed != key);
                    if let Some(feature) = self.world.pauses[*key] {
                        self.dismiss_paused(feature, now);
                    }
                }
            }
            let at = self.held_at(ask.session, *key).unwrap();
            grants.push(self.grant_of(at));
        }
        grants
    }

    fn amend(&mut self, at: usize, mode: Mode, ttl: Ttl, reason: Option<Text>, now: Timestamp) {
        let held = &mut self.held[at];
        let weaker = held.mode == Mode::Exclusive && mode == Mode::Shared;
        held.expires = held.expires.max(now.after(ttl.duration()));
        held.renewals += 1;
        (held.mode, held.ttl) = (mode, ttl);
        held.reason = reason.or(held.reason.clone());
        if weaker {
            self.weaken(at);
        }
    }

    fn renew(&mut self, session: usize, keys: &[usize], ttl: Option<Ttl>, now: Timestamp) -> Outcome {
        let mut found = Vec::new();
        for key in keys {
            let Some(at) = self.own(session, *key) else {
                let lapsed = &self.sessions[session].lapsed;
                let literal = self.world.literal[*key];
                let name = self.world.key(*key).clone();
                if lapsed.contains(key) || literal.is_some_and(|key| lapsed.contains(&key)) {
                    return Outcome::Lapsed { key: name };
                }
                return Outcome::NotHeld { key: name, holder: self.holder_of(*key) };
            };
            found.push(at);
        }
        for at in &found {
            let held = &self.held[*at];
            self.amend(*at, held.mode, ttl.unwrap_or(held.ttl), None, now);
        }
        Outcome::Granted(found.into_iter().map(|at| self.grant_of(at)).collect())
    }

    fn heartbeat(&mut self, session: usize, now: Timestamp) -> Outcome {
        let mut expires = now.after(self.policy.session_timeout);
        self.sessions[session].last_seen = now;
        let mut renewed = 0;
        for held in self.held.iter_mut().filter(|held| held.session == session) {
            held.expires = held.expires.max(now.after(held.ttl.duration()));
            held.renewals += 1;
            expires = expires.min(held.expires);
            renewed += 1;
        }
        Outcome::Alive { renewed, expires }
    }

    fn over_quota(&self, session: usize, more: usize) -> Option<Outcome> {
        let held = self.held.iter().filter(|held| held.session == session).count();
        let waited_for: usize = self.waits_of(session).map(|wait| wait.wants.len()).sum();
        let limit = self.policy.reservations_per_session;
        let over = more > 0 && held + waited_for + more > limit;
        over.then_some(Outcome::OverQuota { what: "reservations of one session", limit })
    }

    fn wrong_version(&self, ask: &Wait) -> Option<Outcome> {
        let wanted = ask.if_version?;
        let (_, key, _) = ask.wants.iter().find(|(_, key, _)| self.versions[*key] != wanted)?;
        Some(Outcome::WrongVersion { key: self.world.key(*key).clone(), version: self.versions[*key] })
    }

    // Letting go.

    fn release(&mut self, session: usize, keys: &[usize], now: Timestamp) -> Outcome {
        let mut ids = Vec::new();
        for key in keys {
            match self.own(session, *key) {
                Some(at) => ids.push(self.held[at].id),
                None => {
                    if let Some(person) = self.holder_of(*key) {
                        return Outcome::NotHeld { key: self.world.key(*key).clone(), holder: Some(person) };
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
        Outcome::Released(released)
    }

    fn release_everything(&mut self, session: usize, why: &Why, now: Timestamp) -> Vec<Key> {
        let mut released = Vec::new();
        while let Some(at) = self.held.iter().position(|held| held.session == session) {
            released.push(self.let_go(at, why, now));
        }
        released
    }

    fn let_go(&mut self, at: usize, why: &Why, now: Timestamp) -> Key {
        self.weaken(at);
        let held = self.held.remove(at);
        self.versions[held.key] += 1;
        self.totals.over += 1;
        self.totals.held_ms += (now.0 - held.since.0) as u64;
        let key = self.world.key(held.key).clone();
        let session = &mut self.sessions[held.session];
        match why {
            Why::Expired => {
                self.totals.expired += 1;
                session.lapsed.push(held.key);
            }
            Why::Overridden { .. } => {
                session.told.push(Notice::ReleasedEarly { id: held.id, key: key.clone(), at: now, why: why.clone() });
            }
            _ => {}
        }
        for at in 0..self.requests.len() {
            if self.requests[at].reservation == held.id && self.requests[at].answer.is_none() {
                self.answer(at, Answer::Moot, None, now);
            }
        }
        key
    }

    fn end(&mut self, session: usize, state: EndState, now: Timestamp) {
        let held: Vec<usize> = self.held.iter().filter(|held| held.session == session).map(|held| held.key).collect();
        self.release_everything(session, &Why::Ended, now);
        let waits: Vec<Seq> = self.waits_of(session).map(|wait| wait.seq).collect();
        for seq in waits {
            self.leave(seq, LeftWhy::Ended, now);
        }
        let id = self.sessions[session].id.clone();
        for at in 0..self.requests.len() {
            if self.requests[at].by == id && self.requests[at].answer.is_none() {
                self.answer(at, Answer::Withdrawn, None, now);
            }
        }
        let session = &mut self.sessions[session];
        session.ended = Some((state, held));
        session.lapsed.clear();
        session.told.clear();
    }

    fn tick(&mut self, now: Timestamp, lost_order: &[SessionId]) {
        while let Some(at) = self.held.iter().position(|held| held.expires <= now) {
            self.let_go(at, &Why::Expired, now);
        }
        let mut lost: Vec<usize> = (0..self.sessions.len())
            .filter(|session| self.sessions[*session].ended.is_none())
            .filter(|session| self.sessions[*session].last_seen.after(self.policy.session_timeout) <= now)
            .filter(|session| self.waits_of(*session).next().is_none())
            .collect();
        lost.sort_by_key(|session| lost_order.iter().position(|id| *id == self.sessions[*session].id));
        for session in lost {
            self.end(session, EndState::Lost, now);
        }
        self.settle(now);
        let mut due: Vec<(Timestamp, Seq)> = self.waits.iter().map(|wait| (wait.until, wait.seq)).collect();
        due.retain(|(until, _)| *until <= now);
        due.sort();
        for (_, seq) in due {
            let wait = self.waits.iter().find(|wait| wait.seq == seq).unwrap();
            if self.is_blocked(wait) {
                self.leave(seq, LeftWhy::TimedOut, now);
            }
        }
    }

    // Waiting.

    /// Whatever can be granted is, the first in line first; until nothing more can.
    fn settle(&mut self, now: Timestamp) {
        loop {
            let ready = |wait: &&Wait| self.wrong_version(wait).is_some() || !self.is_blocked(wait);
            if let Some(wait) = self.waits.iter().find(ready).cloned() {
                if self.wrong_version(&wait).is_some() {
                    self.leave(wait.seq, LeftWhy::Version, now);
                    continue;
                }
                self.unqueue(wait.seq, now);
                let grants = self.grant(&wait, now);
                self.settled.push((wait.seq, Outcome::Granted(grants)));
                continue;
            }
            self.weakened.sort();
            if self.weakened.is_empty() {
                return;
            }
            let seq = self.weakened.remove(0);
            if self.waits.iter().any(|wait| wait.seq == seq && self.closes_a_circle(wait)) {
                self.totals.deadlocks += 1;
                self.leave(seq, LeftWhy::Deadlock, now);
            }
        }
    }

    fn unqueue(&mut self, seq: Seq, now: Timestamp) {
        let at = self.waits.iter().position(|wait| wait.seq == seq).unwrap();
        let session = self.waits.remove(at).session;
        self.sessions[session].last_seen = self.sessions[session].last_seen.max(now);
    }

    fn leave(&mut self, seq: Seq, why: LeftWhy, now: Timestamp) {
        let Some(wait) = self.waits.iter().find(|wait| wait.seq == seq).cloned() else { return };
        let over = |conflicts| Outcome::WaitOver { why, conflicts };
        let outcome = match why {
            LeftWhy::Version => self.wrong_version(&wait).unwrap(),
            LeftWhy::Paused => Outcome::Paused(Box::new(self.pause_of(wait.session, wait.feature).unwrap())),
            LeftWhy::TimedOut => over(self.conflicts(&wait)),
            LeftWhy::Deadlock => Outcome::Deadlock(Vec::new()),
            LeftWhy::Gone | LeftWhy::Stopped | LeftWhy::Ended => over(Vec::new()),
        };
        self.settled.push((seq, outcome));
        self.unqueue(seq, now);
    }

    fn dismiss_paused(&mut self, feature: &'static str, now: Timestamp) {
        let stopped =
            |wait: &&Wait| self.pause_of(wait.session, wait.feature).is_some_and(|pause| *pause.feature == *feature);
        let stopped: Vec<Seq> = self.waits.iter().filter(stopped).map(|wait| wait.seq).collect();
        for seq in stopped {
            self.leave(seq, LeftWhy::Paused, now);
        }
    }

    /// Takes note of the waits that count on this reservation of their own session.
    fn weaken(&mut self, at: usize) {
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
            let holders = || self.held.iter().filter(|held| self.world.pauses[held.key] == Some(feature));
            let first = holders().next()?;
            (!holders().any(|held| held.session == session)).then(|| Pause {
                feature: feature.into(),
                by: self.person(first.session),
                reason: first.reason.clone(),
                until: first.expires,
            })
        })
    }

    // Who is in the way of whom.

    /// Calls `see` with every holder in the way of one want, and with every earlier wait, by the key it is in the way with.
    fn blockers<'a>(&'a self, ask: &Wait, key: usize, mut see: impl FnMut(Blocker<'a>)) {
        let own = self.held_at(ask.session, key).map(|at| self.held[at].mode);
        if own == Some(Mode::Exclusive) || own == Some(ask.mode) {
            return;
        }
        for held in &self.held {
            if held.session != ask.session && clash(held.mode, ask.mode) && self.world.meet(held.key, key) {
                see(Blocker::Held(held));
            }
        }
        for wait in self.waits.iter().filter(|wait| wait.seq < ask.seq && wait.session != ask.session) {
            // Whoever waits for what we hold is not in our way when we want more of it.
            if clash(wait.mode, ask.mode) && !own.is_some_and(|own| clash(own, wait.mode)) {
                for (_, other, _) in wait.wants.iter().filter(|(_, other, _)| self.world.meet(*other, key)) {
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

    fn conflicts(&self, ask: &Wait) -> Vec<Conflict> {
        let (mut holders, mut waiters) = (Vec::new(), Vec::new());
        for (position, (_, key, _)) in ask.wants.iter().enumerate() {
            self.blockers(ask, *key, |blocker| match blocker {
                Blocker::Held(held) => holders.push(self.held_conflict(position, *key, held)),
                Blocker::Wait(wait, other) => waiters.push(Conflict {
                    asked: self.world.key(*key).clone(),
                    position,
                    key: self.world.key(other).clone(),
                    who: self.person(wait.session),
                    mode: wait.mode,
                    reason: wait.reason.clone(),
                    since: wait.since,
                    until: wait.until,
                    example: self.example(*key, other),
                    waiting: true,
                    queue_length: self.queue_length(other),
                }),
            });
        }
        if holders.is_empty() { waiters } else { holders }
    }

    fn held_conflict(&self, position: usize, asked: usize, held: &Held) -> Conflict {
        Conflict {
            asked: self.world.key(asked).clone(),
            position,
            key: self.world.key(held.key).clone(),
            who: self.person(held.session),
            mode: held.mode,
            reason: held.reason.clone(),
            since: held.since,
            until: held.expires,
            example: self.example(asked, held.key),
            waiting: false,
            queue_length: self.queue_length(held.key),
        }
    }

    fn example(&self, asked: usize, other: usize) -> Option<String> {
        self.world.overlaps[asked][other].as_ref().and_then(|overlap| overlap.example.clone())
    }

    fn queue_length(&self, key: usize) -> usize {
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

    /// Whether somebody among `from`, or somebody they wait for in turn, is `to`.
    fn reaches(&self, from: Vec<usize>, to: usize) -> bool {
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

    pub fn closes_a_circle(&self, wait: &Wait) -> bool {
        self.reaches(self.waits_for(wait), wait.session)
    }

    fn is_in_a_circle(&self, session: usize) -> bool {
        self.waits_of(session).any(|wait| self.closes_a_circle(wait))
    }

    // Unlock requests.

    fn request(&mut self, session: usize, id: Uuid, key: usize, reason: &Text, now: Timestamp) -> Outcome {
        let other = |key: usize| {
            let others = || self.held.iter().filter(|held| held.session != session);
            others().find(|held| held.key == key).or_else(|| others().find(|held| self.world.meet(held.key, key)))
        };
        let Some(held) = other(key).or_else(|| self.world.literal[key].and_then(other)).cloned() else {
            return Outcome::NobodyHolds(self.world.key(key).clone());
        };
        let by = self.sessions[session].id.clone();
        let again = |request: &&mut UnlockRequest| {
            request.by == by && request.reservation == held.id && request.answer.is_none()
        };
        if let Some(request) = self.requests.iter_mut().find(again) {
            request.reason = reason.clone();
            return Outcome::Request(Box::new(request.clone()));
        }
        let request = UnlockRequest {
            id,
            reservation: held.id,
            key: self.world.key(held.key).clone(),
            holder: self.sessions[held.session].id.clone(),
            by,
            by_name: None,
            reason: reason.clone(),
            at: now,
            answer: None,
            answered_at: None,
            answered_by: None,
            note: None,
        };
        self.requests.push(request.clone());
        Outcome::Request(Box::new(request))
    }

    fn respond(
        &mut self,
        session: usize,
        id: Uuid,
        answer: Answer,
        hand_over: Option<ReservationId>,
        now: Timestamp,
    ) -> Outcome {
        let Some(at) = self.requests.iter().position(|request| request.id == id) else { return Outcome::NoRequest };
        let request = self.requests[at].clone();
        let me = &self.sessions[session].id;
        let expected = if answer == Answer::Withdrawn { &request.by } else { &request.holder };
        if me != expected {
            if answer == Answer::Withdrawn && *me != request.holder {
                return Outcome::NoRequest;
            }
            return Outcome::NotTheHolder(Person { session: expected.clone(), name: None });
        }
        if request.answer.is_some() {
            let same = request.answer == Some(answer);
            return if same { Outcome::Request(Box::new(request)) } else { Outcome::AnsweredBefore(Box::new(request)) };
        }
        let by = Some(me.clone());
        if answer == Answer::Approved {
            let held = self.held.iter().position(|held| held.id == request.reservation).unwrap();
            let asker = self.sessions.iter().position(|session| session.id == request.by).unwrap();
            let given = self.held[held].clone();
            if let Some(new) = hand_over
                && let Some(refusal) = self.cannot_hand_over(&given, asker, new)
            {
                return refusal;
            }
            self.answer(at, answer, by, now);
            self.let_go(held, &Why::Approved { request: id }, now);
            if let Some(new) = hand_over {
                let ask = self.hand(&given, asker, new, Some(request.reason.clone()));
                self.grant(&ask, now);
            }
        } else {
            self.answer(at, answer, by, now);
        }
        Outcome::Request(Box::new(self.requests[at].clone()))
    }

    /// A reservation as a request of whoever should get it, before everybody who waits.
    fn hand(&self, given: &Held, asker: usize, new: ReservationId, reason: Option<Text>) -> Wait {
        Wait {
            seq: Seq::ZERO,
            session: asker,
            wants: vec![(new, given.key, given.ttl)],
            mode: given.mode,
            reason,
            if_version: None,
            since: Timestamp(0),
            until: Timestamp(0),
            feature: None,
        }
    }

    fn cannot_hand_over(&mut self, given: &Held, asker: usize, new: ReservationId) -> Option<Outcome> {
        let ask = self.hand(given, asker, new, None);
        let mut others = self.conflicts(&ask);
        let giver = &self.sessions[given.session].id;
        others.retain(|conflict| conflict.who.session != *giver || conflict.key != *self.world.key(given.key));
        if !others.is_empty() {
            return Some(Outcome::Refused(others));
        }
        let counted = self.held_at(asker, given.key).is_some()
            || self.waits_of(asker).any(|wait| wait.wants.iter().any(|want| want.1 == given.key));
        if let Some(full) = self.over_quota(asker, usize::from(!counted)) {
            return Some(full);
        }
        // As it would be then; the giver is left with it, so that a wait of its own that names it is not judged here.
        let had_it = self.held_at(asker, given.key).is_some();
        if !had_it {
            self.held.push(Held { session: asker, id: new, ..given.clone() });
        }
        let circle = self.is_in_a_circle(asker);
        if !had_it {
            self.held.pop();
        }
        circle.then_some(Outcome::Deadlock(Vec::new()))
    }

    fn answer(&mut self, at: usize, answer: Answer, by: Option<SessionId>, now: Timestamp) {
        let request = &mut self.requests[at];
        (request.answer, request.answered_at, request.answered_by) = (Some(answer), Some(now), by);
        let request = request.clone();
        if answer != Answer::Withdrawn {
            let asker = self.sessions.iter_mut().find(|session| session.id == request.by).unwrap();
            asker.told.push(Notice::UnlockAnswered(request));
        }
    }

    // Looking.

    pub fn check(&self, session: Option<usize>, key: usize, mode: Mode) -> Checked {
        let mut checked = Checked { conflicts: Vec::new(), held: false };
        for held in self.held.iter().filter(|held| self.world.meet(held.key, key)) {
            if Some(held.session) == session {
                checked.held |= self.world.covers[held.key][key];
            } else if clash(held.mode, mode) {
                checked.conflicts.push(self.held_conflict(0, key, held));
            }
        }
        checked
    }

    pub fn notices(&mut self, session: usize) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.sessions[session].told);
        let id = &self.sessions[session].id;
        let mine = |request: &&UnlockRequest| request.holder == *id && request.answer.is_none();
        notices.extend(self.requests.iter().filter(mine).cloned().map(Notice::UnlockRequested));
        notices.extend(self.pause_of(session, None).map(Notice::Paused));
        notices
    }

    /// The server was away.
    pub fn resume(&mut self, now: Timestamp) {
        for held in &mut self.held {
            held.expires = now.after(held.ttl.duration());
            held.renewals = 0;
        }
        for session in self.sessions.iter_mut().filter(|session| session.ended.is_none()) {
            session.last_seen = now;
        }
        self.waits.clear();
        (self.totals.conflicts, self.totals.deadlocks) = self.counted;
    }

    pub fn person(&self, session: usize) -> Person {
        Person { session: self.sessions[session].id.clone(), name: None }
    }

    pub fn waits_of(&self, session: usize) -> impl Iterator<Item = &Wait> {
        self.waits.iter().filter(move |wait| wait.session == session)
    }

    pub fn grant_of(&self, at: usize) -> Grant {
        let held = &self.held[at];
        Grant {
            id: held.id,
            key: self.world.key(held.key).clone(),
            mode: held.mode,
            ttl: held.ttl,
            reason: held.reason.clone(),
            since: held.since,
            expires: held.expires,
            fence: Seq::ZERO,
            version: self.versions[held.key],
            renewals: held.renewals,
        }
    }

    fn held_at(&self, session: usize, key: usize) -> Option<usize> {
        self.held.iter().position(|held| held.session == session && held.key == key)
    }

    fn own(&self, session: usize, key: usize) -> Option<usize> {
        self.held_at(session, key).or_else(|| self.held_at(session, self.world.literal[key]?))
    }

    fn holder_of(&self, key: usize) -> Option<Person> {
        let first = |key: usize| self.held.iter().find(|held| held.key == key);
        first(key).or_else(|| first(self.world.literal[key]?)).map(|held| self.person(held.session))
    }

    fn keys(&self, numbers: &[usize]) -> Vec<Key> {
        numbers.iter().map(|number| self.world.key(*number).clone()).collect()
    }
}

/// What only the records know.
#[derive(Default)]
pub struct Hint {
    pub queued: Seq,
    pub lost: Vec<SessionId>,
}

enum Blocker<'a> {
    Held(&'a Held),
    Wait(&'a Wait, usize),
}

pub fn clash(one: Mode, other: Mode) -> bool {
    one == Mode::Exclusive || other == Mode::Exclusive
}
