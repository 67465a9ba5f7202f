//! What a session is told with its next answer.

use std::collections::VecDeque;

use super::command::Notice;
use super::ids::SessionId;
use super::state::Engine;

/// Notices kept for a session that does not call.
pub(super) const NOTICES_KEPT: usize = 256;

impl Engine {
    /// What the session should know. Early releases and answers are told once; what needs an answer, until it has one.
    pub fn take_notices(&mut self, id: &SessionId) -> Vec<Notice> {
        let Some(slot) = self.session_ids.get(id).copied() else { return Vec::new() };
        let told = std::mem::take(&mut self.sessions[slot].notices);
        let session = &self.sessions[slot];
        let asked = session.incoming.iter().map(|request| Notice::UnlockRequested(self.requests[request].clone()));
        let paused = self.pause_of(slot, None).map(Notice::Paused);
        told.into_iter().chain(asked).chain(paused).collect()
    }
}

pub(super) fn remember<T>(list: &mut VecDeque<T>, most: usize, item: T) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(item);
}
