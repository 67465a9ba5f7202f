//! Logins that were ended before they expired.
//!
//! Logins are not listed anywhere, so a login that signs out is noted here until it would have expired. A restart forgets the
//! notes: the browser has dropped its cookie by then, and a copy of the cookie could still only read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The most notes. Beyond it, the login that expires first is forgotten.
const ENDED_MAX: usize = 10_000;

#[derive(Default)]
pub struct EndedLogins(Mutex<HashMap<String, i64>>);

impl EndedLogins {
    /// Notes that a login has ended. Times are in seconds since 1970.
    pub fn add(&self, id: &str, expires: i64, now: i64) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= ENDED_MAX {
            ended.retain(|_, expires| *expires > now);
        }
        if ended.len() >= ENDED_MAX {
            let first = ended.iter().min_by_key(|(_, expires)| **expires).map(|(id, _)| id.clone());
            first.and_then(|first| ended.remove(&first));
        }
        ended.insert(id.to_owned(), expires);
    }

    pub fn contains(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_bounded_and_the_first_to_expire_goes() {
        let ended = EndedLogins::default();
        for n in 0..ENDED_MAX as i64 {
            ended.add(&n.to_string(), 1_000 + n, 0);
        }
        ended.add("new", 5_000, 0);
        assert!(!ended.contains("0") && ended.contains("1") && ended.contains("new"));
        ended.add("newer", 5_000, 1_100);
        assert!(!ended.contains("100") && ended.contains("101"), "what has expired goes first");
    }
}
