//! Notices: what a session is told with its next reply.
//!
//! A reply has only the newest few, and the number of the others, because any session can cause notices of another one.

use std::collections::VecDeque;

use super::command::{Notice, SessionIdentity, UnlockRequest};
use super::ids::SessionId;
use super::record::Why;
use super::slab::SessionSlot;
use super::state::Engine;
use crate::key::Key;

/// Notices kept for a session that does not call; the oldest is dropped first.
const NOTICES_KEPT: usize = 256;

/// The same in bytes of text.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The most notices of one sort in a reply: of those that are delivered once, and of unlock requests.
const LISTED_MAX: usize = 10;

/// About how much text the notices of one sort may have in a reply, in bytes. The newest is listed in any case.
const TEXT_BYTES_MAX: usize = 16 << 10;

impl Engine {
    /// The notices of a session, for its own call. Another caller gets none and takes none away.
    pub fn take_own_notices(&mut self, caller: &SessionIdentity) -> Vec<Notice> {
        let slot = self.find_session(&caller.id).filter(|_| caller.hears_notices);
        match slot.filter(|slot| self.sessions[*slot].owner.as_ref() == Some(&caller.owner)) {
            Some(slot) => self.take_notices_at(slot),
            None => Vec::new(),
        }
    }

    /// The same for a caller that is known to be the session itself.
    pub fn take_notices(&mut self, id: &SessionId) -> Vec<Notice> {
        match self.find_session(id) {
            Some(slot) => self.take_notices_at(slot),
            None => Vec::new(),
        }
    }

    /// Expired reservations, releases by an admin and answers to unlock requests are delivered once; unlock requests and a pause are repeated as
    /// long as they are pending.
    fn take_notices_at(&mut self, slot: SessionSlot) -> Vec<Notice> {
        let once = &mut self.sessions[slot].notices;
        let listed = newest(once.iter().rev().map(text_bytes));
        let mut notices: Vec<Notice> = once.split_off(once.len() - listed).into();
        let waiting = once.len();
        let session = &mut self.sessions[slot];
        // A session that believes to hold more than it does learns it so.
        notices.extend(session.lapsed.take_untold().filter(|_| session.end.is_none()));

        let incoming = &self.sessions[slot].incoming;
        let sizes = incoming.iter().rev().map(|id| &self.requests[id]);
        let listed = newest(sizes.map(UnlockRequest::text_bytes));
        let (more, listed) = incoming.split_at(incoming.len() - listed);
        notices.extend(listed.iter().map(|id| Notice::UnlockRequested(self.requests[id].clone())));
        notices.extend(self.pause_of(slot, None).map(Notice::Paused));
        if waiting + more.len() > 0 {
            notices.push(Notice::More { notices: waiting, unlock_requests: more.len() });
        }
        notices
    }
}

/// How many of the newest notices a reply lists. `sizes` begins with that of the newest.
fn newest(sizes: impl Iterator<Item = usize>) -> usize {
    let total = sizes.scan(0, |total, bytes| {
        *total += bytes;
        Some(*total)
    });
    let fits = |(position, total): &(usize, usize)| *position == 0 || *total <= TEXT_BYTES_MAX;
    total.enumerate().take(LISTED_MAX).take_while(fits).count()
}

/// About how much text a notice has that another session may have chosen.
fn text_bytes(notice: &Notice) -> usize {
    match notice {
        Notice::UnlockRequested(request) | Notice::UnlockAnswered(request) => request.text_bytes(),
        Notice::ReleasedEarly { key, why: Why::Overridden { by, reason }, .. } => {
            key.text_bytes() + by.len() + reason.len()
        }
        Notice::ReleasedEarly { key, .. } => key.text_bytes(),
        Notice::Lost { keys, .. } | Notice::Expired { keys, .. } => keys.iter().map(Key::text_bytes).sum(),
        Notice::Paused(_) | Notice::More { .. } => 0,
    }
}

/// Keeps a notice until the session calls. The oldest are dropped where there are too many.
pub(super) fn add_notice(notices: &mut VecDeque<Notice>, notice: Notice) {
    notices.push_back(notice);
    let mut bytes: usize = notices.iter().map(text_bytes).sum();
    while notices.len() > NOTICES_KEPT || (bytes > KEPT_BYTES_MAX && notices.len() > 1) {
        bytes -= notices.pop_front().as_ref().map_or(0, text_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_lists_the_newest_and_never_too_much() {
        let listed = |sizes: &[usize]| newest(sizes.iter().copied());
        assert_eq!(listed(&[]), 0);
        assert_eq!(listed(&[9; 3]), 3);
        assert_eq!(listed(&[9; 300]), LISTED_MAX);
        assert_eq!(listed(&[TEXT_BYTES_MAX * 9, 1, 1]), 1, "the newest is always listed");
        assert_eq!(listed(&[TEXT_BYTES_MAX / 2, TEXT_BYTES_MAX / 2, 1]), 2);
    }
}
