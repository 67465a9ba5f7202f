//! What the engine knows.
//!
//! Recorded state is a fold of the records. Beside it lies working memory that no record tells of: deadlines, signs
//! of life, notices not yet delivered. A replay brings back the former; [`Engine::resume`] sets the latter afresh.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use hashbrown::HashMap;
use smallvec::SmallVec;
use uuid::Uuid;

use super::command::{Notice, UnlockRequest};
use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, Ttl};
use super::index::{Index, Place};
use super::record::{EndState, Mode, Owner, Want};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot, Slab};
use super::timer::Timer;
use crate::key::Key;

/// What the configuration says about the rules.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Paths are compared without regard to case.
    pub fold_case: bool,
    /// A session that is silent for this long is lost.
    pub session_timeout: Duration,
    /// Reservations one session may hold.
    pub reservations_per_session: usize,
    /// Requests one session may have waiting.
    pub waiters_per_session: usize,
    /// Sessions that may be alive at once.
    pub sessions: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            fold_case: false,
            session_timeout: Duration::from_secs(30 * 60),
            reservations_per_session: 1_100_000,
            waiters_per_session: 1_000,
            sessions: 50_000,
        }
    }
}

/// Who holds which key, and who is next.
pub struct Engine {
    pub(super) policy: Policy,
    pub(super) seq: Seq,
    pub(super) index: Index,
    pub(super) reservations: Slab<ReservationSlot, Reservation>,
    /// Every grant in the order of its fence, some of them over; see [`Engine::compact`].
    pub(super) grants: Vec<(Seq, ReservationSlot)>,
    pub(super) sessions: Slab<SessionSlot, Session>,
    pub(super) session_ids: HashMap<SessionId, SessionSlot>,
    pub(super) alive: usize,
    /// Sessions that are over, the oldest first.
    pub(super) ended: VecDeque<SessionSlot>,
    /// Waiters by the seq that queued them, so iteration order is fairness order.
    pub(super) waiters: BTreeMap<Seq, Waiter>,
    pub(super) requests: HashMap<Uuid, UnlockRequest>,
    /// Requests that are over, the oldest first.
    pub(super) answered: VecDeque<Uuid>,
    /// Requests without an answer, by what they ask for.
    pub(super) pending: HashMap<ReservationId, Vec<Uuid>>,
    /// The features whose line is stopped, and the place that stops it.
    pub(super) pauses: HashMap<Text, PlaceSlot>,
    /// Places that are only remembered, the one that is so for longest first, and since which record. An entry whose
    /// place is gone, or was held or waited for since, means nothing.
    pub(super) resting: VecDeque<(PlaceSlot, Seq)>,
    /// The version a key starts with.
    pub(super) version_floor: u64,
    pub(super) totals: Totals,

    // Working memory.
    pub(super) expiries: Timer<ReservationSlot>,
    pub(super) silences: Timer<SessionSlot>,
    pub(super) patience: BTreeSet<(Timestamp, Seq)>,
    /// The session last asked for.
    pub(super) recent: Cell<SessionSlot>,
}

/// Where a key stands for one session, found once while a command is decided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    // Two plain numbers, so that it travels in a register.
    place: PlaceSlot,
    held: ReservationSlot,
}

impl Spot {
    pub fn new(place: Option<PlaceSlot>, held: Option<ReservationSlot>) -> Self {
        Self { place: place.unwrap_or(PlaceSlot::NONE), held: held.unwrap_or(ReservationSlot::NONE) }
    }

    /// The key's place, if it has one.
    pub fn place(self) -> Option<PlaceSlot> {
        self.place.some()
    }

    /// The session's reservation of it.
    pub fn held(self) -> Option<ReservationSlot> {
        self.held.some()
    }
}

/// Nothing was found yet.
pub(super) const UNKNOWN: Spot = Spot { place: PlaceSlot::NONE, held: ReservationSlot::NONE };

/// Counts since the first record.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    /// Reservations granted.
    pub granted: u64,
    /// Reservations that ran out.
    pub expired: u64,
    /// Reservations that are over.
    pub over: u64,
    /// How long those were held, all together.
    pub held_ms: u64,
    /// Requests refused.
    pub conflicts: u64,
    /// Waits refused because they would never end.
    pub deadlocks: u64,
    /// Refusals that are on record.
    #[serde(skip)]
    pub counted: (u64, u64),
}

pub(super) struct Reservation {
    pub id: ReservationId,
    /// As this holder wrote it.
    pub key: Key,
    pub reason: Option<Text>,
    pub since: Timestamp,
    pub fence: Seq,
    pub session: SessionSlot,
    pub place: PlaceSlot,
    /// Where it stands in its session's list.
    pub position: u32,
    pub ttl: Ttl,
    pub mode: Mode,
    /// Working memory.
    pub expires: Timestamp,
    /// Working memory: how often the holder asked for it again.
    pub renewals: u32,
}

