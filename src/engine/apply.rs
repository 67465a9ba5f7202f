//! Records change the recorded state, and nothing else does.
//!
//! A rule calls `emit` with an event: the engine numbers it, adds it to the turn's records and applies it. A replay calls
//! [`Engine::apply`] with the same records. Both end in `apply_at`, so they cannot differ.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smallvec::SmallVec;
use uuid::Uuid;

use super::command::{Notice, UnlockRequest};
use super::held_list::{HeldList, Links};
use super::idle::IdleGroups;
use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, Ttl, WaiterId};
use super::index::QueueEntry;
use super::lapsed::{LOST_KEYS_LISTED, LapsedKeys};
use super::listening::ListeningTime;
use super::notice::add_notice;
use super::over::RELEASED_LISTED;
use super::quota::stored_bytes;
use super::record::{EndState, Event, Mode, Owner, Record, UnlockAnswer, Want, Why};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{
    EarlierEnd, End, Engine, Lookup, QueuedKey, ReleasedKeys, Reservation, Session, UNKNOWN, Waiter, compared,
};
use super::turn::Turn;
use crate::key::Key;

/// Ended sessions that are remembered, so that their tokens stay invalid. The oldest is forgotten first.
const ENDED_REMEMBERED: usize = 100_000;

/// How many bytes the free keys may take whose version is remembered. A forgotten key starts again above every forgotten
/// version.
const VERSIONS_BYTES_MAX: usize = 64 << 20;

/// Answered unlock requests that are still listed, and the bytes of their text.
const ANSWERED_REMEMBERED: usize = 10_000;
const ANSWERED_BYTES_MAX: usize = 8 << 20;

