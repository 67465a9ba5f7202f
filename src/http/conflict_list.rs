//! Conflicts in a reply. Every key in conflict appears, and the longer the list gets, the less is said about each.
//!
//! | the list has | each conflict |
//! |---|---|
//! | up to 100 conflicts | is complete |
//! | more | has at most 100 characters of its reason |
//! | more than 1 MiB | stands for its key alone: one holder and a count, no reason, no example, a long key is cut |
//!
//! So the reply to the largest check is a few times the size of its request.

use crate::engine::{Conflict, Text};
use crate::wire;

use super::outcome;

/// From this many conflicts on, reasons are shortened.
const LONG_LIST: usize = 100;

/// The characters of a reason in a long list.
const REASON_CHARS: usize = 100;

/// From this many bytes on, a list has only one holder for each key.
const BRIEF_LIST_BYTES: usize = 1024 * 1024;

/// The characters of a holder's key in such a list.
const KEY_CHARS: usize = 200;

/// About what a conflict takes besides its texts, in bytes.
const CONFLICT_BYTES: usize = 350;

/// What a list has so far.
#[derive(Default)]
pub struct ConflictList {
    count: usize,
    bytes: usize,
}

impl ConflictList {
    /// The conflicts of one key of the request, as they go into the reply. `texts` has the keys as the request wrote them;
    /// without it, they are shown in canonical form.
    pub fn add(&mut self, of_key: &[Conflict], texts: &[String], mut each: impl FnMut(wire::Conflict)) {
        if self.bytes > BRIEF_LIST_BYTES {
            let Some(first) = of_key.first() else { return };
            let mut brief = outcome::conflict(first, texts);
            let more = of_key.len() - 1 + of_key.last().map_or(0, |last| last.more_holders);
            brief.more_holders = (more > 0).then_some(more as u64);
            (brief.reason, brief.example) = (None, None);
            if let Some((end, _)) = brief.key.char_indices().nth(KEY_CHARS) {
                brief.key.replace_range(end.., "…");
            }
            return each(brief);
        }
        for found in of_key {
            let mut conflict = outcome::conflict(found, texts);
            conflict.reason = reason_in_list(self.count, conflict.reason);
            self.count += 1;
            let length = |text: Option<usize>| text.unwrap_or(0);
            self.bytes += CONFLICT_BYTES
                + conflict.file_path.len()
                + conflict.key.len()
                + length(conflict.reason.as_ref().map(|reason| reason.len()))
                + length(conflict.example.as_ref().map(String::len));
            each(conflict);
        }
    }

    /// All conflicts of a refusal.
    pub fn all(conflicts: &[Conflict]) -> Vec<wire::Conflict> {
        let (mut list, mut all) = (ConflictList::default(), Vec::with_capacity(conflicts.len()));
        for of_key in conflicts.chunk_by(|one, other| one.position == other.position) {
            list.add(of_key, &[], |conflict| all.push(conflict));
        }
        all
    }
}

/// A reason at this place of a list, shortened if the list is long.
pub fn reason_in_list(place: usize, reason: Option<Text>) -> Option<Text> {
    if place < LONG_LIST {
        return reason;
    }
    reason.map(short_reason)
}

/// The beginning of a reason, as lists have it.
pub fn short_reason(reason: Text) -> Text {
    match reason.char_indices().nth(REASON_CHARS) {
        Some((end, _)) => format!("{}…", &reason[..end]).into(),
        None => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Mode, SessionId, SessionName, Timestamp};
    use crate::key::{Key, KeyRules};

    fn conflicts(position: usize, holders: usize) -> Vec<Conflict> {
        let key = |text: &str| Key::parse(text, &KeyRules::default()).unwrap();
        let one = |n: usize| Conflict {
            asked: key(&format!("src/{position}")),
            position,
            key: key(&format!("src/{}/**", "d".repeat(250))),
            who: SessionName { session: SessionId::parse(&format!("s{n}")).unwrap(), name: None },
            mode: Mode::Exclusive,
            reason: Some("r".repeat(1000).into()),
            since: Timestamp(0),
            until: Timestamp(0),
            example: Some("src/x".to_owned()),
            waiting: false,
            queue_length: 0,
            more_holders: 0,
        };
        let mut all: Vec<_> = (0..holders).map(one).collect();
        all.last_mut().unwrap().more_holders = 7;
        all
    }

    #[test]
    fn the_longer_a_list_the_less_is_said_about_each_conflict() {
        let found: Vec<Conflict> = (0..20_000).flat_map(|position| conflicts(position, 3)).collect();
        let all = ConflictList::all(&found);
        let reason = |n: usize| all[n].reason.as_ref().map_or(0, |reason| reason.chars().count());
        assert_eq!((reason(0), reason(LONG_LIST - 1), reason(LONG_LIST)), (1000, 1000, REASON_CHARS + 1));
        assert_eq!((all[1].more_holders, all[2].more_holders), (None, Some(7)));
        let last = all.last().unwrap();
        assert_eq!((last.reason.clone(), last.example.clone(), last.more_holders), (None, None, Some(9)));
        assert_eq!(last.key.chars().count(), KEY_CHARS + 1);
        let mut paths: Vec<&str> = all.iter().map(|conflict| &*conflict.file_path).collect();
        paths.dedup();
        assert_eq!(paths.len(), 20_000, "every key in conflict appears");
        let bytes = serde_json::to_vec(&all).unwrap().len();
        assert!(bytes < 20_000 * 700, "{bytes}");
    }
}
