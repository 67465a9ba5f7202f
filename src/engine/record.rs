//! Records: the changes of the state, and the only thing that is stored.
//!
//! Records are never rewritten and old ones must always load. An event may gain optional fields, and there may be new
//! events, but nothing changes its meaning. `fixtures/journal/` keeps samples of every version.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{ObjectId, ReservationId, Seq, SessionId, Text, Timestamp, Ttl, WaiterId};
use crate::key::Key;

/// An event with its number and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub seq: Seq,
    /// On the desk's clock.
    pub at: Timestamp,
    pub event: Event,
}

/// A change of the recorded state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A session began.
    Opened {
        session: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Text>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feature: Option<Text>,
        /// None while a session that an admin created has not been used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
    },
    /// A session that an admin had created was used for the first time. From now on it belongs to this owner.
    Bound { session: SessionId, owner: Owner },
    /// A session that had ended began again, with nothing. Since format 2.
    Reopened {
        session: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Text>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feature: Option<Text>,
        /// None if an admin opened it, until it is used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
    },
    /// A session ended, and with it everything that it held. The records of the releases follow. Before format 4 they came
    /// first.
    Ended { session: SessionId, state: EndState },
    /// A session released everything that it held. The records of the releases follow. Since format 4; where there are
    /// few, there are only the releases.
    ReleasedAll { session: SessionId },
    /// A key was granted; the record's number is the fence.
    Reserved {
        id: ReservationId,
        session: SessionId,
        key: Key,
        mode: Mode,
        ttl: Ttl,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
    },
    /// The holder changed the mode, the TTL or the reason. The record has the new values.
    Amended {
        id: ReservationId,
        session: SessionId,
        key: Key,
        mode: Mode,
        ttl: Ttl,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
    },
    /// A reservation is over.
    Released { id: ReservationId, session: SessionId, key: Key, why: Why },
    /// A request began to wait; the record's number is its position in the queue.
    Queued {
        session: SessionId,
        /// All of these keys together.
        wants: Vec<Want>,
        mode: Mode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
        /// Grant only if every key is at this version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
    },
    /// A wait ended with a grant. The records that follow are its reservations.
    Seated { waiter: WaiterId, session: SessionId },
    /// A wait ended without a grant.
    Left { waiter: WaiterId, session: SessionId, why: LeftWhy },
    /// How many requests were refused so far. Refusals have no records of their own.
    Counted {
        /// Requests refused because another session held a key or was ahead in the queue.
        conflicts: u64,
        /// Requests refused, and waits ended, because they would have waited forever.
        deadlocks: u64,
    },
    /// A session asked the holder of a key to release it, or changed the reason it gave.
    UnlockRequested { request: Uuid, reservation: ReservationId, key: Key, session: SessionId, reason: Text },
    /// An unlock request was answered.
    UnlockAnswered {
        request: Uuid,
        answer: UnlockAnswer,
        /// None where the reservation or the asking session ended first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<SessionId>,
        /// The admin who answered in the place of that session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        admin: Option<Text>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Text>,
        /// The session that asked got the reservation with the answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        handed_over: bool,
    },
    /// A holder committed this content, which was not recorded before. Since format 2.
    Committed { session: SessionId, contents: Vec<Content> },
    /// An earlier copy of the journal was restored; see `generation`. Since format 3.
    Restored {
        /// The new generation. Its first number is that of this record.
        generation: u64,
        /// The last record of the copy. What came after it is undone.
        kept: Seq,
    },
}

impl Event {
    /// The end of an unlock request that no session answered.
    pub(super) fn answered_by_itself(request: Uuid, answer: UnlockAnswer) -> Event {
        Event::UnlockAnswered { request, answer, by: None, admin: None, note: None, handed_over: false }
    }

