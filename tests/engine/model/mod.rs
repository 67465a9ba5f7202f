//! The rules once more, written to be obviously right: plain lists, read from one end to the other.
//!
//! What the engine finds with an index, timers and a search, the model finds by looking at everything. It takes the same
//! commands and has the same results, except for record numbers: fences are zero, the numbers of waits are passed in,
//! and a deadlock has no cycle.

mod hold;
mod unlock;
mod wait;

use std::collections::BTreeMap;
use std::time::Duration;

use git_dibs::engine::{
    Conflict, EndState, Grant, Intent, KeyCheck, LeftWhy, Mode, Notice, Outcome, Owner, Pause, Policy, Refusal,
    ReservationId, Seq, SessionId, SessionName, Text, Timestamp, Totals, Ttl, UnlockAnswer, UnlockRequest, WaiterId,
    Why,
};
use git_dibs::key::Key;
use uuid::Uuid;

use crate::keys::KeySet;

/// How many notices of one sort a reply lists.
const NOTICES_LISTED: usize = 10;

pub struct Model {
    pub keyset: KeySet,
    pub policy: Policy,
    /// Every session there ever was.
    pub sessions: Vec<Session>,
    /// In the order of the grants.
    pub held: Vec<Held>,
    /// The ranks of ports, by their reservations.
    pub port_ranks: Vec<(ReservationId, usize)>,
    /// What is over without a record of its release, in the order in which these will come.
    pub over: Vec<(Held, Why)>,
    /// In the order of the queue.
    pub waits: Vec<Wait>,
    /// In the order of their creation.
    pub requests: Vec<UnlockRequest>,
    pub versions: Vec<u64>,
    pub totals: Totals,
    pub counted: (u64, u64),
    pub settled: Vec<(WaiterId, Result<Outcome, Refusal>)>,
    /// Waits for a key their own session lost in this command.
    weakened: Vec<WaiterId>,
    /// Keys that became free in this command, and waits whose time was over when nothing blocked them any more.
    freed: Vec<usize>,
    due_and_free: Vec<WaiterId>,
}

pub struct Session {
    pub id: SessionId,
    pub owner: Option<usize>,
    pub feature: Option<&'static str>,
    pub last_seen: Timestamp,
    /// The same, moved by the time that the server did not listen since.
    pub last_heard: Timestamp,
    pub ended: Option<(EndState, Timestamp, Vec<usize>)>,
    pub earlier_end: Option<(EndState, Timestamp)>,
    pub lapsed: Vec<usize>,
    /// How many of the last of these the session was not told of.
    pub untold: usize,
    pub notices: Vec<Notice>,
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
    pub seq: WaiterId,
    pub session: usize,
    pub wants: Vec<(ReservationId, usize, Ttl)>,
    pub mode: Mode,
    pub reason: Option<Text>,
    pub if_version: Option<u64>,
    pub since: Timestamp,
    pub until: Timestamp,
    pub feature: Option<&'static str>,
}

impl Session {
    pub fn seen(&mut self, now: Timestamp) {
        (self.last_seen, self.last_heard) = (now, now);
    }
}

/// Who sends a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ModelActor {
    /// A session by its number, with the owner, the feature and the time of issue of its token.
    Session(usize, usize, Option<&'static str>, Option<Timestamp>),
    Admin,
    Desk,
}

/// A command, with sessions and keys as numbers.
#[derive(Debug, Clone)]
pub enum ModelCommand {
    Touch,
    Create(Option<&'static str>),
    Reserve {
        wants: Vec<(ReservationId, usize, Ttl)>,
        mode: Mode,
        reason: Option<Text>,
        wait: Option<Duration>,
        if_version: Option<u64>,
    },
    Ports {
        ids: Vec<ReservationId>,
        ttl: Ttl,
        start: u16,
        busy: Vec<u16>,
    },
    Release(Vec<usize>),
    ReleaseAll,
    Renew(Vec<usize>, Option<Ttl>),
    Heartbeat,
    End(EndState),
    Override(ReservationId),
    Unheard(Vec<Grant>),
    Leave(WaiterId),
    Request {
        id: Uuid,
        key: usize,
        reason: Text,
    },
    Respond {
        id: Uuid,
        answer: UnlockAnswer,
        hand_over: Option<ReservationId>,
    },
    Tick,
    Sweep,
    Count,
}

impl Model {
    pub fn new(keyset: KeySet, policy: Policy) -> Model {
        let versions = vec![0; keyset.keys.len()];
        Model {
            keyset,
            policy,
            sessions: Vec::new(),
            held: Vec::new(),
            port_ranks: Vec::new(),
            over: Vec::new(),
            waits: Vec::new(),
            requests: Vec::new(),
            versions,
            totals: Totals::default(),
            counted: (0, 0),
            settled: Vec::new(),
            weakened: Vec::new(),
            freed: Vec::new(),
            due_and_free: Vec::new(),
        }
    }

