//! The refused requests of the last hour, bounded in numbers and bytes.
//!
//! A session that tries the same thing again and again has one entry with a count, so that it does not push the refusals of
//! others out of the list. Refused cycles have places of their own for the same reason.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::engine::{CycleStep, SessionName, Timestamp};

/// How long a refusal stays in the list.
const LIST_TIME: Duration = Duration::from_secs(3600);

/// The most entries, and the bytes of their keys.
pub(super) const LIST_MAX: usize = 1_000;
const LIST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The same for refused cycles.
const CYCLES_MAX: usize = 100;
const CYCLES_BYTES_MAX: usize = 1024 * 1024;

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    Locked,
    TimedOut,
    Deadlock,
    Paused,
}

/// A session in the way of a request, and the key that it holds or waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusalBlocker {
    pub who: SessionName,
    pub key: Option<String>,
}

/// A request that was refused, once or several times.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusedRequest {
    /// The last time.
    pub at: Timestamp,
    /// The first time, and how often in all.
    pub first_at: Timestamp,
    pub count: u64,
    pub who: SessionName,
    pub kind: RefusalKind,
    /// The first of the keys that were not free.
    pub keys: Vec<String>,
    pub blockers: Vec<RefusalBlocker>,
    /// The sessions that would have waited for each other.
    pub cycle: Vec<CycleStep>,
}

