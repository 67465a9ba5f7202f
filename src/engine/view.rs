//! Read-only views of the state.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::command::{Grant, SessionName, UnlockRequest};
use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, WaiterId};
use super::quota::LIVE_COPIES;
use super::record::{EndState, Mode};
use super::state::{Engine, Reservation, Session, Totals};
use super::work::{CHECK_WORK, LOOKUP_WORK, NODE_WORK};
use crate::key::Key;

/// A session as every client of the repository may see it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    pub id: SessionId,
    pub name: Option<Text>,
    pub feature: Option<Text>,
    /// None while the session is alive.
    pub state: Option<EndState>,
    pub started: Timestamp,
    pub last_seen: Timestamp,
    pub ended: Option<Timestamp>,
    pub held: usize,
    /// The first of its waits, with at most [`WAITED_KEYS_LISTED`] keys in all.
    pub waits: Vec<WaitView>,
    /// How many keys it waits for.
    pub waited_keys: usize,
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitView {
    pub waiter: WaiterId,
    /// The first of its keys.
    pub keys: Vec<Key>,
    pub mode: Mode,
    pub since: Timestamp,
    pub until: Timestamp,
}

/// Counts of everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    /// Since the first record.
    pub totals: Totals,
    pub reservations: usize,
    pub waiters: usize,
    /// Only those that are alive.
    pub sessions: usize,
}

/// One key: who holds it, and who asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityView {
    /// Where several sessions share it, the first.
    pub lock: Option<(SessionName, Grant)>,
    /// Requests to release it, the oldest first; at most the newest `ENTITY_REQUESTS_LISTED`.
    pub requests: Vec<UnlockRequest>,
}

/// Whether anything is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WhoHolds {
    /// The session holds something.
    pub own: bool,
    /// Another session holds something.
    pub others: bool,
}

/// Sessions or reservations that one call looks at for a list: less than a millisecond of the desk's time.
const SCANNED_AT_ONCE: usize = 4096;

/// The unlock requests that the view of a key lists.
pub const ENTITY_REQUESTS_LISTED: usize = 100;

/// The keys that the view of a session lists.
pub const WAITED_KEYS_LISTED: usize = 100;

/// A part of a list of reservations.
#[derive(Debug, Default, PartialEq)]
pub struct ReservationScan {
    /// At most as many as were asked for.
    pub found: Vec<(SessionName, Grant)>,
    /// There is at least one more.
    pub has_more: bool,
    /// The fence after which to look on, if it is not known whether there are more.
    pub next: Option<Seq>,
}

impl Engine {
    /// Whether a session holds anything, and whether others do. A caller without a session holds nothing.
    pub fn who_holds(&self, session: Option<&SessionId>) -> WhoHolds {
        let slot = session.and_then(|id| self.session_ids.get(id));
        let own = slot.map_or(0, |slot| self.sessions[*slot].held.len());
        WhoHolds { own: own > 0, others: self.reservations.len() - self.over_count > own }
    }

    pub fn session(&self, id: &SessionId) -> Option<SessionView> {
        self.session_ids.get(id).map(|slot| self.view_session(&self.sessions[*slot]))
    }

    /// Whether the session is alive or still remembered.
    pub fn has_session(&self, id: &SessionId) -> bool {
        self.session_ids.contains_key(id)
    }

    /// Every session that is alive or still remembered, the oldest first.
    pub fn sessions(&self) -> Vec<SessionView> {
        let mut all: Vec<_> = self.sessions.iter().map(|(_, session)| session).collect();
        all.sort_by_key(|session| session.opened);
        all.into_iter().map(|session| self.view_session(session)).collect()
    }

    /// Looks for the sessions of a page, in one slice of the table of sessions: those that were opened after `after` and
    /// are `wanted`. `page` keeps the first `limit` of them. Returns where the next slice begins, if there is one.
    pub fn scan_sessions(
        &self,
        slice: usize,
        after: Seq,
        limit: usize,
        wanted: impl Fn(Option<(EndState, Timestamp)>) -> bool,
        page: &mut BTreeMap<Seq, SessionId>,
    ) -> Option<usize> {
        self.index.meter.spend(SCANNED_AT_ONCE as u64 * NODE_WORK);
        for session in self.sessions.range(slice, SCANNED_AT_ONCE) {
            if session.opened > after && wanted(session.end.as_ref().map(|end| (end.state, end.at))) {
                page.insert(session.opened, session.id.clone());
                if page.len() > limit {
                    page.pop_last();
                }
            }
        }
        let next = slice + SCANNED_AT_ONCE;
        (next < self.sessions.slots()).then_some(next)
    }