    /// Decides one command about `session`. `hint` has what only the records know: the number of a new wait, and the order
    /// in which sessions that are lost together end.
    pub fn execute(
        &mut self,
        who: ModelActor,
        session: &SessionId,
        ask: &ModelCommand,
        now: Timestamp,
        hint: &Hint,
    ) -> Result<Outcome, Refusal> {
        let result = match self.admit(who, session, ask, now) {
            Ok(number) => self.decide(who, number, session, ask, now, hint),
            Err(refusal) => Err(refusal),
        };
        self.settle(now);
        self.rank_ports();
        self.freed.clear();
        self.due_and_free.clear();
        match &result {
            Err(Refusal::Locked(_)) => self.totals.conflicts += 1,
            Err(Refusal::Deadlock(_)) => self.totals.deadlocks += 1,
            _ => {}
        }
        result
    }

    fn admit(
        &mut self,
        who: ModelActor,
        id: &SessionId,
        ask: &ModelCommand,
        now: Timestamp,
    ) -> Result<Option<usize>, Refusal> {
        let known = self.sessions.iter().position(|session| session.id == *id);
        let about_a_session = !matches!(
            ask,
            ModelCommand::Touch
                | ModelCommand::Create(_)
                | ModelCommand::Override(_)
                | ModelCommand::Unheard(_)
                | ModelCommand::Leave(_)
                | ModelCommand::Tick
                | ModelCommand::Sweep
                | ModelCommand::Count
        );
        let dead = |session: &Session| match &session.ended {
            Some((state, ..)) if !matches!(ask, ModelCommand::End(_)) => {
                Err(Refusal::SessionEnded { session: session.id.clone(), state: *state })
            }
            _ => Ok(()),
        };
        match (who, known) {
            // A worker cannot end a session that never was.
            (ModelActor::Session(_, owner, ..), None) if owner != 0 && matches!(ask, ModelCommand::End(_)) => {
                Err(Refusal::UnknownSession(id.clone()))
            }
            (ModelActor::Session(_, owner, feature, _), None) => {
                self.room_for_a_session()?;
                Ok(Some(self.open(id, Some(owner), feature, now)))
            }
            (ModelActor::Session(_, owner, feature, issued), Some(number)) => {
                let session = &self.sessions[number];
                if session.owner.is_some_and(|other| other != owner) {
                    return Err(Refusal::NotOwner);
                }
                let is_older = |end: Timestamp| issued.is_none_or(|issued| issued <= end);
                if let Some((state, at)) = session.earlier_end
                    && is_older(at)
                {
                    return Err(Refusal::SessionEnded { session: id.clone(), state });
                }
                match session.ended {
                    Some(_) if matches!(ask, ModelCommand::End(_)) => {}
                    Some((state, at, _)) if state != EndState::Lost && is_older(at) => dead(session)?,
                    Some(_) => {
                        self.room_for_a_session()?;
                        self.reopen(number, Some(owner), feature);
                    }
                    None => self.sessions[number].owner = Some(owner),
                }
                self.sessions[number].seen(now);
                Ok(known)
            }
            (ModelActor::Admin, None) if about_a_session => Err(Refusal::UnknownSession(id.clone())),
            (ModelActor::Admin, Some(number)) if about_a_session => dead(&self.sessions[number]).map(|()| known),
            _ => Ok(known),
        }
    }

    fn room_for_a_session(&self) -> Result<(), Refusal> {
        let limit = self.policy.sessions;
        let full = self.sessions.iter().filter(|session| session.ended.is_none()).count() >= limit;
        if full { Err(Refusal::OverQuota { what: "sessions in this repository", limit }) } else { Ok(()) }
    }

    fn open(&mut self, id: &SessionId, owner: Option<usize>, feature: Option<&'static str>, now: Timestamp) -> usize {
        self.sessions.push(Session {
            id: id.clone(),
            owner,
            feature,
            last_seen: now,
            last_heard: now,
            ended: None,
            earlier_end: None,
            lapsed: Vec::new(),
            untold: 0,
            notices: Vec::new(),
        });
        self.sessions.len() - 1
    }

    fn reopen(&mut self, number: usize, owner: Option<usize>, feature: Option<&'static str>) {
        let session = &mut self.sessions[number];
        let (state, at, released) = session.ended.take().unwrap();
        session.untold = 0;
        let lost: Vec<usize> = session.lapsed.drain(..).chain(released).collect();
        (session.owner, session.feature) = (owner, feature);
        if state != EndState::Lost {
            session.earlier_end = Some((state, at));
        } else if !lost.is_empty() {
            let kept = lost[lost.len().saturating_sub(20)..].to_vec();
            let keys = kept.iter().map(|key| self.keyset.key(*key).clone()).collect();
            self.sessions[number].lapsed = kept;
            self.sessions[number].notices.push(Notice::Lost { at, count: lost.len() as u64, keys });
        }
    }

