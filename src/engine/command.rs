//! The commands of the engine and their results: an [`Outcome`] where a command was carried out, a [`Refusal`] where not.

use std::collections::BTreeSet;
use std::time::Duration;

use smallvec::SmallVec;
use uuid::Uuid;

use super::ids::{ObjectId, ReservationId, Seq, SessionId, Text, Timestamp, Ttl, WaiterId};
use super::ports::PortRange;
use super::record::{Content, EndState, LeftWhy, Mode, Owner, UnlockAnswer, Want, Why};
use super::work::Pair;
use crate::key::{Claim, Key};

/// A list that nearly always has one entry, which then needs no memory of its own.
pub type Few<T> = SmallVec<[T; 1]>;

/// Who sends a command. The credential was checked before; the engine decides what the actor may do to which session.
#[derive(Debug, Clone)]
pub enum Actor {
    /// A session, for itself. Its first call opens it, and every call keeps it alive.
    Session(SessionIdentity),
    /// May read, and change nothing.
    Reader,
    /// May do anything; the name goes into the history.
    Admin(Text),
    /// The desk itself: time has passed, a client has left, the server stops.
    Desk,
}

/// A session as its credential describes it.
#[derive(Debug, Clone)]
pub struct SessionIdentity {
    pub id: SessionId,
    pub name: Option<Text>,
    /// The feature it works on.
    pub feature: Option<Text>,
    pub owner: Owner,
    /// When the credential was issued, if it says so. An ended session is opened again only by a later one.
    pub issued: Option<Timestamp>,
    /// Replies carry the notices for the session. Not those to a page that acts for it: the worker would never hear of them.
    pub hears_notices: bool,
}

/// A request to the engine.
#[derive(Debug, Clone)]
pub enum Command {
    /// Only a sign of life.
    Touch,
    /// Open a session before its first call, or open an ended one again.
    Create {
        session: SessionId,
        name: Option<Text>,
        /// The feature it works on.
        feature: Option<Text>,
        /// Whom it is to belong to; none for the tokens that name the session itself.
        owner: Option<Owner>,
    },
    /// Grant all of these keys, or none.
    Reserve(Reserve),
    /// Give the session a block of ports, or renew those it has.
    AllocatePorts(AllocatePorts),
    /// Release these keys.
    Release { session: SessionId, keys: Few<KeyName> },
    /// Release every key of the session.
    ReleaseAll { session: SessionId },
    /// Start the TTL of these reservations again.
    Renew {
        session: SessionId,
        keys: Few<KeyName>,
        /// A new TTL for all of them; without one, each keeps its own.
        ttl: Option<Ttl>,
    },
    /// The session is alive: start the TTL of all its reservations again.
    Heartbeat { session: SessionId },
    /// End the session and release everything it holds.
    End {
        session: SessionId,
        /// A session that has already ended keeps the state it ended in.
        state: EndState,
    },
    /// Release a reservation without its holder.
    Override { id: ReservationId, reason: Text },
    /// These grants did not reach their client. Release them, unless the session has renewed them since.
    Unheard { session: SessionId, grants: Few<Grant> },
    /// End a wait without a grant.
    Leave { waiter: WaiterId, why: LeftWhy },
    /// Ask the holder of a key to release it.
    Ask {
        session: SessionId,
        /// The id of the new unlock request.
        request: Uuid,
        key: KeyName,
        reason: Text,
    },
    /// Answer an unlock request as its holder, or withdraw it as its sender.
    Respond {
        session: SessionId,
        request: Uuid,
        answer: UnlockAnswer,
        note: Option<Text>,
        /// With an approval: grant the key to the sender of the request at once, under this id.
        hand_over: Option<ReservationId>,
    },
    /// The session is about to commit this content. Remember what it commits at paths that it holds.
    RecordCommit { session: SessionId, contents: Vec<Content> },
    /// The session is about to push these updates.
    AnnouncePush { session: SessionId, updates: Vec<RefUpdate> },
    /// A push has arrived: find the session that announced all of these updates. They are not announced any more then.
    ClaimPush { updates: Vec<RefUpdate> },
    /// Time has passed: end what has reached its deadline, as much as one step may do.
    Tick,
    /// Record some of the releases that are still to be recorded.
    Sweep,
    /// Record how many requests were refused so far.
    Count,
}

