//! Log lines for what the desk does on its own, such as expiry: no client gets a reply about it.

use crate::engine::{Event, Record, Why};

/// The log target for decisions, here and in `http`.
pub const DECISIONS: &str = "git_dibs::decision";

/// Longer keys are shortened in the middle.
const KEY_CHARS_MAX: usize = 120;

/// Whether decisions are logged. Costs next to nothing where they are not.
pub fn is_on() -> bool {
    tracing::enabled!(target: DECISIONS, tracing::Level::INFO)
}

/// Text from a request for the log: shortened, on one line, and without terminal control characters.
pub fn tame(text: &str) -> String {
    let unsafe_to_show = |c: char| {
        c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    let count = text.chars().count();
    let mut tamed = String::with_capacity(text.len());
    for (n, c) in text.chars().enumerate() {
        let cut = KEY_CHARS_MAX / 2;
        if count > KEY_CHARS_MAX && n >= cut && n < count - cut {
            if n == cut {
                tamed.push('…');
            }
        } else if unsafe_to_show(c) {
            tamed.extend(c.escape_unicode());
        } else {
            tamed.push(c);
        }
    }
    tamed
}

/// Logs what ended because its time ran out.
pub(super) fn log_expired(repo: &str, records: &[Record]) {
    if !is_on() {
        return;
    }
    for record in records {
        let seq = record.seq.0;
        match &record.event {
            Event::Released { session, key, why, .. } => {
                let (key, outcome) = (tame(&key.shown()), if *why == Why::Expired { "expired" } else { "released" });
                tracing::info!(target: DECISIONS, repo, seq, session = session.as_str(), key, outcome, "time passed");
            }
            Event::Ended { session, .. } => {
                tracing::info!(target: DECISIONS, repo, seq, session = session.as_str(), outcome = "lost", "time passed");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_the_log_stays_on_its_line_and_controls_no_terminal() {
        assert_eq!(tame("src/a b.rs"), "src/a b.rs");
        assert_eq!(tame("a\n\u{1b}[31m\u{9b}x\u{202e}y\r"), r"a\u{a}\u{1b}[31m\u{9b}x\u{202e}y\u{d}");
        assert_eq!(tame(&"é".repeat(120)), "é".repeat(120));
        let long = format!("{}{}", "a".repeat(100), "b".repeat(100));
        assert_eq!(tame(&long), format!("{}…{}", "a".repeat(60), "b".repeat(60)));
    }
}
