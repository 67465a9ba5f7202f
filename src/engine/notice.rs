//! Notices: what a session is told with its next reply.

use std::collections::VecDeque;

use super::command::Notice;
use super::ids::SessionId;
use super::state::Engine;

/// Notices kept for a session that does not call; the oldest is dropped first.
pub(super) const NOTICES_KEPT: usize = 256;

impl Engine {
    /// The notices of a session. Releases by an admin and answers to unlock requests are delivered once; unlock requests
    /// and a pause are repeated as long as they are pending.
    pub fn take_notices(&mut self, id: &SessionId) -> Vec<Notice> {
        let Some(slot) = self.session_ids.get(id).copied() else { return Vec::new() };
        let once = std::mem::take(&mut self.sessions[slot].notices);
        let incoming = self.sessions[slot].incoming.iter();
        let requests = incoming.map(|request| Notice::UnlockRequested(self.requests[request].clone()));
        let pause = self.pause_of(slot, None).map(Notice::Paused);
        once.into_iter().chain(requests).chain(pause).collect()
    }
}

/// Appends to a list that keeps the newest `limit` items.
pub(super) fn push_limited<T>(list: &mut VecDeque<T>, limit: usize, item: T) {
    if list.len() == limit {
        list.pop_front();
    }
    list.push_back(item);
}
