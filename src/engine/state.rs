//! The state of the engine, and how rules find things in it.
//!
//! Fields are recorded state unless they are marked as working memory; see the module above.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use hashbrown::HashMap;
use smallvec::SmallVec;
use uuid::Uuid;

use super::command::{Notice, UnlockRequest};
use super::commit::CommittedContents;
use super::held_list::{HeldList, Links};
use super::idle::IdleGroups;
use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, Ttl, WaiterId};
use super::index::{Index, Place};
use super::lapsed::LapsedKeys;
use super::listening::ListeningTime;
use super::over::OverSegment;
use super::ports::HeldPorts;
use super::push::AnnouncedPushes;
use super::record::{EndState, Mode, Owner, Want};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot, Slab, Slot};
use super::timer::Timer;
use crate::key::Key;

/// The settings of the rules.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Paths are compared without regard to case.
    pub fold_case: bool,
    /// A session that does not call for this long, and holds nothing whose plain TTL still runs, is lost.
    pub session_timeout: Duration,
    /// Reservations one session may hold.
    pub reservations_per_session: usize,
    /// Reservations there may be in total, with those that requests wait for.
    pub reservations: usize,
    /// About how many bytes the keys in use and the reasons for them may take.
    pub text_bytes: usize,
    /// Requests one session may have waiting.
    pub waiters_per_session: usize,
    /// Sessions that may be alive at once.
    pub sessions: usize,
    /// Of these, how many may belong to one worker.
    pub sessions_per_worker: usize,
    /// Unlock requests without an answer: how many one session may have sent.
    pub unlock_requests_per_session: usize,
    /// How many one holder may have received.
    pub unlock_requests_per_holder: usize,
    /// How many there may be in total.
    pub unlock_requests: usize,
    /// How many reservations one step of a long piece of work ends.
    pub records_per_slice: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            fold_case: false,
            session_timeout: Duration::from_secs(30 * 60),
            reservations_per_session: 100_000,
            reservations: 500_000,
            text_bytes: 256 << 20,
            waiters_per_session: 1_000,
            sessions: 50_000,
            sessions_per_worker: 1_000,
            unlock_requests_per_session: 100,
            unlock_requests_per_holder: 1_000,
            unlock_requests: 20_000,
            records_per_slice: 256,
        }
    }
}

/// Who holds which key, and who is next.
pub struct Engine {
    pub(super) policy: Policy,
    pub(super) seq: Seq,
    pub(super) index: Index,
    pub(super) reservations: Slab<ReservationSlot, Reservation>,
    /// Grants in the order of their fences. Some of them have ended; see [`Engine::compact`].
    pub(super) grants: Vec<(Seq, ReservationSlot)>,
    pub(super) sessions: Slab<SessionSlot, Session>,
    pub(super) session_ids: HashMap<SessionId, SessionSlot>,
    pub(super) alive: usize,
    /// How many sessions of each worker are alive.
    pub(super) worker_sessions: HashMap<Owner, usize>,
    /// How many reservations are over without a record of their release; see [`super::over`].
    pub(super) over_count: usize,
    /// The sessions they belong to, by the records that ended them.
    pub(super) sweeps: BTreeSet<(Seq, SessionSlot)>,
    /// How many keys all waits together are for.
    pub(super) queued_keys: usize,
    /// The bytes of reasons, and of keys that are spelled differently from their place; see [`super::quota`].
    pub(super) reason_bytes: usize,
    /// Ended sessions by the record that ended them.
    pub(super) ended: BTreeMap<Seq, SessionSlot>,
    /// The bytes of the keys that the ends of sessions released, as far as these are remembered, and their sum.
    pub(super) ended_keys: BTreeMap<Seq, usize>,
    pub(super) ended_keys_bytes: usize,
    /// The queue: waits in the order in which they came.
    pub(super) waiters: BTreeMap<WaiterId, Waiter>,
    pub(super) requests: HashMap<Uuid, UnlockRequest>,
    /// Answered unlock requests, the oldest first.
    pub(super) answered: VecDeque<Uuid>,
    /// The bytes of text of these, and of the requests without an answer.
    pub(super) answered_bytes: usize,
    pub(super) pending_bytes: usize,
    /// Unlock requests without an answer, by the reservation they are for.
    pub(super) pending: HashMap<ReservationId, Vec<Uuid>>,
    /// Paused features, each with the place of the key that pauses it.
    pub(super) pauses: HashMap<Text, PlaceSlot>,
    pub(super) ports: HeldPorts,
    /// Idle places, the longest idle first, and the record since which they are. An entry is stale if its place is gone or
    /// was in use since.
    pub(super) idle_places: VecDeque<(PlaceSlot, Seq)>,
    /// The version of a key that is not remembered.
    pub(super) version_floor: u64,
    pub(super) committed: CommittedContents,
    pub(super) totals: Totals,

