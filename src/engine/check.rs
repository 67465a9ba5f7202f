//! Checks: may a caller reserve, change or look at a key? Nothing is reserved, and nothing changes.

use std::ops::ControlFlow;

use super::command::{Intent, KeyCheck};
use super::conflict::{Blocker, ListedBlockers, clash};
use super::ids::{ObjectId, SessionId};
use super::index::Place;
use super::record::Mode;
use super::slab::SessionSlot;
use super::state::{Engine, Reservation};
use super::work::CHECK_WORK;
use crate::key::{Claim, Key};

impl Engine {
    /// Which reservations of other sessions are in the way of one key, and whether the session holds it itself. A caller
    /// without a session conflicts with every holder.
    ///
    /// Complete only as far as [`Engine::measured`] says. `position` is where the key stands in the caller's list; conflicts repeat it.
    pub fn check(&self, session: Option<&SessionId>, position: usize, key: &Key, intent: Intent) -> KeyCheck {
        self.check_key(session, position, key, intent, None)
    }

    /// The same for a change of a path to this content. Content that every holder in the way has committed itself may be
    /// carried by anyone: it undoes nothing.
    pub fn check_content(&self, session: Option<&SessionId>, position: usize, key: &Key, blob: ObjectId) -> KeyCheck {
        self.check_key(session, position, key, Intent::Change, Some(blob))
    }

    fn check_key(
        &self,
        session: Option<&SessionId>,
        position: usize,
        key: &Key,
        intent: Intent,
        blob: Option<ObjectId>,
    ) -> KeyCheck {
        self.index.meter.spend(CHECK_WORK);
        let session = session.and_then(|id| self.session_ids.get(id)).copied();
        let mode = match intent {
            Intent::Reserve(mode) | Intent::ReserveNow(mode) => mode,
            Intent::Change => Mode::Exclusive,
            Intent::Look => Mode::Shared,
        };
        let mut check = KeyCheck { conflicts: Vec::new(), held: false, carried: false };
        let is_in_the_way = |slot| {
            let reservation: &Reservation = &self.reservations[slot];
            Some(reservation.session) != session && clash(reservation.mode, mode) && !self.is_over(reservation)
        };
        let concerns = |place: &Place| place.key == *key || place.holders.iter().any(is_in_the_way);
        let (mut in_the_way, mut only_shared, mut all_committed) = (ListedBlockers::default(), true, true);
        let _: ControlFlow<()> = self.index.visit_overlaps(key, concerns, |id| {
            let place = self.index.place(id);
            for slot in place.holders.iter() {
                let reservation = &self.reservations[slot];
                if self.is_over(reservation) {
                    continue;
                }
                if Some(reservation.session) == session {
                    check.held |= covers(&reservation.key, key);
                } else if is_in_the_way(slot) {
                    in_the_way.add(id, Blocker::Holder(slot), reservation.session);
                    only_shared &= reservation.mode == Mode::Shared;
                    let holder = &self.sessions[reservation.session].id;
                    all_committed = all_committed && blob.is_some_and(|blob| self.has_committed(holder, key, blob));
                }
            }
            ControlFlow::Continue(())
        });
        if in_the_way.is_empty() && matches!(intent, Intent::ReserveNow(_)) {
            self.list_waits_ahead(session.unwrap_or(SessionSlot::NONE), position, key, mode, &mut check.conflicts);
        }
        if in_the_way.is_empty() || (intent == Intent::Change && check.held && only_shared) {
            // A holder may change the key beside others that hold it shared.
            return check;
        }
        check.carried = all_committed;
        if !check.carried {
            self.list_conflicts(position, key, in_the_way, &mut check.conflicts);
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
