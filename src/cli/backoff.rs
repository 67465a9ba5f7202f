//! How long to wait before a call is tried again.

use std::time::Duration;

/// The pauses between attempts, in milliseconds; the last one repeats.
const PAUSES_MS: [u64; 5] = [100, 200, 400, 800, 1000];

/// The pause after this many failed attempts, up to a quarter longer or shorter at random, so that clients that failed at
/// the same time do not try again at the same time.
pub fn pause(failures: usize) -> Duration {
    jittered(failures, uuid::Uuid::new_v4().as_u128())
}

fn jittered(failures: usize, random: u128) -> Duration {
    let base = PAUSES_MS[failures.saturating_sub(1).min(PAUSES_MS.len() - 1)];
    // The version and variant bits of a UUID are at the top; the low bits are all random.
    let within = u64::try_from(random % u128::from(base / 2 + 1)).unwrap_or(0);
    Duration::from_millis(base * 3 / 4 + within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_with_a_quarter_of_noise() {
        let bounds = [(75, 125), (150, 250), (300, 500), (600, 1000), (750, 1250), (750, 1250)];
        for (failed, (least, most)) in (1..).zip(bounds) {
            assert_eq!(jittered(failed, 0), Duration::from_millis(least));
            assert_eq!(jittered(failed, u128::from(most - least)), Duration::from_millis(most));
            for _ in 0..200 {
                let pause = pause(failed).as_millis();
                assert!((u128::from(least)..=u128::from(most)).contains(&pause), "{pause}");
            }
        }
    }

    #[test]
    fn pauses_differ() {
        let pauses: std::collections::HashSet<_> = (0..100).map(|_| pause(5)).collect();
        assert!(pauses.len() > 10);
    }
}
