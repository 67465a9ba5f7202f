//! The commands of the engine and their results: an [`Outcome`] where a command was carried out, a [`Refusal`] where not.

use std::time::Duration;

use smallvec::SmallVec;
use uuid::Uuid;

use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, Ttl};
use super::record::{Answer, EndState, LeftWhy, Mode, Owner, Want, Why};
use crate::key::Key;

/// A list that nearly always has one entry, which then needs no memory of its own.
pub type Few<T> = SmallVec<[T; 1]>;

/// Who asks. The door has checked the credential; the engine decides what that person may do to whom.
#[derive(Debug, Clone)]
pub enum Actor {
    /// A session, for itself. Its call brings it to life and keeps it alive.
    Session(Intro),
    /// Somebody who may look.
    Reader,
    /// Somebody who may do anything; the name goes into the history.
    Admin(Text),
    /// The desk: time passed, a client left, the server stops.
    Desk,
}

/// A session as its credential introduces it.
#[derive(Debug, Clone)]
pub struct Intro {
    /// Which session.
    pub id: SessionId,
    /// Display name.
    pub name: Option<Text>,
    /// The feature it works on.
    pub feature: Option<Text>,
    /// On whose behalf.
    pub owner: Owner,
}

/// Something asked.
#[derive(Debug, Clone)]
pub enum Command {
    /// Nothing but a sign of life.
    Touch,
    /// Make a session before its first call.
    Create {
        /// Which.
        session: SessionId,
        /// Display name.
        name: Option<Text>,
        /// The feature it works on.
        feature: Option<Text>,
    },
    /// Grant all of these, or none.
    Reserve(Reserve),
    /// Let go of these.
    Release {
        /// Whose.
        session: SessionId,
        /// Which.
        keys: Few<Named>,
    },
    /// Let go of everything.
    ReleaseAll {
        /// Whose.
        session: SessionId,
    },
    /// Run for another full TTL.
    Renew {
        /// Whose.
        session: SessionId,
        /// Which.
        keys: Few<Named>,
        /// A new TTL for all of them.
        ttl: Option<Ttl>,
    },
    /// The session is alive, and so is everything it holds.
    Heartbeat {
        /// Which.
        session: SessionId,
    },
    /// The session ends and everything is released.
    End {
        /// Which.
        session: SessionId,
        /// How; a session that has ended keeps the state it ended in.
        state: EndState,
    },
    /// Take a reservation away from its holder.
    Override {
        /// Which.
        id: ReservationId,
        /// Why.
        reason: Text,
    },
    /// These grants of a wait reached nobody, so nobody has them unless the session touched them since.
    Unheard {
        /// Whose.
        session: SessionId,
        /// As they were granted.
        grants: Few<Grant>,
    },
    /// A wait is over before a grant.
    Leave {
        /// Which.
        waiter: Seq,
        /// Why.
        why: LeftWhy,
    },
    /// Ask the holder of a key to let go.
    Ask {
        /// Who asks.
        session: SessionId,
        /// What the request will be called.
        request: Uuid,
        /// For which key.
        key: Named,
        /// Why.
        reason: Text,
    },
    /// Answer somebody who asked, or take one's own request back.
    Respond {
        /// Who answers.
        session: SessionId,
        /// Which request.
        request: Uuid,
        /// How.
        answer: Answer,
        /// With a remark.
        note: Option<Text>,
        /// Pass the key straight to the asker, as this reservation.
        hand_over: Option<ReservationId>,
    },
    /// Time passed: end whatever is due.
    Tick,
    /// Put the counts of refusals on record.
    Count,
}

/// A request for keys.
#[derive(Debug, Clone)]
pub struct Reserve {
    /// For whom.
    pub session: SessionId,
    /// What, with the names the reservations will have.
    pub wants: Few<Want>,
    /// How.
    pub mode: Mode,
    /// What for.
    pub reason: Option<Text>,
    /// Wait so long if it cannot be granted now.
    pub wait: Option<Duration>,
    /// Only if every key is at this version.
    pub if_version: Option<u64>,
}

/// A key as somebody names what they hold. `src/[id].ts` reads as a pattern, but may be the name of the file they
/// reserved as `file:src/[id].ts`; what they hold decides.
#[derive(Debug, Clone)]
pub struct Named {
    /// As it reads.
    pub key: Key,
    /// The file of that very name.
    pub literal: Option<Key>,
}

impl From<Key> for Named {
    fn from(key: Key) -> Self {
        Named { key, literal: None }
    }
}

