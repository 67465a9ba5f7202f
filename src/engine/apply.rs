//! Records change the recorded state, and nothing else does.
//!
//! A rule calls `emit` with an event: the engine numbers it, adds it to the turn's records and applies it. A replay calls
//! [`Engine::apply`] with the same records. Both end in `apply_at`, so they cannot differ.

use std::collections::{BTreeSet, VecDeque};

use smallvec::SmallVec;
use uuid::Uuid;

use super::command::{Notice, UnlockRequest};
use super::idle::IdleGroups;
use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, WaiterId};
use super::index::QueueEntry;
use super::listening::ListeningTime;
use super::notice::{LOST_KEYS_LISTED, NOTICES_KEPT, push_limited};
use super::record::{EndState, Event, Owner, Record, UnlockAnswer, Want, Why};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{EarlierEnd, End, Engine, Lookup, QueuedKey, Reservation, Session, UNKNOWN, Waiter, compared};
use super::turn::Turn;
use crate::key::Key;

/// Ended sessions that are remembered, so that their tokens stay invalid. The oldest is forgotten first.
const ENDED_REMEMBERED: usize = 100_000;

/// Free keys whose version is remembered. A forgotten key starts again above every forgotten version.
const VERSIONS_REMEMBERED: usize = 1_000_000;

/// Answered unlock requests that are still listed.
const ANSWERED_REMEMBERED: usize = 10_000;

/// Expired keys that a session remembers, so that renewing one says that it expired.
const LAPSED_REMEMBERED: usize = 256;

impl Engine {
    /// Records an event: numbers it, adds it to the turn and applies it. Returns its number.
    pub(super) fn emit(&mut self, turn: &mut Turn, event: Event) -> Seq {
        self.emit_at(turn, |_| event, UNKNOWN);
        self.seq
    }

    /// The same for a caller that has already found the key and the reservation, which saves finding them again. Returns
    /// the key that a release freed.
    #[inline]
    pub(super) fn emit_at(
        &mut self,
        turn: &mut Turn,
        event: impl FnOnce(&Engine) -> Event,
        lookup: Lookup,
    ) -> Option<Key> {
        let seq = self.seq.next();
        // Made in place: pushing a finished record would copy it.
        turn.records.extend(std::iter::once_with(|| Record { seq, at: turn.now, event: event(self) }));
        self.apply_at(turn.records.last().expect("just pushed"), lookup)
    }

    /// Applies the next record of a replay.
    ///
    /// # Panics
    ///
    /// If it is not the next record.
    pub fn apply(&mut self, record: &Record) {
        self.apply_at(record, UNKNOWN);
    }