/// The bytes of the keys that are listed if ended sessions are ended again. The oldest list is forgotten first; how many
/// keys there were is remembered.
const ENDED_KEYS_BYTES_MAX: usize = 8 << 20;

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
            Event::ReleasedAll { session } => self.apply_over(seq, self.slot(session), Why::Released),
            Event::Reserved { id, session, key, mode, ttl, reason } => {
                let fold_case = self.policy.fold_case;
                let place = match lookup.place() {
                    Some(place) => place,
                    None => self.index.find_or_insert(&compared(key, fold_case), self.version_floor),
                };
                let slot = self.slot(session);
                let expires = self.listening(at).after(ttl.duration());
                let renewals = 0_u32.wrapping_sub(self.sessions[slot].heartbeats);
                let held = self.reservations.insert_with(|| Reservation {
                    id: *id,
                    key: compared(key, fold_case),
                    reason: reason.clone(),
                    since: at,
                    fence: seq,
                    session: slot,
                    place,
                    links: Links::NONE,
                    ttl: *ttl,
                    mode: *mode,
                    is_timed: false,
                    expires,
                    renewals,
                });
                self.apply_reserved(held);
            }
            Event::Amended { id: _, session, key, mode, ttl, reason } => {
                let slot = self.held_by(self.slot(session), &self.compared(key));
                self.apply_amended(slot.expect("only what is held is amended"), *mode, *ttl, reason.clone());
            }
            Event::Released { id, session, key, why } => {
                let slot = lookup.held().or_else(|| self.find_released(*id, self.slot(session), &self.compared(key)));
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
                    blocked_at: Cell::new(0),
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
            Event::UnlockAnswered { request, answer, by, admin, note, handed_over } => {
                let how = (*answer, *handed_over);
                self.apply_unlock_answered(*request, how, (by.clone(), admin.clone()), note.clone(), at);
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
            held: HeldList::default(),
            idle: IdleGroups::default(),
            ttls: BTreeMap::new(),
            over: HeldList::default(),
            segments: SmallVec::new(),
            over_until: Seq::ZERO,
            waits: BTreeSet::new(),
            queued_keys: SmallVec::new(),
            lapsed: LapsedKeys::default(),
            incoming: Vec::new(),
            outgoing: BTreeSet::new(),
            released_at_end: ReleasedKeys::default(),
            newest_token: Timestamp(0),
            spent_token: Timestamp(0),
            earlier_spent_token: Timestamp(0),
            renewed: ListeningTime::LONG_AGO,
            heartbeats: 0,
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
        assert!(session.waits.is_empty(), "the waits of a session end before it");
        let mut released = std::mem::take(&mut session.released_at_end);
        if !session.held.is_empty() {
            released = ReleasedKeys { keys: self.listed_keys(slot), count: self.sessions[slot].held.len() as u64 };
            self.apply_over(seq, slot, Why::Ended);
        }
        let session = &mut self.sessions[slot];
        session.end = Some(End { seq, state, at, released });
        if state == EndState::Lost {
            // It may come back, and is then told what it lost.
            session.lapsed.keep_newest();
        } else {
            session.lapsed = LapsedKeys::default();
            session.notices = VecDeque::new();
            session.spent_token = session.newest_token;
        }
        self.alive -= 1;
        self.count_worker_session(slot, false);
        self.ended.insert(seq, slot);
        self.remember_ended_keys(seq, slot);
        if self.ended.len() > ENDED_REMEMBERED {
            self.forget_session();
        }
    }

    /// Counts the keys that the end of a session lists. Where there are too many, forgets the oldest lists.
    pub(super) fn remember_ended_keys(&mut self, seq: Seq, slot: SessionSlot) {
        let Some(End { released, .. }) = &self.sessions[slot].end else { return };
        if released.keys.is_empty() {
            return;
        }
        let bytes = released.keys.iter().map(|key| size_of::<Key>() + key.text_bytes()).sum();
        self.ended_keys.insert(seq, bytes);
        self.ended_keys_bytes += bytes;
        while self.ended_keys_bytes > ENDED_KEYS_BYTES_MAX {
            let (seq, bytes) = self.ended_keys.pop_first().expect("their sum is above zero");
            self.ended_keys_bytes -= bytes;
            let oldest = self.ended.get(&seq).copied();
            if let Some(end) = oldest.and_then(|slot| self.sessions[slot].end.as_mut()) {
                end.released.keys = Vec::new();
            }
        }
    }

    fn forget_ended_keys(&mut self, seq: Seq) {
        self.ended_keys_bytes -= self.ended_keys.remove(&seq).unwrap_or(0);
    }

    /// Forgets the session that ended first. One whose releases are still to be recorded is kept.
    fn forget_session(&mut self) {
        let mut ended = self.ended.iter();
        let Some((seq, oldest)) = ended.find(|(_, slot)| self.sessions[**slot].over.is_empty()) else { return };
        let (seq, oldest) = (*seq, *oldest);
        self.ended.remove(&seq);
        self.forget_ended_keys(seq);
        self.session_ids.remove(&self.sessions[oldest].id);
        self.sessions.remove(oldest);
    }

    /// Begins an ended session again. It holds nothing, and a lost one gets a notice of what it lost.
    fn apply_reopened(&mut self, seq: Seq, at: Timestamp, slot: SessionSlot) {
        let last_heard = self.listening(at);
        let session = &mut self.sessions[slot];
        let End { seq: ended, state, at: ended_at, released } = session.end.take().expect("only an ended session");
        let (lapsed, dropped) = session.lapsed.take();
        (session.opened, session.started) = (seq, at);
        (session.last_seen, session.last_heard) = (at, last_heard);
        if state == EndState::Lost {
            let count = dropped + lapsed.len() as u64 + released.count;
            let more = (lapsed.len() + released.keys.len()).saturating_sub(LOST_KEYS_LISTED);
            let keys: Vec<Key> = lapsed.into_iter().chain(released.keys).skip(more).collect();
            // Releasing or renewing one of them says that it expired.
            session.lapsed = LapsedKeys::told(&keys);
            if count > 0 {
                add_notice(&mut session.notices, Notice::Lost { at: ended_at, count, keys });
            }
        } else {
            session.earlier_end = Some(EarlierEnd { state, at: ended_at });
            session.earlier_spent_token = session.spent_token;
        }
        self.ended.remove(&ended);
        self.forget_ended_keys(ended);
        self.alive += 1;
        self.session_deadlines.set(last_heard.after(self.policy.session_timeout), seq, slot);
    }

    /// Adds a reservation to everything that refers to it.
    pub(super) fn apply_reserved(&mut self, slot: ReservationSlot) {
        self.apply_pause(slot);
        self.apply_port(slot);
        let Reservation { fence, session, place, ttl, ref key, .. } = self.reservations[slot];
        self.sessions[session].lapsed.remove(key);
        self.index.add_holder(place, slot);
        self.grants.push((fence, slot));
        self.totals.granted += 1;
        self.reason_bytes += self.own_bytes(&self.reservations[slot]);
        let holder = &mut self.sessions[session];
        if fence < holder.over_until {
            holder.over.push(&mut self.reservations, slot);
            self.over_count += 1;
            return;
        }
        holder.held.push(&mut self.reservations, slot);
        *holder.ttls.entry(ttl.seconds()).or_default() += 1;
        self.set_deadline(slot);
    }

    fn apply_amended(&mut self, slot: ReservationSlot, mode: Mode, ttl: Ttl, reason: Option<Text>) {
        self.reason_bytes += stored_bytes(reason.as_ref());
        self.reason_bytes -= stored_bytes(self.reservations[slot].reason.as_ref());
        self.clear_deadline(slot);
        let reservation = &mut self.reservations[slot];
        let ttls = &mut self.sessions[reservation.session].ttls;
        forget_ttl(ttls, reservation.ttl);
        *ttls.entry(ttl.seconds()).or_default() += 1;
        (reservation.mode, reservation.ttl, reservation.reason) = (mode, ttl, reason);
        self.set_deadline(slot);
    }

    /// The reservation that a record of a release is about. One that is over may be beside a newer one of the same key.
    fn find_released(&self, id: ReservationId, session: SessionSlot, key: &Key) -> Option<ReservationSlot> {
        let holders = || self.index.find(key).map(|place| self.index.place(place).holders.iter()).into_iter().flatten();
        let is_own = |slot: &ReservationSlot| self.reservations[*slot].session == session;
        let own = || holders().filter(is_own);
        own().find(|slot| self.reservations[*slot].id == id).or_else(|| own().next())
    }

    fn apply_released(&mut self, slot: ReservationSlot, at: Timestamp, why: &Why) -> Key {
        let Reservation { id, session: holder, place, since, fence, ttl, ref key, .. } = self.reservations[slot];
        let key = key.clone();
        self.reason_bytes -= self.own_bytes(&self.reservations[slot]);
        self.index.remove_holder(place, slot);
        let session = &mut self.sessions[holder];
        let is_over = fence < session.over_until;
        if is_over {
            session.over.remove(&mut self.reservations, slot);
            self.apply_swept(holder);
        } else {
            session.held.remove(&mut self.reservations, slot);
            forget_ttl(&mut session.ttls, ttl);
            self.clear_deadline(slot);
        }
        self.reservations.remove(slot);
        let session = &mut self.sessions[holder];
        self.totals.over += 1;
        self.totals.held_ms += u64::try_from(at.0 - since.0).unwrap_or(0);
        match why {
            Why::Expired => {
                self.totals.expired += 1;
                session.lapsed.add(key.clone());
            }
            // Before format 4. Since then the releases may follow after the session was opened again.
            Why::Ended if !is_over && session.end.is_none() => session.released_at_end.add(key.clone()),
            _ => {}
        }
        if matches!(why, Why::Overridden { .. }) {
            let notice = Notice::ReleasedEarly { id, key: key.clone(), at, why: why.clone() };
            add_notice(&mut session.notices, notice);
        }
        if self.index.place(place).holders.is_empty() {
            self.apply_pause_end(&key);
        }
        self.apply_port_end(&key, slot);
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
        while self.index.idle_bytes() > VERSIONS_BYTES_MAX {
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
        self.queued_keys += waiter.wants.len();
        self.reason_bytes += waiter.own_bytes();
        self.waiters.insert(id, waiter);
    }

    fn apply_unqueued(&mut self, id: WaiterId, at: Timestamp) {
        let waiter = self.waiters.remove(&id).expect("only a queued request leaves the queue");
        self.queued_keys -= waiter.wants.len();
        self.reason_bytes -= waiter.own_bytes();
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
            self.pending_bytes = self.pending_bytes + reason.len() - request.reason.len();
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
            handed_over: false,
        };
        self.sessions[holder].incoming.push(id);
        let asker = self.slot(by);
        self.sessions[asker].outgoing.insert(id);
        self.pending.entry(reservation).or_default().push(id);
        self.pending_bytes += request.text_bytes();
        self.requests.insert(id, request);
    }

    fn apply_unlock_answered(
        &mut self,
        id: Uuid,
        (answer, handed_over): (UnlockAnswer, bool),
        by: (Option<SessionId>, Option<Text>),
        note: Option<Text>,
        at: Timestamp,
    ) {
        let request = self.requests.get_mut(&id).expect("only a known request is answered");
        self.pending_bytes -= request.text_bytes();
        (request.answer, request.answered_at, request.note) = (Some(answer), Some(at), note);
        (request.answered_by, request.answered_by_admin) = by;
        request.handed_over = handed_over;
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
            self.sessions[*slot].outgoing.remove(&id);
        }
        if answer != UnlockAnswer::Withdrawn
            && let Some(slot) = self.session_ids.get(&request.by)
        {
            add_notice(&mut self.sessions[*slot].notices, Notice::UnlockAnswered(request.clone()));
        }
        self.answered.push_back(id);
        self.answered_bytes += request.text_bytes();
        while self.answered.len() > ANSWERED_REMEMBERED || self.answered_bytes > ANSWERED_BYTES_MAX {
            let oldest = self.answered.pop_front().expect("one request is smaller than that");
            let oldest = self.requests.remove(&oldest).expect("an answered request is known");
            self.answered_bytes -= oldest.text_bytes();
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

impl ReleasedKeys {
    fn add(&mut self, key: Key) {
        self.count += 1;
        if self.keys.len() < RELEASED_LISTED {
            self.keys.push(key);
        }
    }
}

fn forget_ttl(ttls: &mut BTreeMap<u32, u32>, ttl: Ttl) {
    let count = ttls.get_mut(&ttl.seconds()).expect("the TTL of every reservation is counted");
    *count -= 1;
    if *count == 0 {
        ttls.remove(&ttl.seconds());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{Actor, Command, LeftWhy, Outcome, Policy, Reserve};

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
            ask(&mut engine, Command::Create { session: session.clone(), name: None, feature: None, owner: None });
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