    fn decide(
        &mut self,
        who: ModelActor,
        number: Option<usize>,
        id: &SessionId,
        ask: &ModelCommand,
        now: Timestamp,
        hint: &Hint,
    ) -> Result<Outcome, Refusal> {
        let session = number.unwrap_or(usize::MAX);
        match ask {
            ModelCommand::Touch => Ok(Outcome::Done),
            ModelCommand::Create(feature) => match number {
                Some(number) if self.sessions[number].ended.is_some() => {
                    self.room_for_a_session()?;
                    self.reopen(number, Some(0), *feature);
                    self.sessions[number].seen(now);
                    Ok(Outcome::Owned(Owner::Itself))
                }
                Some(number) if self.sessions[number].owner != Some(0) => Err(Refusal::NotOwner),
                Some(_) => Ok(Outcome::Owned(Owner::Itself)),
                None => {
                    self.room_for_a_session()?;
                    self.open(id, Some(0), *feature, now);
                    Ok(Outcome::Owned(Owner::Itself))
                }
            },
            ModelCommand::Reserve { wants, mode, reason, wait, if_version } => {
                let feature = match who {
                    ModelActor::Session(_, _, feature, _) => feature,
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
                self.reserve(wait, matches!(ask, ModelCommand::Reserve { wait: Some(_), .. }), now)
            }
            ModelCommand::Ports { ids, ttl, start, busy } => {
                let feature = match who {
                    ModelActor::Session(_, _, feature, _) => feature,
                    _ => None,
                };
                self.ports(session, ids, *ttl, *start, busy, feature, now)
            }
            ModelCommand::Release(keys) => self.release(session, keys, now),
            ModelCommand::ReleaseAll => {
                let keys = self.release_everything(session, now);
                Ok(Outcome::Released { count: keys.len(), keys: keys.into() })
            }
            ModelCommand::Renew(keys, ttl) => self.renew(session, keys, *ttl, now),
            ModelCommand::Heartbeat => Ok(self.heartbeat(session, now)),
            ModelCommand::End(state) => {
                if self.sessions[session].ended.is_none() {
                    self.end(session, *state, now);
                }
                let (state, _, released) = self.sessions[session].ended.clone().unwrap();
                Ok(Outcome::Ended { state, count: released.len() as u64, released: self.keys(&released) })
            }
            ModelCommand::Override(id) => match self.held.iter().position(|held| held.id == *id) {
                Some(at) => {
                    let why = Why::Overridden { by: "admin".into(), reason: "because".into() };
                    Ok(Outcome::Released { keys: [self.let_go(at, &why, now)].into(), count: 1 })
                }
                None => Err(Refusal::UnknownReservation),
            },
            ModelCommand::Unheard(grants) => {
                for grant in grants {
                    let known = |held: &Held| held.session == session && held.id == grant.id && held.renewals == 0;
                    if let Some(at) = self.held.iter().position(known) {
                        self.let_go(at, &Why::Unheard, now);
                    }
                }
                Ok(Outcome::Done)
            }
            ModelCommand::Leave(seq) => {
                self.leave(*seq, LeftWhy::Gone, now);
                Ok(Outcome::Done)
            }
            ModelCommand::Request { id, key, reason } => self.request(session, *id, *key, reason, now),
            ModelCommand::Respond { id, answer, hand_over } => {
                self.respond((session, matches!(who, ModelActor::Admin)), *id, *answer, *hand_over, now)
            }
            ModelCommand::Tick => {
                self.tick(now, hint);
                Ok(Outcome::Done)
            }
            ModelCommand::Sweep => {
                self.sweep(self.policy.records_per_slice, now);
                Ok(Outcome::Done)
            }
            ModelCommand::Count => {
                self.counted = (self.totals.conflicts, self.totals.deadlocks);
                Ok(Outcome::Done)
            }
        }
    }

    pub fn check(&self, session: Option<usize>, key: usize, intent: Intent) -> KeyCheck {
        let overlapping = || self.held.iter().filter(|held| self.keyset.meet(held.key, key));
        let others: Vec<&Held> = overlapping().filter(|held| Some(held.session) != session).collect();
        let held = overlapping().any(|held| Some(held.session) == session && self.keyset.covers[held.key][key]);
        let all_shared = others.iter().all(|other| other.mode == Mode::Shared);
        let in_the_way = |other: &&&Held| match intent {
            Intent::Reserve(mode) | Intent::ReserveNow(mode) => clash(other.mode, mode),
            Intent::Look => other.mode == Mode::Exclusive,
            Intent::Change => !(held && all_shared),
        };
        let mut conflicts: Vec<_> =
            others.iter().filter(in_the_way).map(|other| self.held_conflict(0, key, other)).collect();
        if let Intent::ReserveNow(mode) = intent
            && conflicts.is_empty()
        {
            let (now, wants) = (Timestamp(0), vec![(ReservationId(Uuid::nil()), key, Ttl::Plain(1))]);
            let (seq, session) = (WaiterId::LAST, session.unwrap_or(usize::MAX));
            let (reason, if_version, feature) = (None, None, None);
            conflicts = self.conflicts(&Wait {
                seq,
                session,
                wants,
                mode,
                reason,
                if_version,
                since: now,
                until: now,
                feature,
            });
        }
        KeyCheck { conflicts, held, carried: false }
    }

    /// The newest few of each sort, and how many there are besides.
    pub fn notices(&mut self, session: usize) -> Vec<Notice> {
        let once = &mut self.sessions[session].notices;
        let mut notices = once.split_off(once.len().saturating_sub(NOTICES_LISTED));
        let waiting = once.len();
        let Session { lapsed, untold, ended, .. } = &mut self.sessions[session];
        let count = std::mem::take(untold);
        if count > 0 && ended.is_none() {
            let keys = lapsed[lapsed.len() - count.min(20)..].iter().map(|key| self.keyset.key(*key).clone()).collect();
            notices.push(Notice::Expired { count: count as u64, keys });
        }
        let id = &self.sessions[session].id;
        let mine = |request: &&UnlockRequest| request.holder == *id && request.answer.is_none();
        let requests: Vec<_> = self.requests.iter().filter(mine).cloned().collect();
        let unlock_requests = requests.len().saturating_sub(NOTICES_LISTED);
        notices.extend(requests.into_iter().skip(unlock_requests).map(Notice::UnlockRequested));
        notices.extend(self.pause_of(session, None).map(Notice::Paused));
        if waiting + unlock_requests > 0 {
            notices.push(Notice::More { notices: waiting, unlock_requests });
        }
        notices
    }

    /// The server did not listen for this long: every deadline moves.
    pub fn lose_time(&mut self, time: Duration) {
        self.held.iter_mut().for_each(|held| held.expires = held.expires.after(time));
        self.waits.iter_mut().for_each(|wait| wait.until = wait.until.after(time));
        self.sessions.iter_mut().for_each(|session| session.last_heard = session.last_heard.after(time));
    }

    /// After a restart of the server.
    pub fn resume(&mut self, now: Timestamp) {
        for held in &mut self.held {
            held.expires = now.after(held.ttl.duration());
            held.renewals = 0;
        }

        for session in self.sessions.iter_mut().filter(|session| session.ended.is_none()) {
            session.seen(now);
        }
        self.waits.clear();
        (self.totals.conflicts, self.totals.deadlocks) = self.counted;
    }

    pub fn person(&self, session: usize) -> SessionName {
        SessionName { session: self.sessions[session].id.clone(), name: None }
    }

    pub fn waits_of(&self, session: usize) -> impl Iterator<Item = &Wait> {
        self.waits.iter().filter(move |wait| wait.session == session)
    }

    pub fn grant_of(&self, at: usize) -> Grant {
        let held = &self.held[at];
        Grant {
            id: held.id,
            key: self.keyset.key(held.key).clone(),
            mode: held.mode,
            ttl: held.ttl,
            reason: held.reason.clone(),
            since: held.since,
            expires: self.deadline(held),
            fence: Seq::ZERO,
            version: self.versions[held.key],
            renewals: held.renewals,
        }
    }

    pub(super) fn held_at(&self, session: usize, key: usize) -> Option<usize> {
        self.held.iter().position(|held| held.session == session && held.key == key)
    }

    pub(super) fn own(&self, session: usize, key: usize) -> Option<usize> {
        self.held_at(session, key).or_else(|| self.held_at(session, self.keyset.literal[key]?))
    }

    pub(super) fn holder_of(&self, key: usize) -> Option<SessionName> {
        let first = |key: usize| self.held.iter().find(|held| held.key == key);
        first(key).or_else(|| first(self.keyset.literal[key]?)).map(|held| self.person(held.session))
    }

    pub(super) fn keys(&self, numbers: &[usize]) -> Vec<Key> {
        numbers.iter().map(|number| self.keyset.key(*number).clone()).collect()
    }
}

/// What only the records know.
pub struct Hint {
    pub queued: WaiterId,
    pub lost: Vec<SessionId>,
    /// What the engine has ended because of its deadline.
    pub expired: Vec<ReservationId>,
}

pub fn clash(one: Mode, other: Mode) -> bool {
    one == Mode::Exclusive || other == Mode::Exclusive
}
