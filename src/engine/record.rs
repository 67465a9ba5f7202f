//! What happened: the only thing that is ever stored.
//!
//! Records are never rewritten and old ones must always load, so an event may gain optional fields and the list
//! may gain events, but nothing changes its meaning. `fixtures/journal/` keeps samples of every version.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, Ttl};
use crate::key::Key;

/// An event with its number and the moment it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its number.
    pub seq: Seq,
    /// When, on the desk's clock.
    pub at: Timestamp,
    /// What.
    pub event: Event,
}

/// Something that happened, in the past tense.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A session came to life.
    Opened {
        /// Which.
        session: SessionId,
        /// Its display name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Text>,
        /// The feature it works on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feature: Option<Text>,
        /// Whose it is; nobody's yet where an admin made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
    },
    /// A session an admin had made was used for the first time.
    Bound {
        /// Which.
        session: SessionId,
        /// By whom.
        owner: Owner,
    },
    /// A session ended. What it held was released by the records before this one.
    Ended {
        /// Which.
        session: SessionId,
        /// How.
        state: EndState,
    },
    /// A key was granted; the record's number is the fence.
    Reserved {
        /// The reservation.
        id: ReservationId,
        /// Its holder.
        session: SessionId,
        /// What is held.
        key: Key,
        /// How.
        mode: Mode,
        /// How long without renewal.
        ttl: Ttl,
        /// What for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
    },
    /// The holder changed how, how long or what for.
    Amended {
        /// The reservation.
        id: ReservationId,
        /// Its holder.
        session: SessionId,
        /// What is held.
        key: Key,
        /// From now on.
        mode: Mode,
        /// From now on.
        ttl: Ttl,
        /// From now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
    },
    /// A reservation is over.
    Released {
        /// The reservation.
        id: ReservationId,
        /// Who held it.
        session: SessionId,
        /// What is free again.
        key: Key,
        /// Why.
        why: Why,
    },
    /// A request began to wait; the record's number is its place in the queue.
    Queued {
        /// Who waits.
        session: SessionId,
        /// For what, as a whole, with the id each would get.
        wants: Vec<Want>,
        /// How.
        mode: Mode,
        /// What for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
        /// Only at this version of every key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        if_version: Option<u64>,
    },
    /// A wait ended with a grant: the records that follow.
    Seated {
        /// The wait.
        waiter: Seq,
        /// Whose.
        session: SessionId,
    },
    /// A wait ended without a grant.
    Left {
        /// The wait.
        waiter: Seq,
        /// Whose.
        session: SessionId,
        /// Why.
        why: LeftWhy,
    },
    /// How many requests were refused so far; refusals are no records of their own.
    Counted {
        /// Requests refused because somebody else holds or waits for a key.
        conflicts: u64,
        /// Waits refused because they would have closed a circle.
        deadlocks: u64,
    },
    /// Somebody asked the holder to let go, or changed the reason they gave.
    UnlockRequested {
        /// The request.
        request: Uuid,
        /// What should be let go.
        reservation: ReservationId,
        /// Its key.
        key: Key,
        /// Who asks.
        session: SessionId,
        /// Why.
        reason: Text,
    },
    /// A request is over.
    UnlockAnswered {
        /// The request.
        request: Uuid,
        /// How it ended.
        answer: Answer,
        /// Who said so; nobody where the reservation ended first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<SessionId>,
        /// What they added.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Text>,
    },
}

impl Event {
    /// Whose it is, if it is anybody's.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Event::Opened { session, .. }
            | Event::Bound { session, .. }
            | Event::Ended { session, .. }
            | Event::Reserved { session, .. }
            | Event::Amended { session, .. }
            | Event::Released { session, .. }
            | Event::Queued { session, .. }
            | Event::Seated { session, .. }
            | Event::Left { session, .. }
            | Event::UnlockRequested { session, .. } => Some(session),
            Event::UnlockAnswered { by, .. } => by.as_ref(),
            Event::Counted { .. } => None,
        }
    }

    /// What it is about.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let (one, wants): (Option<&Key>, &[Want]) = match self {
            Event::Reserved { key, .. }
            | Event::Amended { key, .. }
            | Event::Released { key, .. }
            | Event::UnlockRequested { key, .. } => (Some(key), &[]),
            Event::Queued { wants, .. } => (None, wants),
            Event::Opened { .. }
            | Event::Bound { .. }
            | Event::Ended { .. }
            | Event::Seated { .. }
            | Event::Left { .. }
            | Event::Counted { .. }
            | Event::UnlockAnswered { .. } => (None, &[]),
        };
        one.into_iter().chain(wants.iter().map(|want| &want.key))
    }
}

/// One key of a request, with what its reservation will be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Want {
    /// Made at the door, because the engine makes nothing up.
    pub id: ReservationId,
    /// What is wanted.
    pub key: Key,
    /// How long without renewal.
    pub ttl: Ttl,
}

/// Whose session it is: fixed by the first call that used it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owner {
    /// Its own: tokens that name the session.
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

/// Alone or among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Nobody else.
    Exclusive,
    /// Others may hold it shared too.
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
    /// Somebody stopped it.
    Stopped,
    /// It was not heard of for too long.
    Lost,
}

/// Why a reservation is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Why {
    /// The holder let go.
    Released,
    /// Its time ran out.
    Expired,
    /// Its session ended.
    Ended,
    /// An admin took it away.
    Overridden {
        /// Who.
        by: Text,
        /// What they said.
        reason: Text,
    },
    /// The holder approved an unlock request.
    Approved {
        /// Which.
        request: Uuid,
    },
    /// Its request was gone before it could hear of the grant.
    Unheard,
}

/// Why a wait ended without a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LeftWhy {
    /// Its time ran out.
    TimedOut,
    /// The client went away.
    Gone,
    /// The server stopped, or had stopped.
    Stopped,
    /// Its session ended.
    Ended,
    /// A key it wanted changed its version.
    Version,
    /// Its feature was paused.
    Paused,
    /// Its session lost a key the wait names too, and without that key it would wait forever.
    Deadlock,
}

/// How an unlock request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The holder let go.
    Approved,
    /// The holder keeps it.
    Rejected,
    /// The asker does not ask any more.
    Withdrawn,
    /// The reservation ended first.
    Moot,
}