    // Working memory.
    pub(super) reservation_deadlines: Timer<ReservationSlot>,
    pub(super) session_deadlines: Timer<SessionSlot>,
    /// When to look at the reservations of a session with this idle time, in seconds.
    pub(super) idle_deadlines: BTreeSet<(ListeningTime, SessionSlot, u32)>,
    pub(super) wait_deadlines: BTreeSet<(ListeningTime, WaiterId)>,
    /// Real time minus listening time, in milliseconds.
    pub(super) lost_ms: i64,
    /// Waits that may be free to go, but took too much work to find out. They are looked at again at `undecided_until`.
    pub(super) undecided: BTreeSet<WaiterId>,
    pub(super) undecided_until: Timestamp,
    pub(super) pushes: AnnouncedPushes,
    /// The session that was found last.
    pub(super) recent: Cell<SessionSlot>,
}

/// What was found about one key for one session: its place, and the session's reservation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup {
    // Two plain numbers instead of options, so that the value fits a register.
    place: PlaceSlot,
    held: ReservationSlot,
}

impl Lookup {
    pub fn new(place: Option<PlaceSlot>, held: Option<ReservationSlot>) -> Self {
        Self { place: place.unwrap_or(PlaceSlot::NONE), held: held.unwrap_or(ReservationSlot::NONE) }
    }

    /// The key's place, if it has one.
    pub fn place(self) -> Option<PlaceSlot> {
        self.place.some()
    }

    pub fn held(self) -> Option<ReservationSlot> {
        self.held.some()
    }
}

/// Nothing was looked up.
pub(super) const UNKNOWN: Lookup = Lookup { place: PlaceSlot::NONE, held: ReservationSlot::NONE };

/// Counts since the first record.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    /// Reservations granted.
    pub granted: u64,
    /// Reservations that expired.
    pub expired: u64,
    /// Reservations that ended.
    pub over: u64,
    /// How long those were held in total.
    pub held_ms: u64,
    /// Requests refused because of another session.
    pub conflicts: u64,
    /// Requests refused, and waits ended, because they would have waited forever.
    pub deadlocks: u64,
    /// The values of `conflicts` and `deadlocks` that are recorded.
    #[serde(skip)]
    pub recorded_refusals: (u64, u64),
}

impl Totals {
    /// Requests refused, and waits ended, because of another session. One that would have waited forever has a conflict
    /// too.
    pub fn conflicts_detected(&self) -> u64 {
        self.conflicts + self.deadlocks
    }
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
    /// In the session's list.
    pub links: Links,
    pub ttl: Ttl,
    pub mode: Mode,
    /// Working memory: whether `reservation_deadlines` has an entry for it.
    pub is_timed: bool,
    /// Working memory: the deadline of a plain TTL, if no heartbeat moved it since. [`Engine::deadline`] is that of any.
    pub expires: ListeningTime,
    /// Working memory: how often the holder renewed it, minus the heartbeats of the session before that.
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
    /// The last end before the session was opened again. Credentials that were issued up to then are invalid.
    pub earlier_end: Option<EarlierEnd>,
    pub held: HeldList,
    /// Those of them that last while the session gives signs of life.
    pub idle: IdleGroups,
    /// How many of `held` there are with each TTL, in seconds.
    pub ttls: BTreeMap<u32, u32>,
    /// Reservations that are over; see [`super::over`].
    pub over: HeldList,
    /// The records that ended them, the oldest first.
    pub segments: SmallVec<[OverSegment; 1]>,
    /// What was granted before this record is over.
    pub over_until: Seq,
    pub waits: BTreeSet<WaiterId>,
    /// The keys of all waits, in the order of the waits.
    pub queued_keys: SmallVec<[QueuedKey; 1]>,
    pub lapsed: LapsedKeys,
    /// Unlock requests that this session should answer.
    pub incoming: Vec<Uuid>,
    /// Unlock requests of this session without an answer.
    pub outgoing: BTreeSet<Uuid>,
    /// Keys that the end of the session has released so far, in a journal before format 4.
    pub released_at_end: ReleasedKeys,
    /// Working memory: when the session last renewed all that it held, and how often it did.
    pub renewed: ListeningTime,
    pub heartbeats: u32,
    /// Working memory.
    pub last_seen: Timestamp,
    /// Working memory: the same in listening time. The timeout of the session counts from here.
    pub last_heard: ListeningTime,
    /// Working memory.
    pub notices: VecDeque<Notice>,
    /// Working memory: when the newest token was issued that the session was used with; the same up to its end, and up to its
    /// earlier end. The clock of an issuer may be ahead, and such a token is from before the end all the same.
    pub newest_token: Timestamp,
    pub spent_token: Timestamp,
    pub earlier_spent_token: Timestamp,
}