    fn apply_at(&mut self, record: &Record, lookup: Lookup) -> Option<Key> {
        assert!(record.follows(self.seq), "records are applied in order and without gaps");
        self.seq = record.seq;
        let (seq, at) = (record.seq, record.at);
        match &record.event {
            Event::Opened { session, name, feature, owner } => {
                self.apply_opened(seq, at, session, name.clone(), feature.clone(), owner.clone());
            }
            Event::Bound { session, owner } => {
                let slot = self.slot(session);
                self.sessions[slot].owner = Some(owner.clone());
                self.count_worker_session(slot, true);
            }
            Event::Reopened { session, name, feature, owner } => {
                let slot = self.slot(session);
                self.apply_reopened(seq, at, slot);
                let session = &mut self.sessions[slot];
                (session.name, session.feature, session.owner) = (name.clone(), feature.clone(), owner.clone());
                self.count_worker_session(slot, true);
            }
            Event::Ended { session, state } => self.apply_ended(seq, at, self.slot(session), *state),
            Event::Reserved { id, session, key, mode, ttl, reason } => {
                let fold_case = self.policy.fold_case;
                let place = match lookup.place() {
                    Some(place) => place,
                    None => self.index.find_or_insert(&compared(key, fold_case), self.version_floor),
                };
                let slot = self.slot(session);
                let expires = self.listening(at).after(ttl.duration());
                let position = u32::try_from(self.sessions[slot].held.len()).expect("within the quota");
                let held = self.reservations.insert_with(|| Reservation {
                    id: *id,
                    key: compared(key, fold_case),
                    reason: reason.clone(),
                    since: at,
                    fence: seq,
                    session: slot,
                    place,
                    position,
                    ttl: *ttl,
                    mode: *mode,
                    is_timed: false,
                    expires,
                    renewals: 0,
                });
                self.apply_reserved(held);
            }
            Event::Amended { id: _, session, key, mode, ttl, reason } => {
                let slot = self.held_by(self.slot(session), &self.compared(key));
                let slot = slot.expect("only what is held is amended");
                self.clear_deadline(slot);
                let reservation = &mut self.reservations[slot];
                (reservation.mode, reservation.ttl, reservation.reason) = (*mode, *ttl, reason.clone());
                self.set_deadline(slot);
            }
            Event::Released { id: _, session, key, why } => {
                let slot = lookup.held().or_else(|| self.held_by(self.slot(session), &self.compared(key)));
                return Some(self.apply_released(slot.expect("only what is held is released"), at, why));
            }
            Event::Queued { session, wants, mode, reason, if_version } => {
                let fold = |want: &Want| Want { key: self.compared(&want.key), ..want.clone() };
                let waiter = Waiter {
                    session: self.slot(session),
                    wants: wants.iter().map(fold).collect(),
                    places: Vec::new(),
                    mode: *mode,
                    reason: reason.clone(),
                    if_version: *if_version,
                    since: at,
                    until: ListeningTime::NEVER,
                    feature: None,
                };
                self.apply_queued(seq.into(), waiter);
            }
            Event::Seated { waiter, .. } | Event::Left { waiter, .. } => self.apply_unqueued(*waiter, at),
            Event::Counted { conflicts, deadlocks } => {
                self.totals.recorded_refusals = (*conflicts, *deadlocks);
                self.totals.conflicts = self.totals.conflicts.max(*conflicts);
                self.totals.deadlocks = self.totals.deadlocks.max(*deadlocks);
            }
            Event::UnlockRequested { request, reservation, key, session, reason } => {
                let key = self.compared(key);
                self.apply_unlock_requested(*request, *reservation, key, session, reason.clone(), at);
            }
            Event::UnlockAnswered { request, answer, by, admin, note } => {
                self.apply_unlock_answered(*request, *answer, (by.clone(), admin.clone()), note.clone(), at);
            }
            Event::Committed { session, contents } => self.apply_committed(session, contents),
            Event::Restored { .. } => {
                // Releases after the copy was made are lost, so versions jump above every one there may have been.
                self.version_floor = self.version_floor.max(seq.0);
                self.index.raise_versions(self.version_floor);
            }
        }
        None
    }

    pub(super) fn apply_opened(
        &mut self,
        seq: Seq,
        at: Timestamp,
        id: &SessionId,
        name: Option<Text>,
        feature: Option<Text>,
        owner: Option<Owner>,
    ) {
        let last_heard = self.listening(at);
        let session = Session {
            id: id.clone(),
            name,
            feature,
            owner,
            opened: seq,
            started: at,
            end: None,
            earlier_end: None,
            held: Vec::new(),
            idle: IdleGroups::default(),
            waits: BTreeSet::new(),
            queued_keys: SmallVec::new(),
            lapsed: VecDeque::new(),
            lapsed_dropped: 0,
            lapsed_untold: 0,
            incoming: Vec::new(),
            outgoing: 0,
            released_at_end: Vec::new(),
            last_seen: at,
            last_heard,
            notices: VecDeque::new(),
        };
        let slot = self.sessions.insert(session);
        self.session_ids.insert(id.clone(), slot);
        self.alive += 1;
        self.count_worker_session(slot, true);
        self.session_deadlines.set(last_heard.after(self.policy.session_timeout), seq, slot);
    }

    /// Counts a session of a worker that became alive, or that ended.
    pub(super) fn count_worker_session(&mut self, slot: SessionSlot, is_alive: bool) {
        let Some(owner @ Owner::Worker { .. }) = &self.sessions[slot].owner else { return };
        if is_alive {
            *self.worker_sessions.entry(owner.clone()).or_default() += 1;
            return;
        }
        let count = self.worker_sessions.get_mut(owner).expect("every session that is alive was counted");
        *count -= 1;
        if *count == 0 {
            self.worker_sessions.remove(owner);
        }
    }

    fn apply_ended(&mut self, seq: Seq, at: Timestamp, slot: SessionSlot, state: EndState) {
        let session = &mut self.sessions[slot];
        session.lapsed_untold = 0;
        assert!(session.held.is_empty() && session.waits.is_empty(), "a session releases everything before it ends");
        let released = std::mem::take(&mut session.released_at_end);
        session.end = Some(End { seq, state, at, released });
        if state == EndState::Lost {
            // It may come back, and is then told what it lost.
            let dropped = session.lapsed.len().saturating_sub(LOST_KEYS_LISTED);
            session.lapsed.drain(..dropped);
            session.lapsed.shrink_to_fit();
            session.lapsed_dropped += dropped as u64;
        } else {
            (session.lapsed, session.lapsed_dropped) = (VecDeque::new(), 0);
            session.notices = VecDeque::new();
        }
        self.alive -= 1;
        self.count_worker_session(slot, false);
        self.ended.insert(seq, slot);
        if self.ended.len() > ENDED_REMEMBERED {
            let (_, oldest) = self.ended.pop_first().expect("not empty");
            self.session_ids.remove(&self.sessions[oldest].id);
            self.sessions.remove(oldest);
        }
    }

