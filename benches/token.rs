//! The cost of a token: verified for the first time, and cached.
//!
//! `cargo bench --bench token` prints nanoseconds per call. Nothing is asserted; the ratio is what matters.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use git_dibs::token::{Keyring, KeyringConfig};

/// Calls per round; the best of several rounds is shown, because other load only adds to it.
const CALLS: u32 = 2_000;
const ROUNDS: u32 = 15;

fn main() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tokens");
    let keyring = Keyring::new(KeyringConfig {
        secret: Some(b"a-secret-of-more-than-thirty-two-bytes".to_vec()),
        jwks_file: Some(fixtures.join("jwks.json")),
        ..KeyringConfig::default()
    })
    .expect("the fixtures are good");

    println!("{:8} {:>14} {:>14} {:>8}", "", "first, ns", "remembered, ns", "ratio");
    for name in ["hs256", "eddsa", "es256", "rs256"] {
        let token = std::fs::read_to_string(fixtures.join(name).with_extension("jwt")).expect("the sample is there");
        let token = token.trim_end();
        // An expired token is verified in full each time, because only valid ones are cached.
        let first = nanoseconds(|| keyring.verify(black_box(token), i64::MAX).is_err());
        let remembered = nanoseconds(|| keyring.verify(black_box(token), 1_800_000_000).is_ok());
        println!("{name:8} {first:>14.0} {remembered:>14.0} {:>8.1}", first / remembered);
    }
}

fn nanoseconds(call: impl Fn() -> bool) -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            assert!(black_box(call()));
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}
