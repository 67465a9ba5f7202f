//! Pausing a feature. While a session holds the key `feature:NAME:pause`, no other session of that feature gets new keys.
//!
//! A pause is an ordinary reservation. It ends when that is released or expires.

use super::command::{Pause, Refusal};
use super::ids::{SessionId, Text, WaiterId};
use super::record::{LeftWhy, Want};
use super::slab::{ReservationSlot, SessionSlot};
use super::state::{Engine, Lookup, Reservation};
use super::turn::Turn;
use crate::key::{Claim, Key, Kind};

impl Engine {
    /// The pause that stops this session. `feature` is the one its token names.
    pub fn paused(&self, session: &SessionId, feature: Option<&Text>) -> Option<Pause> {
        self.session_ids.get(session).and_then(|slot| self.pause_of(*slot, feature))
    }

    /// The pause that stops a session: of the feature it was opened with, or of the one its token names. A session that
    /// holds the pause itself is not stopped.
    pub(super) fn pause_of(&self, slot: SessionSlot, feature: Option<&Text>) -> Option<Pause> {
        if self.pauses.is_empty() {
            return None;
        }
        let features = [feature, self.sessions[slot].feature.as_ref()];
        features.into_iter().flatten().find_map(|feature| {
            let place = self.index.place(*self.pauses.get(feature)?);
            if place.holders.iter().any(|held| self.reservations[held].session == slot) {
                return None;
            }
            let reservation = &self.reservations[place.holders.iter().next()?];
            Some(Pause {
                feature: feature.clone(),
                by: self.session_name(reservation.session),
                reason: reservation.reason.clone(),
                until: self.real(self.deadline(reservation)),
            })
        })
    }

    /// Refuses new keys to a session that a pause stops. Keys it holds can still be renewed.
    pub(super) fn refuse_if_paused(
        &self,
        slot: SessionSlot,
        feature: Option<&Text>,
        new_keys: usize,
    ) -> Result<(), Refusal> {
        if new_keys == 0 {
            return Ok(());
        }
        match self.pause_of(slot, feature) {
            Some(pause) => Err(Refusal::Paused(Box::new(pause))),
            None => Ok(()),
        }
    }

    /// After a grant that may have begun a pause: ends the waits that the pause stops. `before` is how the key was held
    /// before the grant. Where a pause is only renewed, waits that began during it are for keys their session holds
    /// already, and go on.
    pub(super) fn end_paused_waits(&mut self, turn: &mut Turn, want: &Want, before: Lookup) {
        if before.held().is_some() {
            return;
        }
        let Some(feature) = paused_feature(&want.key) else { return };
        let stopped: Vec<WaiterId> = self
            .waiters
            .iter()
            .filter(|(_, waiter)| {
                let pause = self.pause_of(waiter.session, waiter.feature.as_ref());
                pause.is_some_and(|pause| pause.feature == feature)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in stopped {
            self.leave(turn, id, LeftWhy::Paused);
        }
    }

    /// A key was granted: if it pauses a feature, the pause begins.
    pub(super) fn apply_pause(&mut self, slot: ReservationSlot) {
        let Reservation { ref key, place, .. } = self.reservations[slot];
        if let Some(feature) = paused_feature(key) {
            self.pauses.insert(feature, place);
        }
    }

    /// A key has no holder any more: if it paused a feature, the pause ends.
    pub(super) fn apply_pause_end(&mut self, key: &Key) {
        if let Some(feature) = paused_feature(key) {
            self.pauses.remove(&feature);
        }
    }
}

/// The feature that a reservation of this key pauses.
fn paused_feature(key: &Key) -> Option<Text> {
    if key.kind() != Kind::Logical {
        return None;
    }
    let Claim::Name(name) = key.claim() else { return None };
    let feature = name.strip_prefix(b"feature:")?.strip_suffix(b":pause")?;
    std::str::from_utf8(feature).ok().map(Text::from)
}