    /// Begins an ended session again. It holds nothing, and a lost one gets a notice of what it lost.
    fn apply_reopened(&mut self, seq: Seq, at: Timestamp, slot: SessionSlot) {
        let last_heard = self.listening(at);
        let session = &mut self.sessions[slot];
        let End { seq: ended, state, at: ended_at, released } = session.end.take().expect("only an ended session");
        let lapsed = std::mem::take(&mut session.lapsed);
        let dropped = std::mem::take(&mut session.lapsed_dropped);
        (session.opened, session.started) = (seq, at);
        (session.last_seen, session.last_heard) = (at, last_heard);
        if state == EndState::Lost {
            let count = dropped + (lapsed.len() + released.len()) as u64;
            let more = (lapsed.len() + released.len()).saturating_sub(LOST_KEYS_LISTED);
            let keys: Vec<Key> = lapsed.into_iter().chain(released).skip(more).collect();
            if count > 0 {
                push_limited(&mut session.notices, NOTICES_KEPT, Notice::Lost { at: ended_at, count, keys });
            }
        } else {
            session.earlier_end = Some(EarlierEnd { state, at: ended_at });
        }
        self.ended.remove(&ended);
        self.alive += 1;
        self.session_deadlines.set(last_heard.after(self.policy.session_timeout), seq, slot);
    }

    /// Adds a reservation to everything that refers to it.
    pub(super) fn apply_reserved(&mut self, slot: ReservationSlot) {
        self.apply_pause(slot);
        let Reservation { fence, session, place, ref key, .. } = self.reservations[slot];
        // A key that is held again has not lapsed any more.
        let holder = &mut self.sessions[session];
        if let Some(at) = holder.lapsed.iter().position(|lapsed| lapsed == key) {
            let is_untold = (holder.lapsed.len() - at) as u64 <= holder.lapsed_untold;
            holder.lapsed_untold -= u64::from(is_untold);
            holder.lapsed.remove(at);
        }
        self.index.add_holder(place, slot);
        self.sessions[session].held.push(slot);
        self.grants.push((fence, slot));
        self.set_deadline(slot);
        self.totals.granted += 1;
    }

    fn apply_released(&mut self, slot: ReservationSlot, at: Timestamp, why: &Why) -> Key {
        let Reservation { id, session, place, position, since, ref key, .. } = self.reservations[slot];
        let key = key.clone();
        self.clear_deadline(slot);
        self.reservations.remove(slot);
        self.index.remove_holder(place, slot);
        let session = &mut self.sessions[session];
        session.held.swap_remove(position as usize);
        if let Some(moved) = session.held.get(position as usize) {
            self.reservations[*moved].position = position;
        }
        self.totals.over += 1;
        self.totals.held_ms += u64::try_from(at.0 - since.0).unwrap_or(0);
        match why {
            Why::Expired => {
                self.totals.expired += 1;
                session.lapsed_untold += 1;
                session.lapsed_dropped += u64::from(session.lapsed.len() == LAPSED_REMEMBERED);
                push_limited(&mut session.lapsed, LAPSED_REMEMBERED, key.clone());
            }
            Why::Ended => session.released_at_end.push(key.clone()),
            _ => {}
        }
        if matches!(why, Why::Overridden { .. }) {
            let notice = Notice::ReleasedEarly { id, key: key.clone(), at, why: why.clone() };
            push_limited(&mut session.notices, NOTICES_KEPT, notice);
        }
        if self.index.place(place).holders.is_empty() {
            self.apply_pause_end(&key);
        }
        if !self.index.place(place).is_live() {
            self.remember_version(place);
        }
        self.compact();
        key
    }

    /// Remembers the version of a key that became idle. Where there are too many, forgets the longest idle one.
    fn remember_version(&mut self, place: PlaceSlot) {
        self.index.set_idle(place, self.seq);
        self.idle_places.push_back((place, self.seq));
        while self.index.idle_len() > VERSIONS_REMEMBERED {
            let (place, since) = self.idle_places.pop_front().expect("every idle place is listed");
            if self.index.is_idle_since(place, since) {
                self.version_floor = self.version_floor.max(self.index.place(place).version + 1);
                self.index.forget(place);
            }
        }
    }

