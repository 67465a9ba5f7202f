//! Who is in the way of changing or reading something, without asking for it.

use std::ops::ControlFlow;

use super::command::Checked;
use super::conflict::{Blocker, clash};
use super::ids::SessionId;
use super::record::Mode;
use super::state::Engine;
use crate::key::{Claim, Key};

impl Engine {
    /// Who is in the way of one key, and whether the session holds it itself. Nobody's session is nobody's friend.
    pub fn check(&self, session: Option<&SessionId>, position: usize, key: &Key, mode: Mode) -> Checked {
        let session = session.and_then(|id| self.session_ids.get(id)).copied();
        let mut checked = Checked { conflicts: Vec::new(), held: false };
        let _: ControlFlow<()> = self.index.meet(key, |id| {
            let place = self.index.place(id);
            for slot in place.holders.iter() {
                let reservation = &self.reservations[slot];
                if Some(reservation.session) == session {
                    checked.held |= covers(&reservation.key, key);
                } else if clash(reservation.mode, mode) {
                    checked.conflicts.push(self.conflict(position, key, id, Blocker::Holder(slot)));
                }
            }
            ControlFlow::Continue(())
        });
        checked
    }
}

/// Whoever holds the one key holds all of the other.
fn covers(held: &Key, key: &Key) -> bool {
    if held == key {
        return true;
    }
    match (held.claim(), key.claim()) {
        (Claim::Glob(glob), Claim::Path(path)) => glob.matches(path),
        (Claim::Below(above), Claim::Name(name)) => name.strip_prefix(above).is_some_and(|rest| rest.starts_with(b"/")),
        _ => false,
    }
}
