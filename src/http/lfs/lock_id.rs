//! The id of a lock: `res_<uuid>_<fence>`, the reservation and the record that granted it. The lock of one file that a
//! directory or pattern covers has a hash of its path behind it.
//!
//! Clients put an id into a URL as it is, so it has only letters, digits and `_`. The fence finds the reservation without
//! a search; the random part tells it from one of another repository.

use std::fmt;

use crate::engine::{Grant, ReservationId, Seq};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockId {
    pub reservation: ReservationId,
    pub fence: Seq,
    /// Set where the reservation is a pattern, and the lock is one of its files.
    pub file: Option<u64>,
}

impl LockId {
    /// The lock of the one path that a reservation names.
    pub fn of(grant: &Grant) -> LockId {
        LockId { reservation: grant.id, fence: grant.fence, file: None }
    }

    /// The lock of a file that a reservation covers.
    pub fn of_file(reservation: ReservationId, fence: Seq, path: &str) -> LockId {
        LockId { reservation, fence, file: Some(hash(path)) }
    }

    pub fn parse(text: &str) -> Option<LockId> {
        let (reservation, rest) = text.strip_prefix("res_")?.split_once('_')?;
        let (fence, file) = match rest.split_once('_') {
            Some((fence, file)) if file.len() == 16 => (fence, Some(u64::from_str_radix(file, 16).ok()?)),
            Some(_) => return None,
            None => (rest, None),
        };
        let reservation = ReservationId::parse(&format!("res_{reservation}"))?;
        let id = LockId { reservation, fence: Seq(fence.parse().ok()?), file };
        // One lock has one id: no signs, zeros or capitals.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.reservation, self.fence.0)?;
        self.file.map_or(Ok(()), |file| write!(f, "_{file:016x}"))
    }
}

/// FNV-1a. Two files of one reservation with the same hash would have the same id, and unlocking either is refused anyway.
fn hash(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written_and_in_no_other_form() {
        let reservation = ReservationId(uuid::Uuid::from_u128(7));
        let ids = [
            LockId { reservation, fence: Seq(42), file: None },
            LockId::of_file(reservation, Seq((3 << 40) + 1), "a b/ü.png"),
        ];
        for id in ids {
            let text = id.to_string();
            assert_eq!(LockId::parse(&text), Some(id));
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{text}");
            for other in
                [text.replace("res_", "RES_"), text.replacen('4', "04", 1), format!("{text}_"), format!(" {text}")]
            {
                assert_ne!(LockId::parse(&other), Some(id), "{other}");
            }
        }
        for bad in ["", "42", "res_", "res_1_2", "waiting", "../x", "res_00000000000000000000000000000007_+42"] {
            assert_eq!(LockId::parse(bad), None, "{bad}");
        }
    }
}