    pub(super) fn apply_queued(&mut self, id: WaiterId, mut waiter: Waiter) {
        self.sessions[waiter.session].waits.insert(id);
        let entry = QueueEntry { waiter: id, session: waiter.session, mode: waiter.mode };
        for want in &waiter.wants {
            let place = self.index.find_or_insert(&want.key, self.version_floor);
            self.index.enqueue(place, entry);
            waiter.places.push(place);
            self.sessions[waiter.session].queued_keys.push(QueuedKey { waiter: id, place, mode: waiter.mode });
        }
        self.waiters.insert(id, waiter);
    }

    fn apply_unqueued(&mut self, id: WaiterId, at: Timestamp) {
        let waiter = self.waiters.remove(&id).expect("only a queued request leaves the queue");
        let last_heard = self.listening(at);
        let session = &mut self.sessions[waiter.session];
        session.waits.remove(&id);
        let first = session.queued_keys.partition_point(|queued| queued.waiter < id);
        let last = session.queued_keys.partition_point(|queued| queued.waiter <= id);
        session.queued_keys.drain(first..last);
        // A waiting session has an open connection, so its timeout starts at the end of the wait.
        session.last_seen = session.last_seen.max(at);
        session.last_heard = session.last_heard.max(last_heard);
        self.wait_deadlines.remove(&(waiter.until, id));
        for place in waiter.places {
            self.index.dequeue(place, id);
            let known = self.index.place(place);
            match (known.is_live(), known.was_held) {
                (true, _) => {}
                (false, true) => {
                    self.remember_version(place);
                    self.compact();
                }
                // It was never held, so there is no version to remember.
                (false, false) => self.index.forget(place),
            }
        }
    }