    /// The sessions of one slice of the table that called at `since` or after it, and when. Returns where the next slice begins, if
    /// there is one.
    pub fn seen_since(&self, slice: usize, since: Timestamp, found: &mut Vec<(SessionId, Timestamp)>) -> Option<usize> {
        self.index.meter.spend(SCANNED_AT_ONCE as u64 * NODE_WORK);
        let sessions = self.sessions.range(slice, SCANNED_AT_ONCE);
        let is_new = |session: &&Session| session.end.is_none() && session.last_seen >= since;
        found.extend(sessions.filter(is_new).map(|session| (session.id.clone(), session.last_seen)));
        let next = slice + SCANNED_AT_ONCE;
        (next < self.sessions.slots()).then_some(next)
    }

    /// When the reservations of a session expire, of at most `most` of them.
    pub fn deadlines(&self, session: &SessionId, most: usize) -> Vec<(ReservationId, Timestamp)> {
        let Some(slot) = self.session_ids.get(session) else { return Vec::new() };
        let held = self.sessions[*slot].held.iter(&self.reservations).take(most).map(|held| self.grant_of(held));
        held.map(|grant| (grant.id, grant.expires)).collect()
    }

    /// What a session holds, in the order of the grants.
    pub fn held(&self, session: &SessionId) -> Vec<Grant> {
        let Some(slot) = self.session_ids.get(session) else { return Vec::new() };
        self.sessions[*slot].held.iter(&self.reservations).map(|held| self.grant_of(held)).collect()
    }

