//! How much a session and a repository may hold: numbers of reservations, and bytes of text.
//!
//! A client chooses how long its keys and reasons are, and how deep its directories. Their bytes are counted as long as a
//! key is held or waited for, so that memory, snapshots and the history stay small.
//!
//! Reservations that have ended count until their releases are recorded, because they take memory until then. So a request
//! that is over a quota is decided again after that, before it is refused; see [`Engine::counts_ended`].

use hashbrown::HashSet;

use super::command::Refusal;
use super::ids::{SessionId, Text};
use super::record::Want;
use super::slab::SessionSlot;
use super::state::{Engine, Lookup, Reservation, Waiter};
use crate::key::Key;

/// What is held is in memory twice: here, and in the ledger that is written from it. So its bytes count twice.
pub(super) const LIVE_COPIES: usize = 2;

/// The most text of one request, in bytes, as it is recorded: its keys, and its reason with each of them.
const REQUEST_TEXT_MAX: usize = 16 << 20;

impl Engine {
    /// Refuses a request for too much. What a session waits for counts as held, because the wait is granted later without
    /// another check.
    pub(super) fn within_quota(
        &self,
        slot: SessionSlot,
        wants: &[Want],
        lookups: &[Lookup],
        reason: Option<&Text>,
    ) -> Result<(), Refusal> {
        let (mut more, mut text, mut grown, stored) = (0, 0, 0, stored_bytes(reason));
        for (want, lookup) in wants.iter().zip(lookups) {
            match lookup.held() {
                None => (more, text, grown) = (more + 1, text + want.key.text_bytes(), grown + stored),
                Some(held) if reason.is_some() && self.reservations[held].reason.as_ref() != reason => {
                    grown += stored.saturating_sub(stored_bytes(self.reservations[held].reason.as_ref()));
                }
                Some(_) => {}
            }
        }
        self.within_numbers(slot, more)?;
        if text + wants.len() * stored > REQUEST_TEXT_MAX {
            return Err(Refusal::TooMuchText { limit: REQUEST_TEXT_MAX });
        }
        let (used, limit) = (self.text_bytes() + LIVE_COPIES * grown, self.policy.text_bytes);
        let new = || wants.iter().zip(lookups).filter(|(_, lookup)| lookup.held().is_none()).map(|(want, _)| &want.key);
        // Looking for the directories that there are already is needed only where the room is small.
        let fits = more + grown == 0
            || used + new().map(|key| self.index.bytes_max(key)).sum::<usize>() <= limit
            || used + new().map(|key| self.index.new_bytes(key)).sum::<usize>() <= limit;
        if fits {
            Ok(())
        } else {
            Err(Refusal::OverQuota { what: "bytes of keys and reasons in this repository", limit })
        }
    }

    /// Whether a session, which may be new, could have reservations of all these keys beside those it has. Only their
    /// numbers count here, not their bytes. What is over does not count, because a request waits for it to be released.
    pub fn room_for(&self, session: Option<&SessionId>, keys: &[Key]) -> Result<(), Refusal> {
        let slot = session.and_then(|id| self.session_ids.get(id)).copied();
        let mut distinct = HashSet::new();
        let is_new = |key: &&Key| slot.is_none_or(|slot| self.lookup(slot, key).held().is_none());
        let more = keys.iter().filter(is_new).filter(|key| distinct.insert(*key)).count();
        let used = slot.map_or(0, |slot| self.sessions[slot].held.len() + self.sessions[slot].queued_keys.len());
        self.numbers_fit(used, self.reservations.len() - self.over_count, more)
    }

    /// Refuses if a session may not have this many more reservations.
    pub(super) fn within_numbers(&self, slot: SessionSlot, more: usize) -> Result<(), Refusal> {
        let session = &self.sessions[slot];
        self.numbers_fit(session.held.len() + session.queued_keys.len(), self.reservations.len(), more)
    }

    /// `used` is what the session has, `reservations` what the repository has besides its waits.
    fn numbers_fit(&self, used: usize, reservations: usize, more: usize) -> Result<(), Refusal> {
        let limit = self.policy.reservations_per_session;
        if more > 0 && used + more > limit {
            return Err(Refusal::OverQuota { what: "reservations of one session", limit });
        }
        let limit = self.policy.reservations;
        if more > 0 && reservations + self.queued_keys + more > limit {
            return Err(Refusal::OverQuota { what: "reservations in this repository", limit });
        }
        Ok(())
    }

    /// The bytes of a reservation besides its key: the reason, and a spelling of its own.
    pub(super) fn own_bytes(&self, reservation: &Reservation) -> usize {
        let known = &self.index.place(reservation.place).key;
        let spelled = if known.spelling() == reservation.key.spelling() { 0 } else { reservation.key.text_bytes() };
        stored_bytes(reservation.reason.as_ref()) + spelled
    }
}

impl Waiter {
    /// The bytes of its reason, counted as for the reservations that it waits for.
    pub(super) fn own_bytes(&self) -> usize {
        self.wants.len() * stored_bytes(self.reason.as_ref())
    }
}

/// How many bytes a text takes in a record: control characters and quotes are written as several.
pub(super) fn stored_bytes(text: Option<&Text>) -> usize {
    let size = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        ..0x20 => 6,
        _ => 1,
    };
    text.map_or(0, |text| text.bytes().map(size).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_counted_as_it_is_written() {
        for text in ["", "plain", "\u{1}\u{2}\u{1f}", "a \"b\" \\ \n\r\t\u{8}\u{c}", "äöü\u{7f}\u{2028}"] {
            let written = serde_json::to_string(text).unwrap().len() - 2;
            assert_eq!(stored_bytes(Some(&text.into())), written, "{text:?}");
        }
        assert_eq!(stored_bytes(None), 0);
    }
}