/// One key that a wait is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueuedKey {
    pub waiter: WaiterId,
    pub place: PlaceSlot,
    pub mode: Mode,
}

#[derive(Debug, Clone)]
pub(super) struct End {
    /// Its record; after a restart from an image, only its place among the ends.
    pub seq: Seq,
    pub state: EndState,
    pub at: Timestamp,
    pub released: ReleasedKeys,
}

/// What the end of a session released.
#[derive(Debug, Clone, Default)]
pub(super) struct ReleasedKeys {
    /// The first of them.
    pub keys: Vec<Key>,
    pub count: u64,
}

/// An end after which a session was opened again.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct EarlierEnd {
    pub state: EndState,
    pub at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct Waiter {
    pub session: SessionSlot,
    pub wants: Vec<Want>,
    /// The place of each of them.
    pub places: Vec<PlaceSlot>,
    pub mode: Mode,
    pub reason: Option<Text>,
    pub if_version: Option<u64>,
    pub since: Timestamp,
    /// Working memory.
    pub until: ListeningTime,
    /// Working memory: the feature that the token of its request named.
    pub feature: Option<Text>,
    /// Working memory: the want that was found blocked last. It is looked at first the next time.
    pub blocked_at: Cell<usize>,
}

impl Engine {
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
            worker_sessions: HashMap::new(),
            over_count: 0,
            sweeps: BTreeSet::new(),
            queued_keys: 0,
            reason_bytes: 0,
            ended: BTreeMap::new(),
            ended_keys: BTreeMap::new(),
            ended_keys_bytes: 0,
            waiters: BTreeMap::new(),
            requests: HashMap::new(),
            answered: VecDeque::new(),
            answered_bytes: 0,
            pending_bytes: 0,
            pending: HashMap::new(),
            pauses: HashMap::new(),
            ports: HeldPorts::default(),
            idle_places: VecDeque::new(),
            version_floor: 0,
            committed: CommittedContents::default(),
            totals: Totals::default(),
            reservation_deadlines: Timer::default(),
            session_deadlines: Timer::default(),
            idle_deadlines: BTreeSet::new(),
            wait_deadlines: BTreeSet::new(),
            lost_ms: 0,
            undecided: BTreeSet::new(),
            undecided_until: Timestamp::default(),
            pushes: AnnouncedPushes::default(),
            recent: Cell::new(SessionSlot::NONE),
        }
    }

    /// A key from a record, prepared for comparison in this repository. Records keep keys as the holder wrote them. The keys
    /// of commands are already prepared.
    pub(super) fn compared(&self, key: &Key) -> Key {
        compared(key, self.policy.fold_case)
    }

    /// The slot of a session that must exist.
    pub(super) fn slot(&self, id: &SessionId) -> SessionSlot {
        self.find_session(id).expect("the session of a record or of an admitted command exists")
    }

    /// The slot of a session. One command looks for the same session several times, so the last one is remembered.
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
        self.lookup(session, key).held()
    }

    /// Looks up a key for a session.
    pub(super) fn lookup(&self, session: SessionSlot, key: &Key) -> Lookup {
        match self.index.find(key) {
            Some(place) => self.lookup_at(session, place),
            None => UNKNOWN,
        }
    }

    /// The same for a key whose place is known.
    pub(super) fn lookup_at(&self, session: SessionSlot, place: PlaceSlot) -> Lookup {
        let is_ours = |slot: &ReservationSlot| {
            let reservation = &self.reservations[*slot];
            reservation.session == session && !self.is_over(reservation)
        };
        Lookup::new(Some(place), self.index.place(place).holders.iter().find(is_ours))
    }

    /// How the session holds the key, if it does.
    pub(super) fn mode_of(&self, lookup: Lookup) -> Option<Mode> {
        lookup.held().map(|slot| self.reservations[slot].mode)
    }

    /// How a session holds the key of this place, if it does.
    pub(super) fn mode_at(&self, place: &Place, session: SessionSlot) -> Option<Mode> {
        let held = place.holders.iter().map(|slot| &self.reservations[slot]);
        let own = held.filter(|held| held.session == session && !self.is_over(held));
        own.map(|reservation| reservation.mode).next()
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Changes the settings. How keys are compared stays as it is. A shorter session timeout applies to a session only after
    /// the deadline it has now.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = Policy { fold_case: self.policy.fold_case, ..policy };
    }

    /// The session of a wait.
    pub fn waiter(&self, id: WaiterId) -> Option<SessionId> {
        self.waiters.get(&id).map(|waiter| self.sessions[waiter.session].id.clone())
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