    /// All reservations with a fence after `after`, in the order of the grants.
    pub fn reservations(&self, after: Seq) -> impl Iterator<Item = (SessionName, Grant)> + '_ {
        let first = self.grants.partition_point(|(fence, _)| *fence <= after);
        self.grants[first..]
            .iter()
            .filter(|(fence, slot)| self.reservations.get(*slot).is_some_and(|r| r.fence == *fence && !self.is_over(r)))
            .map(|(_, slot)| (self.session_name(self.reservations[*slot].session), self.grant_of(*slot)))
    }

    /// The next reservations of a page: those with a fence after `after` that are of `session`, if one is named, and whose
    /// key is `wanted`. It looks at a bounded number of them, so a long list takes several calls.
    pub fn scan_reservations(
        &self,
        after: Seq,
        session: Option<&SessionId>,
        limit: usize,
        wanted: impl Fn(&Key) -> bool,
    ) -> ReservationScan {
        let mut scan = ReservationScan::default();
        let slot = match session {
            Some(id) => match self.session_ids.get(id) {
                Some(slot) => Some(*slot),
                None => return scan,
            },
            None => None,
        };
        let (first, mut own) = (self.grants.partition_point(|(fence, _)| *fence <= after), Vec::new());
        let rest = match slot {
            // Only in the list of all there is a quick way to the first one after `after`.
            Some(slot) if self.sessions[slot].held.len() <= SCANNED_AT_ONCE => {
                let held = self.sessions[slot].held.iter(&self.reservations);
                let held = held.map(|held| (self.reservations[held].fence, held));
                own.extend(held.filter(|(fence, _)| *fence > after));
                &own[..]
            }
            _ => &self.grants[first..],
        };
        let part = &rest[..rest.len().min(SCANNED_AT_ONCE)];
        self.index.meter.spend(part.len() as u64 * NODE_WORK + limit.min(part.len()) as u64 * CHECK_WORK);
        for (fence, reservation) in part {
            let is_same = |held: &&Reservation| held.fence == *fence && !self.is_over(held);
            let Some(held) = self.reservations.get(*reservation).filter(is_same) else { continue };
            if slot.is_none_or(|slot| slot == held.session) && wanted(&held.key) {
                if scan.found.len() == limit {
                    scan.has_more = true;
                    return scan;
                }
                scan.found.push((self.session_name(held.session), self.grant_of(*reservation)));
            }
        }
        scan.next = part.last().filter(|_| part.len() < rest.len()).map(|(fence, _)| *fence);
        scan
    }

    /// Unlock requests to a session, and those it sent; the oldest first.
    pub fn requests(&self, session: &SessionId) -> (Vec<UnlockRequest>, Vec<UnlockRequest>) {
        self.index.meter.spend(2 * self.requests.len() as u64 * NODE_WORK);
        let collect = |mine: &dyn Fn(&UnlockRequest) -> bool| {
            let mut list: Vec<_> = self.requests.values().filter(|request| mine(request)).cloned().collect();
            list.sort_by_key(|request| (request.at, request.id));
            list
        };
        (collect(&|request| request.holder == *session), collect(&|request| request.by == *session))
    }

    /// The holder of exactly this key, and the requests for it.
    pub fn entity(&self, key: &Key) -> EntityView {
        let place = self.index.find(key).map(|place| self.index.place(place));
        let held = place.and_then(|place| place.holders.iter().find(|slot| self.is_live(*slot)));
        let lock = held.map(|slot| (self.session_name(self.reservations[slot].session), self.grant_of(slot)));
        // A copy has long texts, so only the newest are copied.
        self.index.meter.spend(LOOKUP_WORK * self.requests.len() as u64);
        let mut requests: Vec<&UnlockRequest> = self.requests.values().filter(|request| request.key == *key).collect();
        requests.sort_unstable_by_key(|request| (request.at, request.id));
        let older = requests.len().saturating_sub(ENTITY_REQUESTS_LISTED);
        let requests = requests[older..].iter().copied().cloned().collect();
        EntityView { lock, requests }
    }

    /// One unlock request for this key, also where the view of the key does not list it.
    pub fn request_for(&self, key: &Key, id: Uuid) -> Option<&UnlockRequest> {
        self.requests.get(&id).filter(|request| request.key == *key)
    }

    /// Every reservation of exactly this key, in the order of the grants.
    pub fn holders(&self, key: &Key) -> impl Iterator<Item = (SessionName, Grant)> + '_ {
        let place = self.index.find(key).map(|place| self.index.place(place));
        let live = place.into_iter().flat_map(|place| place.holders.iter()).filter(|slot| self.is_live(*slot));
        live.map(|slot| (self.session_name(self.reservations[slot].session), self.grant_of(slot)))
    }

    /// Unlock requests of all sessions: first those without an answer, then the answered ones, each the latest first.
    pub fn latest_requests(&self, limit: usize) -> Vec<UnlockRequest> {
        let pending = self.pending.values().flatten().filter_map(|id| self.requests.get(id));
        let mut pending: Vec<&UnlockRequest> = pending.collect();
        pending.sort_unstable_by_key(|request| std::cmp::Reverse((request.at, request.id)));
        let answered = self.answered.iter().rev().filter_map(|id| self.requests.get(id));
        pending.into_iter().chain(answered).take(limit).cloned().collect()
    }

    pub fn numbers(&self) -> Numbers {
        Numbers {
            totals: self.totals.clone(),
            reservations: self.reservations.len() - self.over_count,
            waiters: self.waiters.len(),
            sessions: self.alive,
        }
    }

    /// About how many bytes the keys in use and the reasons for them take.
    pub fn text_bytes(&self) -> usize {
        self.index.live_bytes() + LIVE_COPIES * self.reason_bytes
    }

    /// How many keys, sessions and committed contents an image of this state would have. That decides what a snapshot
    /// costs.
    pub fn weight(&self) -> usize {
        self.index.len() + self.sessions.len() + self.committed.len()
    }

    fn view_session(&self, session: &Session) -> SessionView {
        let mut keys_left = WAITED_KEYS_LISTED;
        let wait = |id: &WaiterId| {
            let waiter = &self.waiters[id];
            let keys: Vec<Key> = waiter.wants.iter().take(keys_left).map(|want| want.key.clone()).collect();
            keys_left -= keys.len();
            WaitView { waiter: *id, keys, mode: waiter.mode, since: waiter.since, until: self.real(waiter.until) }
        };
        SessionView {
            id: session.id.clone(),
            name: session.name.clone(),
            feature: session.feature.clone(),
            state: session.end.as_ref().map(|end| end.state),
            started: session.started,
            last_seen: session.last_seen,
            ended: session.end.as_ref().map(|end| end.at),
            held: session.held.len(),
            waits: session.waits.iter().take(WAITED_KEYS_LISTED).map(wait).collect(),
            waited_keys: session.queued_keys.len(),
        }
    }
}
