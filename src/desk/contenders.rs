//! Which sessions compete for a key: for each counted key a short list of the sessions that asked for it or blocked it.
//!
//! A list has a bounded length. The session that was seen least recently makes room, so the list of a key that many sessions
//! want shows the latest of them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::engine::{SessionId, SessionName, Text};

/// The sessions that are remembered for one key.
const CONTENDERS_MAX: usize = 6;

/// A session that competes for a key.
#[derive(Debug, Clone)]
struct Contender {
    who: SessionName,
    conflicts: u64,
    /// The time slot of its latest conflict.
    last: i64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Contenders {
    by_key: HashMap<String, Vec<Contender>>,
}

/// A session as it is saved: its id, its name, its conflicts, the slot of the latest.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedContender(String, Option<Text>, u64, i64);

impl Contenders {
    /// Counts a conflict for a session that takes part in it.
    pub(super) fn count(&mut self, key: &str, slot: i64, who: &SessionName) {
        if !self.by_key.contains_key(key) {
            self.by_key.insert(key.to_owned(), Vec::new());
        }
        let list = self.by_key.get_mut(key).expect("just inserted");
        if let Some(known) = list.iter_mut().find(|known| known.who.session == who.session) {
            known.conflicts += 1;
            known.last = known.last.max(slot);
            known.who.name = who.name.clone().or(known.who.name.take());
            return;
        }
        if list.len() >= CONTENDERS_MAX {
            let oldest = list.iter().enumerate().min_by_key(|(_, known)| (known.last, known.conflicts));
            let oldest = oldest.map(|(n, _)| n).expect("the list is full");
            list.swap_remove(oldest);
        }
        list.push(Contender { who: who.clone(), conflicts: 1, last: slot });
    }

    /// The sessions that competed for a key since this slot, those with the most conflicts first.
    pub(super) fn since(&self, key: &str, from: i64) -> Vec<SessionName> {
        let list = self.by_key.get(key).map(Vec::as_slice).unwrap_or_default();
        let mut recent: Vec<&Contender> = list.iter().filter(|one| one.last >= from).collect();
        recent.sort_by(|a, b| {
            b.conflicts.cmp(&a.conflicts).then_with(|| a.who.session.as_str().cmp(b.who.session.as_str()))
        });
        recent.into_iter().map(|one| one.who.clone()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Forgets the keys that are not counted any more.
    pub(super) fn retain(&mut self, is_counted: impl Fn(&str) -> bool) {
        self.by_key.retain(|key, _| is_counted(key));
    }

    pub(super) fn save(&self) -> Vec<(String, Vec<SavedContender>)> {
        let saved = |one: &Contender| {
            SavedContender(one.who.session.to_string(), one.who.name.clone(), one.conflicts, one.last)
        };
        self.by_key.iter().map(|(key, list)| (key.clone(), list.iter().map(saved).collect())).collect()
    }

    pub(super) fn restore(&mut self, saved: Vec<(String, Vec<SavedContender>)>) {
        for (key, list) in saved {
            let contender = |SavedContender(id, name, conflicts, last)| {
                let session = SessionId::parse(&id)?;
                Some(Contender { who: SessionName { session, name }, conflicts, last })
            };
            self.by_key.insert(key, list.into_iter().take(CONTENDERS_MAX).filter_map(contender).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(id: &str) -> SessionName {
        SessionName { session: SessionId::parse(id).unwrap(), name: None }
    }

    fn since(contenders: &Contenders, from: i64) -> Vec<String> {
        contenders.since("a", from).into_iter().map(|who| who.session.to_string()).collect()
    }

    #[test]
    fn sessions_are_listed_by_conflicts_within_the_time() {
        let mut contenders = Contenders::default();
        for (slot, id) in [(1, "ana"), (1, "ana"), (2, "bo"), (3, "cy"), (3, "cy"), (3, "cy")] {
            contenders.count("a", slot, &who(id));
        }
        assert_eq!(since(&contenders, 0), ["cy", "ana", "bo"]);
        assert_eq!(since(&contenders, 2), ["cy", "bo"]);
        let mut restored = Contenders::default();
        restored.restore(contenders.save());
        assert_eq!(since(&restored, 0), ["cy", "ana", "bo"]);
    }

    #[test]
    fn the_session_seen_least_recently_makes_room() {
        let mut contenders = Contenders::default();
        contenders.count("a", 0, &who("first"));
        (1..=CONTENDERS_MAX as i64).for_each(|n| contenders.count("a", n, &who(&format!("s{n}"))));
        let list = since(&contenders, 0);
        assert!(list.len() == CONTENDERS_MAX && !list.contains(&"first".to_owned()), "{list:?}");
    }
}
