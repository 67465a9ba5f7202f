//! Looking without changing anything.

use super::command::{Grant, Person, UnlockRequest};
use super::ids::{Seq, SessionId, Text, Timestamp};
use super::record::{EndState, Mode};
use super::state::{Engine, Session, Totals};
use crate::key::Key;

/// A session as anyone in the repository may see it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// Its display name.
    pub name: Option<Text>,
    /// The feature it works on.
    pub feature: Option<Text>,
    /// How it ended; nothing while it is alive.
    pub state: Option<EndState>,
    /// Since when.
    pub started: Timestamp,
    /// When it last called.
    pub last_seen: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How many reservations it holds.
    pub held: usize,
    /// What it waits for.
    pub waits: Vec<WaitView>,
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitView {
    /// Its place in the queue.
    pub waiter: Seq,
    /// For all of these.
    pub keys: Vec<Key>,
    /// How.
    pub mode: Mode,
    /// Since when.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
}

/// The engine in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    /// Since the first record.
    pub totals: Totals,
    /// Held now.
    pub reservations: usize,
    /// Waiting now.
    pub waiters: usize,
    /// Alive now.
    pub sessions: usize,
}

impl Engine {
    /// One session.
    pub fn session(&self, id: &SessionId) -> Option<SessionView> {
        self.session_ids.get(id).map(|slot| self.view_session(&self.sessions[*slot]))
    }

    /// Every session that is alive or still remembered, the oldest first.
    pub fn sessions(&self) -> Vec<SessionView> {
        let mut all: Vec<_> = self.sessions.iter().map(|(_, session)| session).collect();
        all.sort_by_key(|session| session.opened);
        all.into_iter().map(|session| self.view_session(session)).collect()
    }

    /// What a session holds, in the order of the grants.
    pub fn held(&self, session: &SessionId) -> Vec<Grant> {
        let Some(slot) = self.session_ids.get(session) else { return Vec::new() };
        let mut held: Vec<_> = self.sessions[*slot].held.iter().map(|held| self.grant_of(*held)).collect();
        held.sort_by_key(|grant| grant.fence);
        held
    }

    /// Everything held whose fence lies after `after`, in the order of the grants.
    pub fn reservations(&self, after: Seq) -> impl Iterator<Item = (Person, Grant)> + '_ {
        let first = self.grants.partition_point(|(fence, _)| *fence <= after);
        self.grants[first..]
            .iter()
            .filter(|(fence, slot)| self.reservations.get(*slot).is_some_and(|r| r.fence == *fence))
            .map(|(_, slot)| (self.person(self.reservations[*slot].session), self.grant_of(*slot)))
    }

    /// Unlock requests a session should answer, and those it made; the oldest first.
    pub fn requests(&self, session: &SessionId) -> (Vec<UnlockRequest>, Vec<UnlockRequest>) {
        let collect = |mine: &dyn Fn(&UnlockRequest) -> bool| {
            let mut list: Vec<_> = self.requests.values().filter(|request| mine(request)).cloned().collect();
            list.sort_by_key(|request| (request.at, request.id));
            list
        };
        (collect(&|request| request.holder == *session), collect(&|request| request.by == *session))
    }

    /// How much there is of everything.
    pub fn numbers(&self) -> Numbers {
        Numbers {
            totals: self.totals.clone(),
            reservations: self.reservations.len(),
            waiters: self.waiters.len(),
            sessions: self.alive,
        }
    }

    /// How many keys and sessions there are to remember, which is what an image of this costs.
    pub fn weight(&self) -> usize {
        self.index.len() + self.sessions.len()
    }

    fn view_session(&self, session: &Session) -> SessionView {
        let wait = |seq: &Seq| {
            let waiter = &self.waiters[seq];
            WaitView {
                waiter: *seq,
                keys: waiter.wants.iter().map(|want| want.key.clone()).collect(),
                mode: waiter.mode,
                since: waiter.since,
                until: waiter.until,
            }
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
            waits: session.waits.iter().map(wait).collect(),
        }
    }
}