pub(super) struct Session {
    pub id: SessionId,
    pub name: Option<Text>,
    pub feature: Option<Text>,
    pub owner: Option<Owner>,
    pub opened: Seq,
    pub started: Timestamp,
    pub end: Option<End>,
    /// Reservations, in no order.
    pub held: Vec<ReservationSlot>,
    pub waits: BTreeSet<Seq>,
    /// Where these stand: an entry for each key of each wait, in the order of the waits.
    pub stands: SmallVec<[Stand; 1]>,
    /// Keys lost to time, the oldest first.
    pub lapsed: VecDeque<Key>,
    /// Requests this session should answer.
    pub incoming: Vec<Uuid>,
    /// Released because the session is ending.
    pub leaving: Vec<Key>,
    /// Working memory.
    pub last_seen: Timestamp,
    /// Working memory.
    pub notices: VecDeque<Notice>,
}

/// A wait stands at a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stand {
    pub waiter: Seq,
    pub place: PlaceSlot,
    pub mode: Mode,
}

#[derive(Debug, Clone)]
pub(super) struct End {
    pub state: EndState,
    pub at: Timestamp,
    pub released: Vec<Key>,
}

#[derive(Debug, Clone)]
pub(super) struct Waiter {
    pub session: SessionSlot,
    pub wants: Vec<Want>,
    /// Where it stands for each of them.
    pub places: Vec<PlaceSlot>,
    pub mode: Mode,
    pub reason: Option<Text>,
    pub if_version: Option<u64>,
    pub since: Timestamp,
    /// Working memory.
    pub until: Timestamp,
    /// Working memory: the feature its token named.
    pub feature: Option<Text>,
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            seq: Seq::ZERO,
            index: Index::default(),
            reservations: Slab::default(),
            grants: Vec::new(),
            sessions: Slab::default(),
            session_ids: HashMap::new(),
            alive: 0,
            ended: VecDeque::new(),
            waiters: BTreeMap::new(),
            requests: HashMap::new(),
            answered: VecDeque::new(),
            pending: HashMap::new(),
            pauses: HashMap::new(),
            resting: VecDeque::new(),
            version_floor: 0,
            totals: Totals::default(),
            expiries: Timer::default(),
            silences: Timer::default(),
            patience: BTreeSet::new(),
            recent: Cell::new(SessionSlot::NONE),
        }
    }

    /// A key out of a record as this repository compares it. Records keep what the holder wrote; a command's keys were
    /// read by the same rules already.
    pub(super) fn compared(&self, key: &Key) -> Key {
        compared(key, self.policy.fold_case)
    }

    /// The slot of a session that is known.
    pub(super) fn slot(&self, id: &SessionId) -> SessionSlot {
        self.find_session(id).expect("a session in a record or past the door is known")
    }

    /// The slot of a session. One command asks for the same one several times.
    pub(super) fn find_session(&self, id: &SessionId) -> Option<SessionSlot> {
        let recent = self.recent.get();
        if self.sessions.get(recent).is_some_and(|session| session.id == *id) {
            return Some(recent);
        }
        let slot = self.session_ids.get(id).copied()?;
        self.recent.set(slot);
        Some(slot)
    }

    /// The reservation of exactly this key by this session.
    pub(super) fn held_by(&self, session: SessionSlot, key: &Key) -> Option<ReservationSlot> {
        self.spot(session, key).held()
    }

    /// Where this key stands for this session.
    pub(super) fn spot(&self, session: SessionSlot, key: &Key) -> Spot {
        match self.index.find(key) {
            Some(place) => self.spot_at(session, place),
            None => UNKNOWN,
        }
    }

    /// The same for a key whose place is known.
    pub(super) fn spot_at(&self, session: SessionSlot, place: PlaceSlot) -> Spot {
        let is_ours = |slot: &ReservationSlot| self.reservations[*slot].session == session;
        Spot::new(Some(place), self.index.place(place).holders.iter().find(is_ours))
    }

    /// How the session holds the key whose spot this is, if it does.
    pub(super) fn mode_of(&self, spot: Spot) -> Option<Mode> {
        spot.held().map(|slot| self.reservations[slot].mode)
    }

    /// How a session holds what this place stands for, if it does.
    pub(super) fn mode_at(&self, place: &Place, session: SessionSlot) -> Option<Mode> {
        let held = place.holders.iter().map(|slot| &self.reservations[slot]);
        held.filter(|reservation| reservation.session == session).map(|reservation| reservation.mode).next()
    }

    /// What the configuration says about the rules.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Decides by this from now on. How names are compared stays as it is, and whoever was promised a time has it: a
    /// shorter session timeout counts for each session once the time it had before is over.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = Policy { fold_case: self.policy.fold_case, ..policy };
    }

    /// Who waits at this place in the queue.
    pub fn waiter(&self, seq: Seq) -> Option<SessionId> {
        self.waiters.get(&seq).map(|waiter| self.sessions[waiter.session].id.clone())
    }

    /// The number of the newest record.
    pub fn head(&self) -> Seq {
        self.seq
    }
}

/// See [`Engine::compared`].
pub(super) fn compared(key: &Key, fold_case: bool) -> Key {
    if fold_case { key.folded(true) } else { key.clone() }
}
