//! Pausing a feature: whoever holds `feature:NAME:pause` stops everybody else who works on that feature.

use super::command::Pause;
use super::ids::{Seq, SessionId, Text};
use super::record::{LeftWhy, Want};
use super::slab::SessionSlot;
use super::state::{Engine, Spot};
use super::turn::Turn;
use crate::key::{Claim, Key, Kind};

impl Engine {
    /// The pause that stops a session's work.
    pub fn paused(&self, session: &SessionId, feature: Option<&Text>) -> Option<Pause> {
        self.session_ids.get(session).and_then(|slot| self.pause_of(*slot, feature))
    }

    /// The pause that stops a session, if a feature of its own or of its token has one that is not its own.
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
                by: self.person(reservation.session),
                reason: reservation.reason.clone(),
                until: reservation.expires,
            })
        })
    }

    /// If that was the beginning of a pause, nobody it stops waits any longer. A pause that only goes on leaves those
    /// alone who came since: they wait for more of what they hold.
    pub(super) fn stop_line(&mut self, turn: &mut Turn, want: &Want, before: Spot) {
        if before.held().is_none()
            && let Some(feature) = paused_feature(&want.key)
        {
            self.dismiss_paused(turn, &feature);
        }
    }

    /// A pause begins: sessions of that feature do not get anything new, so they do not wait for it either.
    pub(super) fn dismiss_paused(&mut self, turn: &mut Turn, feature: &Text) {
        let stopped: Vec<Seq> = self
            .waiters
            .iter()
            .filter(|(_, waiter)| {
                let pause = self.pause_of(waiter.session, waiter.feature.as_ref());
                pause.is_some_and(|pause| pause.feature == *feature)
            })
            .map(|(seq, _)| *seq)
            .collect();
        for seq in stopped {
            self.leave(turn, seq, LeftWhy::Paused);
        }
    }
}

/// The feature that holding this key pauses.
pub(super) fn paused_feature(key: &Key) -> Option<Text> {
    if key.kind() != Kind::Logical {
        return None;
    }
    let Claim::Name(name) = key.claim() else { return None };
    let feature = name.strip_prefix(b"feature:")?.strip_suffix(b":pause")?;
    std::str::from_utf8(feature).ok().map(Text::from)
}