/// A pattern counts as this many keys, because comparing it is more work.
const PATTERN_KEYS: usize = 8;

/// This many bytes of text count as a key.
const BYTES_OF_KEY: usize = 256;

impl Command {
    /// The session that it is about.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Command::Reserve(ask) => Some(&ask.session),
            Command::AllocatePorts(ask) => Some(&ask.session),
            Command::Create { session, .. }
            | Command::Release { session, .. }
            | Command::ReleaseAll { session }
            | Command::Renew { session, .. }
            | Command::Heartbeat { session }
            | Command::End { session, .. }
            | Command::Unheard { session, .. }
            | Command::Ask { session, .. }
            | Command::Respond { session, .. }
            | Command::RecordCommit { session, .. }
            | Command::AnnouncePush { session, .. } => Some(session),
            Command::Touch
            | Command::Override { .. }
            | Command::Leave { .. }
            | Command::ClaimPush { .. }
            | Command::Tick
            | Command::Sweep
            | Command::Count => None,
        }
    }

    /// Whether it may be refused because of the number of reservations, or of their bytes.
    pub fn needs_room(&self) -> bool {
        matches!(self, Command::Reserve(_) | Command::AllocatePorts(_) | Command::Respond { hand_over: Some(_), .. })
    }

    /// About how many keys it brings. Patterns and long texts count as several.
    pub fn weight(&self) -> usize {
        match self {
            Command::Reserve(ask) if ask.wants.len() > 1 => {
                let reason = ask.reason.as_ref().map_or(0, |reason| reason.len());
                let weight = |want: &Want| {
                    let keys = if matches!(want.key.claim(), Claim::Glob(_)) { PATTERN_KEYS } else { 1 };
                    keys + (want.key.text_bytes() + reason) / BYTES_OF_KEY
                };
                ask.wants.iter().map(weight).sum()
            }
            Command::Release { keys, .. } | Command::Renew { keys, .. } => keys.len(),
            Command::RecordCommit { contents, .. } => contents.len(),
            _ => 1,
        }
    }
}

impl Actor {
    /// The session that acts.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Actor::Session(identity) => Some(&identity.id),
            _ => None,
        }
    }
}

/// A request for keys.
#[derive(Debug, Clone)]
pub struct Reserve {
    pub session: SessionId,
    pub wants: Few<Want>,
    pub mode: Mode,
    pub reason: Option<Text>,
    /// Wait up to this long if the keys are not free now.
    pub wait: Option<Duration>,
    /// Grant only if every key is at this version.
    pub if_version: Option<u64>,
}

/// A request for ports.
#[derive(Debug, Clone)]
pub struct AllocatePorts {
    pub session: SessionId,
    /// One for each port that the session is to have in total.
    pub ids: Vec<ReservationId>,
    pub ttl: Ttl,
    pub reason: Option<Text>,
    pub range: PortRange,
    /// Ports that are in use on the machine, or by sessions of other repositories.
    pub busy: BTreeSet<u16>,
}

/// One update of a ref by a push.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RefUpdate {
    /// The full name of the ref on the server.
    pub name: Text,
    /// All zeros where the push creates the ref.
    pub old: ObjectId,
    /// All zeros where the push deletes the ref.
    pub new: ObjectId,
}

/// A key as a client writes it for something it holds.
///
/// `src/[id].ts` parses as a pattern, but can also mean the file that the session reserved as `file:src/[id].ts`. What
/// the session holds decides.
#[derive(Debug, Clone)]
pub struct KeyName {
    /// As it parses.
    pub key: Key,
    /// The file of exactly that name, where the key parses as a pattern.
    pub literal: Option<Key>,
}

impl From<Key> for KeyName {
    fn from(key: Key) -> Self {
        KeyName { key, literal: None }
    }
}

