//! Any bytes as a key: nothing panics, and what is accepted can be written and read again.

#![no_main]

use git_dibs::key::{Claim, Key, KeyRules, Kind};
use libfuzzer_sys::fuzz_target;

#[path = "../../src/key/checks.rs"]
#[allow(dead_code, reason = "the other target uses the rest")]
mod checks;

fuzz_target!(|data: &[u8]| {
    checks::literal_holds(data, &KeyRules::default());
    if let Ok(text) = std::str::from_utf8(data) {
        checks::parse_holds(text);
    }
});