    fn apply_unlock_requested(
        &mut self,
        id: Uuid,
        reservation: ReservationId,
        key: Key,
        by: &SessionId,
        reason: Text,
        at: Timestamp,
    ) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.reason = reason;
            return;
        }
        let place = self.index.find(&key).expect("an unlock request is for a key that is held");
        let held = self.index.place(place).holders.iter().find(|slot| self.reservations[*slot].id == reservation);
        let holder = self.reservations[held.expect("an unlock request is for a key that is held")].session;
        let by_name = self.sessions[self.slot(by)].name.clone();
        let request = UnlockRequest {
            id,
            reservation,
            key,
            holder: self.sessions[holder].id.clone(),
            holder_name: self.sessions[holder].name.clone(),
            by: by.clone(),
            by_name,
            reason,
            at,
            answer: None,
            answered_at: None,
            answered_by: None,
            answered_by_admin: None,
            note: None,
        };
        self.sessions[holder].incoming.push(id);
        let asker = self.slot(by);
        self.sessions[asker].outgoing += 1;
        self.pending.entry(reservation).or_default().push(id);
        self.requests.insert(id, request);
    }

    fn apply_unlock_answered(
        &mut self,
        id: Uuid,
        answer: UnlockAnswer,
        by: (Option<SessionId>, Option<Text>),
        note: Option<Text>,
        at: Timestamp,
    ) {
        let request = self.requests.get_mut(&id).expect("only a known request is answered");
        (request.answer, request.answered_at, request.note) = (Some(answer), Some(at), note);
        (request.answered_by, request.answered_by_admin) = by;
        let request = request.clone();
        if let Some(list) = self.pending.get_mut(&request.reservation) {
            list.retain(|other| *other != id);
            if list.is_empty() {
                self.pending.remove(&request.reservation);
            }
        }
        if let Some(slot) = self.session_ids.get(&request.holder) {
            self.sessions[*slot].incoming.retain(|other| *other != id);
        }
        if let Some(slot) = self.session_ids.get(&request.by) {
            self.sessions[*slot].outgoing = self.sessions[*slot].outgoing.saturating_sub(1);
        }
        if answer != UnlockAnswer::Withdrawn
            && let Some(slot) = self.session_ids.get(&request.by)
        {
            push_limited(&mut self.sessions[*slot].notices, NOTICES_KEPT, Notice::UnlockAnswered(request));
        }
        self.answered.push_back(id);
        if self.answered.len() > ANSWERED_REMEMBERED {
            let oldest = self.answered.pop_front().expect("not empty");
            self.requests.remove(&oldest);
        }
    }

    /// Removes stale entries from lists where removing each one at once would cost too much. It runs only when a list has
    /// doubled, so each release pays for a constant number of entries.
    fn compact(&mut self) {
        let live = self.reservations.len();
        if self.grants.len() > 2 * live + 1024 {
            let reservations = &self.reservations;
            self.grants.retain(|(fence, slot)| reservations.get(*slot).is_some_and(|r| r.fence == *fence));
        }
        if self.idle_places.len() > 2 * self.index.len() + 1024 {
            let index = &self.index;
            self.idle_places.retain(|(place, since)| index.is_idle_since(*place, *since));
        }
        if self.reservation_deadlines.len() > 2 * live + 1024 {
            let reservations = &self.reservations;
            self.reservation_deadlines.retain(|fence, slot| reservations.get(slot).is_some_and(|r| r.fence == fence));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{Actor, Command, LeftWhy, Mode, Outcome, Policy, Reserve, Ttl};

    #[test]
    fn waiting_for_an_idle_key_leaves_nothing_behind() {
        let mut engine = Engine::new(Policy::default());
        let keys = ["a", "b"].map(|text| Key::recall(text, false).unwrap());
        let [ana, bo] = ["ana", "bo"].map(|id| SessionId::parse(id).unwrap());
        let mut turn = Turn::at(Timestamp(0));
        let mut ask =
            |engine: &mut Engine, command| engine.execute(&mut turn, &Actor::Admin("test".into()), command).unwrap();
        let reserve = |session: &SessionId| {
            let want = |key: &Key| Want { id: ReservationId(Uuid::nil()), key: key.clone(), ttl: Ttl::Plain(60) };
            Command::Reserve(Reserve {
                session: session.clone(),
                wants: keys.iter().map(want).collect(),
                mode: Mode::Exclusive,
                reason: None,
                wait: Some(Duration::from_secs(60)),
                if_version: None,
            })
        };
        for session in [&ana, &bo] {
            ask(&mut engine, Command::Create { session: session.clone(), name: None, feature: None });
        }
        ask(&mut engine, reserve(&ana));
        ask(&mut engine, Command::Release { session: ana.clone(), keys: [keys[0].clone().into()].into() });
        for _ in 0..10_000 {
            let Outcome::Queued(waiter) = ask(&mut engine, reserve(&bo)) else { panic!("b is held") };
            ask(&mut engine, Command::Leave { waiter, why: LeftWhy::Gone });
        }
        assert!(engine.idle_places.len() < 2_000, "{} entries for one key", engine.idle_places.len());
    }

    /// Earlier versions granted a pattern beside the file that is named like it. Both stay held; only new grants see that
    /// they overlap.
    #[test]
    fn reservations_that_overlap_since_a_later_version_are_both_kept() {
        let [ana, bo] = ["ana", "bo"].map(|id| SessionId::parse(id).unwrap());
        let opened =
            |session: &SessionId| Event::Opened { session: session.clone(), name: None, feature: None, owner: None };
        let reserved = |id: u128, session: &SessionId, key: &str| Event::Reserved {
            id: ReservationId(Uuid::from_u128(id)),
            session: session.clone(),
            key: Key::recall(key, false).unwrap(),
            mode: Mode::Exclusive,
            ttl: Ttl::Plain(60),
            reason: None,
        };
        let (pattern, file) = ("app/[id]", "file:app/[id]");
        let events = [opened(&ana), opened(&bo), reserved(1, &ana, pattern), reserved(2, &bo, file)];
        let mut engine = Engine::new(Policy::default());
        for (seq, event) in (1..).map(Seq).zip(events) {
            engine.apply(&Record { seq, at: Timestamp(0), event });
        }
        let mut turn = Turn::at(Timestamp(0));
        engine.resume(&mut turn);
        let restored = Engine::restore(Policy::default(), engine.image());
        assert_eq!((engine.numbers().reservations, restored.numbers().reservations), (2, 2));
        let mut ask = |session: &SessionId, key: &str| {
            let want =
                Want { id: ReservationId(Uuid::nil()), key: Key::recall(key, false).unwrap(), ttl: Ttl::Plain(60) };
            let (session, wants) = (session.clone(), [want].into());
            let ask = Reserve { session, wants, mode: Mode::Exclusive, reason: None, wait: None, if_version: None };
            engine.execute(&mut turn, &Actor::Admin("test".into()), Command::Reserve(ask))
        };
        assert!(ask(&ana, pattern).is_ok() && ask(&bo, file).is_ok(), "each can be renewed");
        assert!(ask(&ana, file).is_err() && ask(&bo, pattern).is_err(), "neither can be granted again");
    }
}