    /// The session the event belongs to, if any.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Event::Opened { session, .. }
            | Event::Bound { session, .. }
            | Event::Reopened { session, .. }
            | Event::Ended { session, .. }
            | Event::ReleasedAll { session }
            | Event::Reserved { session, .. }
            | Event::Amended { session, .. }
            | Event::Released { session, .. }
            | Event::Queued { session, .. }
            | Event::Seated { session, .. }
            | Event::Left { session, .. }
            | Event::UnlockRequested { session, .. }
            | Event::Committed { session, .. } => Some(session),
            Event::UnlockAnswered { by, .. } => by.as_ref(),
            Event::Counted { .. } | Event::Restored { .. } => None,
        }
    }

    /// The keys that are reserved, released or waited for.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let (one, wants): (Option<&Key>, &[Want]) = match self {
            Event::Reserved { key, .. }
            | Event::Amended { key, .. }
            | Event::Released { key, .. }
            | Event::UnlockRequested { key, .. } => (Some(key), &[]),
            Event::Queued { wants, .. } => (None, wants),
            Event::Opened { .. }
            | Event::Bound { .. }
            | Event::Reopened { .. }
            | Event::Ended { .. }
            | Event::ReleasedAll { .. }
            | Event::Seated { .. }
            | Event::Left { .. }
            | Event::Counted { .. }
            | Event::UnlockAnswered { .. }
            | Event::Committed { .. }
            | Event::Restored { .. } => (None, &[]),
        };
        one.into_iter().chain(wants.iter().map(|want| &want.key))
    }

    /// Whether it is about this reservation, also one that is still waited for.
    pub fn concerns(&self, reservation: ReservationId) -> bool {
        match self {
            Event::Reserved { id, .. } | Event::Amended { id, .. } | Event::Released { id, .. } => *id == reservation,
            Event::Queued { wants, .. } => wants.iter().any(|want| want.id == reservation),
            _ => false,
        }
    }

    /// About how many bytes the keys in it take in memory.
    pub fn key_bytes(&self) -> usize {
        match self {
            Event::Committed { contents, .. } => contents.iter().map(|content| content.key.text_bytes()).sum(),
            _ => self.keys().map(Key::text_bytes).sum(),
        }
    }

    /// About how many bytes its keys and its reason take.
    pub fn text_bytes(&self) -> usize {
        let reason = match self {
            Event::Reserved { reason, .. } | Event::Amended { reason, .. } | Event::Queued { reason, .. } => {
                reason.as_ref().map_or(0, |reason| reason.len())
            }
            Event::UnlockRequested { reason, .. } => reason.len(),
            _ => 0,
        };
        self.key_bytes() + reason
    }
}

/// One key of a request, with the id its reservation will have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Want {
    /// Made by the caller, because the engine must decide the same in every replay.
    pub id: ReservationId,
    pub key: Key,
    pub ttl: Ttl,
}

/// What a path contains after a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub key: Key,
    /// All zeros where the commit deletes the path.
    pub blob: ObjectId,
}

/// Whom a session belongs to: fixed by the first call that uses it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owner {
    /// Tokens that name the session itself.
    Itself,
    /// A worker that runs many sessions.
    Worker {
        /// The token's `iss`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iss: Option<Text>,
        /// The token's `sub`.
        sub: Text,
    },
}

impl Owner {
    /// The `sub` of the token for a session that an admin created begins with this. The id of the session follows.
    pub const CREATED: &str = "created:";

    /// The token for a session that an admin created.
    pub(super) fn is_created(&self) -> bool {
        matches!(self, Owner::Worker { sub, .. } if sub.starts_with(Owner::CREATED))
    }
}

/// How a key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// No other session may hold it.
    Exclusive,
    /// Other sessions may hold it shared too.
    Shared,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndState {
    /// Its work is done.
    Completed,
    /// Its work failed.
    Failed,
    /// It was stopped from outside.
    Stopped,
    /// It did not call for longer than the session timeout.
    Lost,
}

/// Why a reservation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Why {
    /// The holder released it.
    Released,
    /// Its TTL ended.
    Expired,
    /// Its session ended.
    Ended,
    /// An admin released it.
    Overridden { by: Text, reason: Text },
    /// The holder approved an unlock request.
    Approved { request: Uuid },
    /// The client of the request was gone before it could receive the grant.
    Unheard,
}

/// Why a wait ended without a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LeftWhy {
    TimedOut,
    /// The client went away.
    Gone,
    /// The server stopped.
    Stopped,
    /// Its session ended.
    Ended,
    /// A key it wanted changed its version.
    Version,
    /// Its feature was paused.
    Paused,
    /// Its session lost a key that the wait names too. Without that key the wait would never end.
    Deadlock,
}

/// How an unlock request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnlockAnswer {
    /// The holder released the key.
    Approved,
    /// The holder keeps the key.
    Rejected,
    /// The session that asked took the request back, or ended.
    Withdrawn,
    /// The reservation ended first.
    Moot,
}
