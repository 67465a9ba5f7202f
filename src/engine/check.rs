//! Checks: may a caller reserve, change or look at a key? Nothing is reserved, and nothing changes.

use std::ops::ControlFlow;

use super::command::{Conflict, Intent, KeyCheck};
use super::conflict::{Blocker, clash};
use super::ids::{ObjectId, SessionId};
use super::index::Place;
use super::record::Mode;
use super::state::{Engine, Reservation};
use crate::key::{Claim, Key};

impl Engine {
    /// Which reservations of other sessions are in the way of one key, and whether the session holds it itself. A caller
    /// without a session conflicts with every holder.
    ///
    /// Complete only as far as [`Engine::measured`] says. `position` is where the key stands in the caller's list; conflicts repeat it.
    pub fn check(&self, session: Option<&SessionId>, position: usize, key: &Key, intent: Intent) -> KeyCheck {
        let session = session.and_then(|id| self.session_ids.get(id)).copied();
        let mode = match intent {
            Intent::Reserve(mode) => mode,
            Intent::Change => Mode::Exclusive,
            Intent::Look => Mode::Shared,
        };
        let mut check = KeyCheck { conflicts: Vec::new(), held: false, carried: false };
        let in_the_way = |slot| {
            let reservation: &Reservation = &self.reservations[slot];
            Some(reservation.session) != session && clash(reservation.mode, mode)
        };
        let concerns = |place: &Place| place.key == *key || place.holders.iter().any(in_the_way);
        let _: ControlFlow<()> = self.index.visit_overlaps(key, concerns, |id| {
            let place = self.index.place(id);
            for slot in place.holders.iter() {
                let reservation = &self.reservations[slot];
                if Some(reservation.session) == session {
                    check.held |= covers(&reservation.key, key);
                } else if in_the_way(slot) {
                    check.conflicts.push(self.conflict(position, key, id, Blocker::Holder(slot)));
                }
            }
            ControlFlow::Continue(())
        });
        // A holder may change the key beside others that hold it shared.
        let shared_only = || check.conflicts.iter().all(|conflict| conflict.mode == Mode::Shared);
        if intent == Intent::Change && check.held && shared_only() {
            check.conflicts.clear();
        }
        check
    }

    /// The same for a change of a path to this content. Content that every holder in the way has committed itself may be
    /// carried by anyone: it undoes nothing.
    pub fn check_content(&self, session: Option<&SessionId>, position: usize, key: &Key, blob: ObjectId) -> KeyCheck {
        let mut check = self.check(session, position, key, Intent::Change);
        let committed = |conflict: &Conflict| self.has_committed(&conflict.who.session, key, blob);
        if !check.conflicts.is_empty() && check.conflicts.iter().all(committed) {
            check.conflicts.clear();
            check.carried = true;
        }
        check
    }
}

/// Whether a session that holds `held` holds all of `key`.
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
