//! Read-only views of the state.

use super::command::{Grant, SessionName, UnlockRequest};
use super::ids::{Seq, SessionId, Text, Timestamp, WaiterId};
use super::record::{EndState, Mode};
use super::state::{Engine, Session, Totals};
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
    pub waits: Vec<WaitView>,
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitView {
    pub waiter: WaiterId,
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

/// Whether anything is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WhoHolds {
    /// The session holds something.
    pub own: bool,
    /// Another session holds something.
    pub others: bool,
}

impl Engine {
    /// Whether a session holds anything, and whether others do. A caller without a session holds nothing.
    pub fn who_holds(&self, session: Option<&SessionId>) -> WhoHolds {
        let slot = session.and_then(|id| self.session_ids.get(id));
        let own = slot.map_or(0, |slot| self.sessions[*slot].held.len());
        WhoHolds { own: own > 0, others: self.reservations.len() > own }
    }

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

    /// All reservations with a fence after `after`, in the order of the grants.
    pub fn reservations(&self, after: Seq) -> impl Iterator<Item = (SessionName, Grant)> + '_ {
        let first = self.grants.partition_point(|(fence, _)| *fence <= after);
        self.grants[first..]
            .iter()
            .filter(|(fence, slot)| self.reservations.get(*slot).is_some_and(|r| r.fence == *fence))
            .map(|(_, slot)| (self.session_name(self.reservations[*slot].session), self.grant_of(*slot)))
    }

    /// Unlock requests to a session, and those it sent; the oldest first.
    pub fn requests(&self, session: &SessionId) -> (Vec<UnlockRequest>, Vec<UnlockRequest>) {
        let collect = |mine: &dyn Fn(&UnlockRequest) -> bool| {
            let mut list: Vec<_> = self.requests.values().filter(|request| mine(request)).cloned().collect();
            list.sort_by_key(|request| (request.at, request.id));
            list
        };
        (collect(&|request| request.holder == *session), collect(&|request| request.by == *session))
    }

    pub fn numbers(&self) -> Numbers {
        Numbers {
            totals: self.totals.clone(),
            reservations: self.reservations.len(),
            waiters: self.waiters.len(),
            sessions: self.alive,
        }
    }

    /// How many keys, sessions and committed contents an image of this state would have. That decides what a snapshot
    /// costs.
    pub fn weight(&self) -> usize {
        self.index.len() + self.sessions.len() + self.committed.len()
    }

    fn view_session(&self, session: &Session) -> SessionView {
        let wait = |id: &WaiterId| {
            let waiter = &self.waiters[id];
            WaitView {
                waiter: *id,
                keys: waiter.wants.iter().map(|want| want.key.clone()).collect(),
                mode: waiter.mode,
                since: waiter.since,
                until: self.real(waiter.until),
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
