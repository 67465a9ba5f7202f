//! Notices: what a session is told with its next reply.

use std::collections::VecDeque;

use super::command::Notice;
use super::ids::SessionId;
use super::slab::SessionSlot;
use super::state::Engine;

/// Notices kept for a session that does not call; the oldest is dropped first.
pub(super) const NOTICES_KEPT: usize = 256;

/// Keys that a notice of expired or lost reservations lists.
pub(super) const LOST_KEYS_LISTED: usize = 20;

impl Engine {
    /// The notices of a session. Expired reservations, releases by an admin and answers to unlock requests are delivered once; unlock requests
    /// and a pause are repeated as long as they are pending.
    pub fn take_notices(&mut self, id: &SessionId) -> Vec<Notice> {
        let Some(slot) = self.session_ids.get(id).copied() else { return Vec::new() };
        let expired = self.take_expired(slot);
        let once = std::mem::take(&mut self.sessions[slot].notices);
        let incoming = self.sessions[slot].incoming.iter();
        let requests = incoming.map(|request| Notice::UnlockRequested(self.requests[request].clone()));
        let pause = self.pause_of(slot, None).map(Notice::Paused);
        once.into_iter().chain(expired).chain(requests).chain(pause).collect()
    }

    /// What expired since the session was last told. A session that believes to hold more than it does learns it so.
    fn take_expired(&mut self, slot: SessionSlot) -> Option<Notice> {
        let session = &mut self.sessions[slot];
        let count = std::mem::take(&mut session.lapsed_untold);
        let listed = session.lapsed.len().min(LOST_KEYS_LISTED).min(usize::try_from(count).unwrap_or(usize::MAX));
        let keys = session.lapsed.range(session.lapsed.len() - listed..).cloned().collect();
        (count > 0 && session.end.is_none()).then_some(Notice::Expired { count, keys })
    }
}

/// Appends to a list that keeps the newest `limit` items.
pub(super) fn push_limited<T>(list: &mut VecDeque<T>, limit: usize, item: T) {
    if list.len() == limit {
        list.pop_front();
    }
    list.push_back(item);
}