impl RefusedRequest {
    /// Whether it is the same request as another one, tried again.
    fn is_again(&self, other: &RefusedRequest) -> bool {
        self.who.session == other.who.session && self.kind == other.kind && self.keys == other.keys
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.who.session, self.kind, &self.keys).hash(&mut hasher);
        hasher.finish()
    }

    fn bytes(&self) -> usize {
        let keys = self.keys.iter().chain(self.blockers.iter().filter_map(|blocker| blocker.key.as_ref()));
        let steps = self.cycle.iter().flat_map(|step| [&step.holds, &step.wants]);
        keys.map(String::len).sum::<usize>() + steps.map(|key| key.text_bytes()).sum::<usize>()
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct RefusalLists {
    refused: Entries,
    cycles: Entries,
}

impl RefusalLists {
    pub(super) fn add(&mut self, refused: RefusedRequest) {
        match refused.cycle.is_empty() {
            true => self.refused.add(refused, LIST_MAX, LIST_BYTES_MAX),
            false => self.cycles.add(refused, CYCLES_MAX, CYCLES_BYTES_MAX),
        }
    }

    /// The refusals of the hour before `now`, and since then; the newest first. Also how many of the hour are missing.
    pub(super) fn newest_first(&mut self, now: Timestamp, since: Option<Timestamp>) -> (Vec<RefusedRequest>, u64) {
        let mut list = Vec::new();
        for entries in [&mut self.refused, &mut self.cycles] {
            entries.drop_old(now);
            let is_wanted = |refused: &&RefusedRequest| since.is_none_or(|since| refused.at >= since);
            list.extend(entries.by_time.values().rev().take_while(is_wanted).cloned());
        }
        list.sort_by_key(|refused| std::cmp::Reverse(refused.at));
        (list, self.refused.dropped + self.cycles.dropped)
    }
}

#[derive(Default)]
struct Entries {
    /// In the order of their last time, by a number that only grows.
    by_time: BTreeMap<u64, RefusedRequest>,
    /// The number of the entry with this hash.
    by_hash: HashMap<u64, u64>,
    next: u64,
    bytes: usize,
    /// Refused requests that made room for others although they were not an hour old.
    dropped: u64,
}

impl Entries {
    fn add(&mut self, mut refused: RefusedRequest, count_max: usize, bytes_max: usize) {
        self.drop_old(refused.at);
        let hash = refused.hash();
        let known = self.by_hash.get(&hash).copied();
        let is_again = |number: &u64| self.by_time.get(number).is_some_and(|known| known.is_again(&refused));
        if let Some(before) = known.filter(is_again).and_then(|number| self.remove(number)) {
            (refused.first_at, refused.count) = (before.first_at, before.count + refused.count);
        }
        self.bytes += refused.bytes();
        self.by_hash.insert(hash, self.next);
        self.by_time.insert(self.next, refused);
        self.next += 1;
        while self.by_time.len() > count_max || self.bytes > bytes_max {
            self.dropped += self.remove_oldest().map_or(0, |oldest| oldest.count);
        }
    }

    fn drop_old(&mut self, now: Timestamp) {
        while self.by_time.first_key_value().is_some_and(|(_, oldest)| oldest.at.until(now) > LIST_TIME) {
            self.remove_oldest();
        }
        if self.by_time.is_empty() {
            self.dropped = 0;
        }
    }

    fn remove_oldest(&mut self) -> Option<RefusedRequest> {
        let number = *self.by_time.first_key_value()?.0;
        self.remove(number)
    }

    fn remove(&mut self, number: u64) -> Option<RefusedRequest> {
        let refused = self.by_time.remove(&number)?;
        self.bytes -= refused.bytes();
        let hash = refused.hash();
        if self.by_hash.get(&hash) == Some(&number) {
            self.by_hash.remove(&hash);
        }
        Some(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SessionId;
    use crate::key::{Key, KeyRules};

    const MINUTE: i64 = 60_000;

    fn refused(minute: i64, session: &str, key: &str) -> RefusedRequest {
        let at = Timestamp(minute * MINUTE);
        let who = SessionName { session: SessionId::parse(session).unwrap(), name: None };
        let (kind, keys) = (RefusalKind::Locked, vec![key.to_owned()]);
        RefusedRequest { at, first_at: at, count: 1, who, kind, keys, blockers: Vec::new(), cycle: Vec::new() }
    }

    fn cycle(minute: i64, session: &str) -> RefusedRequest {
        let mut refused = refused(minute, session, "a");
        let key = || Key::parse("a", &KeyRules::default()).unwrap();
        let step = CycleStep { session: refused.who.session.clone(), holds: key(), wants: key() };
        (refused.kind, refused.cycle) = (RefusalKind::Deadlock, vec![step]);
        refused
    }

    fn minutes(lists: &mut RefusalLists, now: i64, since: Option<i64>) -> Vec<i64> {
        let since = since.map(|minute| Timestamp(minute * MINUTE));
        let (list, _) = lists.newest_first(Timestamp(now * MINUTE), since);
        list.iter().map(|refused| refused.at.0 / MINUTE).collect()
    }

    #[test]
    fn the_last_hour_is_listed_the_newest_first() {
        let mut lists = RefusalLists::default();
        for minute in [0, 30, 70] {
            lists.add(refused(minute, "bo", &format!("f{minute}")));
        }
        lists.add(cycle(50, "bo"));
        assert_eq!(minutes(&mut lists, 75, None), [70, 50, 30]);
        assert_eq!(minutes(&mut lists, 75, Some(60)), [70]);
    }

    #[test]
    fn the_list_is_bounded_and_says_how_many_are_missing() {
        let mut lists = RefusalLists::default();
        (0..LIST_MAX + 7).for_each(|n| lists.add(refused(1, "bo", &n.to_string())));
        let (list, dropped) = lists.newest_first(Timestamp(MINUTE), None);
        assert_eq!((list.len(), dropped), (LIST_MAX, 7));
        let long = "x".repeat(20_000);
        (0..LIST_MAX).for_each(|n| lists.add(refused(1, "bo", &format!("{long}{n}"))));
        let entries = &lists.refused;
        assert!(entries.bytes <= LIST_BYTES_MAX && entries.by_hash.len() == entries.by_time.len());
        assert_eq!(entries.bytes, entries.by_time.values().map(RefusedRequest::bytes).sum::<usize>());
    }

    #[test]
    fn a_session_that_tries_again_and_again_has_one_entry_with_a_count() {
        let mut lists = RefusalLists::default();
        lists.add(refused(1, "ana", "a"));
        (2..50).for_each(|minute| lists.add(refused(minute, "bo", "a")));
        let (list, dropped) = lists.newest_first(Timestamp(50 * MINUTE), None);
        let entry = |n: usize| (list[n].who.session.as_str(), list[n].count, list[n].first_at.0 / MINUTE);
        assert_eq!((entry(0), entry(1), list.len(), dropped), (("bo", 48, 2), ("ana", 1, 1), 2, 0));
    }

    #[test]
    fn refused_cycles_stay_while_another_session_is_noisy() {
        let mut lists = RefusalLists::default();
        lists.add(cycle(1, "ana"));
        (0..2 * LIST_MAX).for_each(|n| lists.add(refused(2, "bo", &n.to_string())));
        let (list, dropped) = lists.newest_first(Timestamp(3 * MINUTE), None);
        assert!(list.last().is_some_and(|oldest| !oldest.cycle.is_empty()));
        assert_eq!((list.len(), dropped), (LIST_MAX + 1, LIST_MAX as u64));
    }
}