/// What a command achieved.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done, and there is nothing more to say.
    Done,
    /// The session is open, and belongs to this owner.
    Owned(Owner),
    /// All keys are held, in the order of the request.
    Granted(Few<Grant>),
    /// The request waits. Its result comes later, under this number; see [`Turn::settled`](super::Turn::settled).
    Queued(WaiterId),
    /// Keys were released.
    Released {
        /// The first of them, at most [`RELEASED_LISTED`](super::RELEASED_LISTED).
        keys: Few<Key>,
        count: usize,
    },
    /// The same where some of the keys that were named had expired before.
    ReleasedLate { released: Few<Key>, lapsed: Few<Key> },
    /// The session is alive.
    Alive {
        /// How many reservations were renewed.
        renewed: usize,
        /// When the first of them, or the session itself, would end without another call.
        expires: Timestamp,
    },
    /// The session has ended, by this command or by an earlier one.
    Ended {
        state: EndState,
        /// The first keys that the end of the session released, as far as they are remembered.
        released: Vec<Key>,
        /// How many it released.
        count: u64,
    },
    /// The unlock request as it is now.
    Request(Box<UnlockRequest>),
    /// The unlock requests to the holders of a key, the oldest reservation first; at least one.
    Asked(Vec<UnlockRequest>),
    /// The push is announced until then.
    Announced { until: Timestamp },
    /// The session that announced the push, if one did.
    Claimed(Option<Pusher>),
}

/// Why a command was not carried out. Nothing was granted or released.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// Other sessions hold some of the keys, or are ahead in the queue for them. Every such key is listed, with at most
    /// [`HOLDERS_LISTED`](super::HOLDERS_LISTED) of them.
    Locked(Vec<Conflict>),
    /// The wait ended without a grant.
    WaitOver {
        why: LeftWhy,
        /// What still blocks the request, where it timed out.
        conflicts: Vec<Conflict>,
    },
    /// The request would wait forever.
    Deadlock(Vec<CycleStep>),
    /// The key was released since the caller last looked.
    WrongVersion {
        key: Key,
        /// Its version now.
        version: u64,
    },
    /// The session's feature is paused.
    Paused(Box<Pause>),
    /// The session does not hold the key.
    NotHeld {
        key: Key,
        /// The session that does, if any.
        holder: Option<SessionName>,
        /// Whether the session held the key until the reservation expired.
        has_lapsed: bool,
    },
    /// The session held the key until the reservation expired.
    Lapsed {
        key: Key,
    },
    /// The session ended before this command.
    SessionEnded {
        session: SessionId,
        state: EndState,
    },
    /// The session belongs to another owner.
    NotOwner,
    UnknownSession(SessionId),
    /// There is no such reservation, or it is over.
    UnknownReservation,
    /// No other session holds the key, so there is no holder to ask.
    NoOtherHolder(Key),
    UnknownRequest,
    /// The unlock request was answered before, with another answer.
    AnsweredBefore(Box<UnlockRequest>),
    /// Only this session can answer the unlock request.
    NotTheHolder(SessionName),
    /// Only this session can withdraw the unlock request.
    NotTheSender(SessionName),
    /// These patterns must be compared first. Where that was done, asking again finds the result.
    Uncompared(Vec<Pair>),
    /// The request compares too much for one decision.
    TooMuchWork,
    /// The keys of the request, and its reason with each of them, are too long.
    TooMuchText {
        /// In bytes.
        limit: usize,
    },
    /// A limit was reached.
    OverQuota {
        /// What is limited.
        what: &'static str,
        limit: usize,
    },
}

/// A session's id with its display name.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionName {
    pub session: SessionId,
    pub name: Option<Text>,
}

/// The session that announced a push.
#[derive(Debug, Clone, PartialEq)]
pub struct Pusher {
    pub session: SessionId,
    pub name: Option<Text>,
    pub feature: Option<Text>,
}

/// A reservation as its holder sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    pub id: ReservationId,
    /// As the holder wrote it.
    pub key: Key,
    pub mode: Mode,
    pub ttl: Ttl,
    pub reason: Option<Text>,
    pub since: Timestamp,
    pub expires: Timestamp,
    /// The number of the record that granted it.
    pub fence: Seq,
    /// How often this key was released before.
    pub version: u64,
    /// How often the holder renewed it.
    pub renewals: u32,
}