/// What a command achieved.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done, and there is nothing more to say.
    Done,
    /// All keys are held, in the order of the request.
    Granted(Few<Grant>),
    /// The request waits. Its result comes later, under this number; see [`Turn::settled`](super::Turn::settled).
    Queued(Seq),
    /// These keys were released.
    Released(Few<Key>),
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
        /// What the end of the session released.
        released: Vec<Key>,
    },
    /// The unlock request as it is now.
    Request(Box<UnlockRequest>),
}

/// Why a command was not carried out. Nothing was granted or released.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// Other sessions hold some of the keys, or are ahead in the queue for them.
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
        holder: Option<Person>,
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
    NotTheHolder(Person),
    /// A limit was reached.
    OverQuota {
        /// What is limited.
        what: &'static str,
        limit: usize,
    },
}

/// A session as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Person {
    /// Its id.
    pub session: SessionId,
    /// Its display name.
    pub name: Option<Text>,
}

/// A reservation as its holder sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Its id.
    pub id: ReservationId,
    /// As the holder wrote it.
    pub key: Key,
    /// How.
    pub mode: Mode,
    /// How long without renewal.
    pub ttl: Ttl,
    /// What for.
    pub reason: Option<Text>,
    /// Since when.
    pub since: Timestamp,
    /// Until when, unless renewed.
    pub expires: Timestamp,
    /// The number of the grant.
    pub fence: Seq,
    /// How often somebody let go of this key before.
    pub version: u64,
    /// How often the holder asked for it again.
    pub renewals: u32,
}

/// Somebody in the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// What was asked for.
    pub asked: Key,
    /// Which place in the request that had.
    pub position: usize,
    /// What they hold, or wait for.
    pub key: Key,
    /// Who.
    pub who: Person,
    /// How.
    pub mode: Mode,
    /// What for.
    pub reason: Option<Text>,
    /// Since when.
    pub since: Timestamp,
    /// Until when, unless renewed.
    pub until: Timestamp,
    /// A path both keys match, where a pattern takes part.
    pub example: Option<String>,
    /// They do not hold it yet: they wait, and were first.
    pub waiting: bool,
    /// How many requests wait for that key.
    pub queue_length: usize,
}

/// One member of a circle of waits.
#[derive(Debug, Clone, PartialEq)]
pub struct CycleStep {
    /// Who.
    pub session: SessionId,
    /// What the one before waits for.
    pub holds: Key,
    /// What this one waits for.
    pub wants: Key,
}

/// A feature's line is stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Pause {
    /// Which feature.
    pub feature: Text,
    /// Who stopped it.
    pub by: Person,
    /// Why.
    pub reason: Option<Text>,
    /// Until when, unless renewed.
    pub until: Timestamp,
}

/// Somebody asks a holder to let go.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequest {
    /// Its id.
    pub id: Uuid,
    /// Of what.
    pub reservation: ReservationId,
    /// The key that reservation holds.
    pub key: Key,
    /// Who holds it.
    pub holder: SessionId,
    /// Who asks.
    pub by: SessionId,
    /// The asker's display name.
    pub by_name: Option<Text>,
    /// Why.
    pub reason: Text,
    /// Since when.
    pub at: Timestamp,
    /// How it ended; nothing while it is pending.
    pub answer: Option<Answer>,
    /// When it ended.
    pub answered_at: Option<Timestamp>,
    /// Who said so.
    pub answered_by: Option<SessionId>,
    /// What they added.
    pub note: Option<Text>,
}

/// What a holder should know.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// Somebody waits for an answer.
    UnlockRequested(UnlockRequest),
    /// An unlock request of the session's own was answered.
    UnlockAnswered(UnlockRequest),
    /// A reservation ended before its time.
    ReleasedEarly {
        /// Which.
        id: ReservationId,
        /// Its key.
        key: Key,
        /// When.
        at: Timestamp,
        /// Why.
        why: Why,
    },
    /// The line is stopped.
    Paused(Pause),
}

/// What the caller of a check is about to do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// To reserve it. Reservations of other sessions block it as they would block the request.
    Reserve(Mode),
    /// To change it. Sessions that hold it shared may change it beside each other.
    Change,
    /// To look at it. Only exclusive reservations of other sessions are in the way.
    Look,
}

/// The result of a check of one key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyCheck {
    /// Reservations of other sessions that are in the way.
    pub conflicts: Vec<Conflict>,
    /// The session holds the key itself, or a pattern that covers it.
    pub held: bool,
}
