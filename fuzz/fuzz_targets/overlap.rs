//! Two lines as two keys: they meet in either order or in none, and where they meet there is an example.

#![no_main]

use git_dibs::key::{Claim, Key, KeyRules, Kind};
use libfuzzer_sys::fuzz_target;

#[path = "../../src/key/checks.rs"]
#[allow(dead_code, reason = "the other target uses the rest")]
mod checks;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((a, b)) = text.split_once('\n') else { return };
    checks::overlap_holds(a, b);
});