/// A reservation or a waiting request of another session that blocks a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The key of the request.
    pub asked: Key,
    /// Where that key stands in the request.
    pub position: usize,
    /// The key that the other session holds or waits for.
    pub key: Key,
    pub who: SessionName,
    pub mode: Mode,
    pub reason: Option<Text>,
    pub since: Timestamp,
    pub until: Timestamp,
    /// A path both keys match, where a pattern takes part.
    pub example: Option<String>,
    /// The other session does not hold the key yet. It is ahead in the queue.
    pub waiting: bool,
    /// How many requests wait for that key.
    pub queue_length: usize,
    /// Set in the last conflict of each key: how many more there are for that key that are not listed.
    pub more_holders: usize,
}

/// One session in a cycle of sessions that wait for each other.
#[derive(Debug, Clone, PartialEq)]
pub struct CycleStep {
    pub session: SessionId,
    /// What the session before it in the cycle waits for.
    pub holds: Key,
    /// What this session waits for.
    pub wants: Key,
}

/// A feature is paused: its sessions get no new keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Pause {
    pub feature: Text,
    pub by: SessionName,
    pub reason: Option<Text>,
    pub until: Timestamp,
}

/// A session asks the holder of a key to release it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequest {
    pub id: Uuid,
    pub reservation: ReservationId,
    pub key: Key,
    pub holder: SessionId,
    /// The display name of `holder`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_name: Option<Text>,
    pub by: SessionId,
    /// The display name of `by`.
    pub by_name: Option<Text>,
    pub reason: Text,
    pub at: Timestamp,
    /// None while the request is pending.
    pub answer: Option<UnlockAnswer>,
    pub answered_at: Option<Timestamp>,
    pub answered_by: Option<SessionId>,
    /// The admin who answered in the place of the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by_admin: Option<Text>,
    pub note: Option<Text>,
    /// The session that asked got the reservation with the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_over: bool,
}

impl UnlockRequest {
    /// About how many bytes its texts take.
    pub(super) fn text_bytes(&self) -> usize {
        let note = self.note.as_ref().map_or(0, |note| note.len());
        self.key.text_bytes() + self.reason.len() + note
    }
}

/// What a session is told with its next reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// Another session asks for one of its keys and has no answer yet.
    UnlockRequested(UnlockRequest),
    /// An unlock request of the session was answered.
    UnlockAnswered(UnlockRequest),
    /// A reservation of the session was released by an admin.
    ReleasedEarly { id: ReservationId, key: Key, at: Timestamp, why: Why },
    /// Reservations of the session expired since it was last told.
    Expired {
        count: u64,
        /// The newest of their keys.
        keys: Vec<Key>,
    },
    /// The session did not call for so long that it was lost. It starts anew and holds nothing.
    Lost {
        /// When it was lost.
        at: Timestamp,
        /// How many of its reservations had ended by then, other than by its own release.
        count: u64,
        /// The newest of their keys.
        keys: Vec<Key>,
    },
    /// The session's feature is paused.
    Paused(Pause),
    /// There are more than fit into one reply. The newest are listed.
    More {
        /// Notices that are delivered once. They come with the next replies.
        notices: usize,
        /// Unlock requests without an answer.
        unlock_requests: usize,
    },
}

/// What the caller of a check is about to do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// To reserve it. Reservations of other sessions block it as they would block the request.
    Reserve(Mode),
    /// The same, where requests ahead in the queue block it too.
    ReserveNow(Mode),
    /// To change it. Sessions that hold it shared may change it beside each other.
    Change,
    /// To look at it. Only exclusive reservations of other sessions are in the way.
    Look,
}

/// The result of a check of one key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyCheck {
    /// Reservations of other sessions that are in the way, at most [`HOLDERS_LISTED`](super::HOLDERS_LISTED).
    pub conflicts: Vec<Conflict>,
    /// The session holds the key itself, or a pattern that covers it.
    pub held: bool,
    /// Other sessions hold the key, and each of them committed the very content that is checked.
    pub carried: bool,
}
