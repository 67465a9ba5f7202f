//! Contention: which requests were refused or had to wait, and for which keys.
//!
//! A refusal is no record, because it changes nothing. So the last hour of them is kept in a list ([`super::refusal_list`]),
//! and longer times as counts by key and by session. Both are bounded in numbers and in bytes. The desk only appends a short
//! note; the notes are counted by the thread that reads the result, or by the desk when there are many.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::contenders::{Contenders, SavedContender};
use super::feed::lock;
use super::refusal_list::{RefusalBlocker, RefusalKind, RefusalLists, RefusedRequest};
use crate::engine::{Conflict, CycleStep, HOLDERS_LISTED, LeftWhy, Refusal, SessionId, SessionName, Text, Timestamp};

/// What one refusal lists: of its own keys, and of the sessions in its way.
const LISTED_MAX: usize = 10;

/// The keys and sessions that are counted, and the bytes of the keys. The one with the fewest counts makes room.
const COUNTED_MAX: usize = 2_000;
const COUNTED_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Notes that wait to be counted. The desk counts them itself when there are more than this.
const NOTES_MAX: usize = 1_024;

/// About how many keys of one request are counted.
pub(super) const KEYS_OF_REQUEST_MAX: usize = 100;

/// Counts are kept for slots of ten minutes, and after two hours for slots of an hour.
const SLOT_MS: i64 = 600_000;
const SLOTS_OF_HOUR: i64 = 6;
const FINE_SLOTS: i64 = 12;

/// The longest time that counts are kept.
pub const COUNTED_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// A time up to now, divided into steps of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountWindow {
    /// The slot that it begins with.
    from: i64,
    slots_of_step: i64,
    steps: usize,
}

impl CountWindow {
    /// The last `steps` of this length. The last step is the current one, and has not ended yet.
    pub fn new(now: Timestamp, step: Duration, steps: usize) -> CountWindow {
        let slots_of_step = (i64::try_from(step.as_millis()).unwrap_or(i64::MAX) / SLOT_MS).max(1);
        // Older counts are merged by the hour, so longer steps begin with an hour.
        let grain = slots_of_step.min(SLOTS_OF_HOUR);
        let end = (now.0.div_euclid(SLOT_MS).div_euclid(grain) + 1) * grain;
        let length = slots_of_step.saturating_mul(i64::try_from(steps).unwrap_or(i64::MAX));
        CountWindow { from: end.saturating_sub(length), slots_of_step, steps }
    }

    /// When it begins.
    pub fn since(&self) -> Timestamp {
        Timestamp(self.from.saturating_mul(SLOT_MS))
    }

    /// The conflicts of each step, the oldest first.
    fn by_step(&self, slots: &[(i64, KeyCounts)]) -> Vec<u64> {
        let mut steps = vec![0; self.steps];
        for (slot, count) in slots.iter().filter(|(slot, _)| *slot >= self.from) {
            let step = usize::try_from((slot - self.from) / self.slots_of_step).unwrap_or(usize::MAX);
            // A clock that was set back leaves counts in the future; they belong to now.
            if let Some(sum) = steps.get_mut(step.min(self.steps.saturating_sub(1))) {
                *sum += count.conflicts;
            }
        }
        steps
    }
}

/// More about a key: its conflicts over time, and the sessions that compete for it.
#[derive(Debug, Default, PartialEq)]
pub struct KeyDetails {
    /// The conflicts of each step of the window, the oldest first.
    pub by_step: Vec<u64>,
    /// The sessions that asked for the key or blocked it, those with the most conflicts first.
    pub between: Vec<SessionName>,
}

/// What the counts of some time say.
#[derive(Debug, Default, PartialEq)]
pub struct ContentionReport {
    /// The keys with the most conflicts, the most first.
    pub keys: Vec<(String, KeyCounts)>,
    /// More about the first of them, in the same order.
    pub details: Vec<KeyDetails>,
    /// The sessions whose reservations expired most often, the most first.
    pub expired: Vec<(SessionId, Option<Text>, u64)>,
    pub total: KeyCounts,
}

/// How often a key was not free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCounts {
    /// Requests that found the key not free. Each counts once: it was refused, or it waited, also if it waited in vain.
    pub conflicts: u64,
    /// Those of them that waited, and for how long.
    pub waits: u64,
    pub waited_ms: u64,
}

impl KeyCounts {
    fn add(&mut self, other: KeyCounts) {
        self.conflicts += other.conflicts;
        self.waits += other.waits;
        self.waited_ms += other.waited_ms;
    }

    /// What decides the order.
    fn weight(self) -> u64 {
        self.conflicts
    }
}

/// Something that the desk saw.
enum Note {
    Refused { request: RefusedRequest, blockers: KeyBlockers },
    Waited { at: Timestamp, who: SessionName, keys: Vec<String>, blockers: KeyBlockers, time: Duration },
    Expired { at: Timestamp, who: SessionName },
}

/// The sessions that block a request, each with the index of the key that it blocks.
pub(super) type KeyBlockers = Vec<(usize, SessionName)>;

/// See the module.
#[derive(Default)]
pub struct Contention {
    notes: Mutex<Vec<Note>>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    lists: RefusalLists,
    keys: Table<String, KeyCounts>,
    /// Only of keys that are counted.
    contenders: Contenders,
    expired: Table<SessionId, ExpiredCount>,
    /// Something was counted since the counts were last saved.
    is_changed: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ExpiredCount {
    name: Option<Text>,
    count: u64,
}

/// The counts as they are saved.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SavedCounts {
    keys: Vec<(String, Vec<(i64, KeyCounts)>)>,
    contenders: Vec<(String, Vec<SavedContender>)>,
    expired: Vec<(String, Vec<(i64, ExpiredCount)>)>,
}

impl Contention {
    /// Notes a refusal, if it is one that another session caused.
    pub(super) fn note_refusal(&self, at: Timestamp, who: SessionName, refusal: &Refusal) {
        let (kind, cycle): (_, &[CycleStep]) = match refusal {
            Refusal::Locked(_) => (RefusalKind::Locked, &[]),
            Refusal::WaitOver { why: LeftWhy::TimedOut, .. } => (RefusalKind::TimedOut, &[]),
            Refusal::Deadlock(cycle) => (RefusalKind::Deadlock, cycle),
            Refusal::Paused(_) => (RefusalKind::Paused, &[]),
            _ => return,
        };
        let conflicts: &[Conflict] = match refusal {
            Refusal::Locked(conflicts) | Refusal::WaitOver { conflicts, .. } => conflicts,
            _ => &[],
        };
        let (mut keys, mut key_blockers): (Vec<String>, KeyBlockers) = (Vec::new(), Vec::new());
        for conflict in conflicts.iter().take(HOLDERS_LISTED * KEYS_OF_REQUEST_MAX) {
            let asked = conflict.asked.shown();
            if keys.last() != Some(&asked) {
                keys.push(asked);
            }
            key_blockers.push((keys.len() - 1, conflict.who.clone()));
        }
        if let Some(own) = cycle.iter().position(|step| step.session == who.session) {
            keys.push(cycle[own].wants.shown());
            let others = cycle.iter().filter(|step| step.session != who.session).take(LISTED_MAX);
            let nameless = |step: &CycleStep| SessionName { session: step.session.clone(), name: None };
            key_blockers.extend(others.map(|step| (keys.len() - 1, nameless(step))));
        }
        let blocker =
            |conflict: &Conflict| RefusalBlocker { who: conflict.who.clone(), key: Some(conflict.key.shown()) };
        let mut blockers: Vec<_> = conflicts.iter().take(LISTED_MAX).map(blocker).collect();
        if let Refusal::Paused(pause) = refusal {
            blockers.push(RefusalBlocker { who: pause.by.clone(), key: None });
        }
        let cycle = cycle.iter().take(LISTED_MAX).cloned().collect();
        let request = RefusedRequest { at, first_at: at, count: 1, who, kind, keys, blockers, cycle };
        self.note(Note::Refused { request, blockers: key_blockers });
    }

    /// Notes that a request waited, and what blocked its keys when the wait began.
    pub(super) fn note_wait(
        &self,
        at: Timestamp,
        who: SessionName,
        keys: Vec<String>,
        blockers: KeyBlockers,
        time: Duration,
    ) {
        self.note(Note::Waited { at, who, keys, blockers, time });
    }

    /// Notes that a reservation of the session expired.
    pub(super) fn note_expired(&self, at: Timestamp, who: SessionName) {
        self.note(Note::Expired { at, who });
    }

    fn note(&self, note: Note) {
        let mut notes = lock(&self.notes);
        notes.push(note);
        if notes.len() > NOTES_MAX {
            let notes = std::mem::take(&mut *notes);
            lock(&self.counts).take(notes);
        }
    }

    /// Refused requests since then, the newest first, and how many of the last hour are missing.
    pub fn refusals(&self, now: Timestamp, since: Option<Timestamp>) -> (Vec<RefusedRequest>, u64) {
        self.current().lists.newest_first(now, since)
    }

    /// The counts of a time: of the `most` keys and sessions with the highest ones, the first keys `in_detail`.
    pub fn report(&self, window: &CountWindow, most: usize, in_detail: usize) -> ContentionReport {
        let counts = self.current();
        let from = window.from;
        let mut report = ContentionReport::default();
        for (key, slots) in &counts.keys.rows {
            let mut sum = KeyCounts::default();
            recent(slots, from).for_each(|count| sum.add(*count));
            report.total.add(sum);
            if sum.weight() > 0 {
                report.keys.push((key.clone(), sum));
            }
        }
        for (session, slots) in &counts.expired.rows {
            let (mut sum, mut name) = (0, None);
            recent(slots, from).for_each(|slot| (sum, name) = (sum + slot.count, slot.name.clone()));
            if sum > 0 {
                report.expired.push((session.clone(), name, sum));
            }
        }
        report.keys.sort_by(|(a, x), (b, y)| y.weight().cmp(&x.weight()).then_with(|| a.cmp(b)));
        report.expired.sort_by(|(a, _, x), (b, _, y)| y.cmp(x).then_with(|| a.as_str().cmp(b.as_str())));
        report.keys.truncate(most);
        report.expired.truncate(most);
        let details = |(key, _): &(String, KeyCounts)| KeyDetails {
            by_step: window.by_step(&counts.keys.rows[key]),
            between: counts.contenders.since(key, from),
        };
        report.details = report.keys.iter().take(in_detail).map(details).collect();
        report
    }

    /// The counts as text for a file, if they changed since the last time.
    pub fn save(&self) -> Option<Vec<u8>> {
        let mut counts = self.current();
        if !std::mem::take(&mut counts.is_changed) {
            return None;
        }
        let keys = counts.keys.rows.iter().map(|(key, slots)| (key.clone(), slots.clone())).collect();
        let expired = counts.expired.rows.iter().map(|(id, slots)| (id.to_string(), slots.clone())).collect();
        let contenders = counts.contenders.save();
        Some(serde_json::to_vec(&SavedCounts { keys, contenders, expired }).expect("counts are plain data"))
    }

    /// Continues with counts that were saved. Text that is none is ignored: the counts then begin anew.
    pub fn restore(&self, text: &[u8]) {
        let Ok(saved) = serde_json::from_slice::<SavedCounts>(text) else { return };
        let mut counts = lock(&self.counts);
        for (key, slots) in saved.keys.into_iter().take(COUNTED_MAX) {
            counts.keys.bytes += key.len();
            counts.keys.rows.insert(key, slots);
        }
        for (id, slots) in saved.expired.into_iter().take(COUNTED_MAX) {
            if let Some(id) = SessionId::parse(&id) {
                counts.expired.bytes += id.as_str().len();
                counts.expired.rows.insert(id, slots);
            }
        }
        counts.contenders.restore(saved.contenders);
        counts.forget_contenders();
    }

    /// The counts with everything noted so far.
    fn current(&self) -> MutexGuard<'_, Counts> {
        let notes = std::mem::take(&mut *lock(&self.notes));
        let mut counts = lock(&self.counts);
        counts.take(notes);
        counts
    }
}

impl Counts {
    fn take(&mut self, notes: Vec<Note>) {
        self.is_changed |= !notes.is_empty();
        for note in notes {
            match note {
                Note::Refused { mut request, blockers } => {
                    // A request that timed out while waiting was counted as one that waited.
                    if request.kind != RefusalKind::TimedOut {
                        let count = KeyCounts { conflicts: 1, ..KeyCounts::default() };
                        self.count_conflicts(request.at, &request.who, &request.keys, &blockers, count);
                    }
                    request.keys.truncate(LISTED_MAX);
                    self.lists.add(request);
                }
                Note::Waited { at, who, keys, blockers, time } => {
                    let waited_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                    let count = KeyCounts { conflicts: 1, waits: 1, waited_ms };
                    self.count_conflicts(at, &who, &keys, &blockers, count);
                }
                Note::Expired { at, who } => self.expired.count(who.session, at, |sum| {
                    sum.count += 1;
                    sum.name = who.name.clone();
                }),
            }
        }
        self.forget_contenders();
    }

    /// Counts one request for each of its keys, and for the sessions that compete for them.
    fn count_conflicts(
        &mut self,
        at: Timestamp,
        who: &SessionName,
        keys: &[String],
        blockers: &[(usize, SessionName)],
        count: KeyCounts,
    ) {
        let slot = at.0.div_euclid(SLOT_MS);
        for key in keys {
            self.keys.count(key.clone(), at, |sum| sum.add(count));
            self.contenders.count(key, slot, who);
        }
        for (index, blocker) in blockers {
            self.contenders.count(&keys[*index], slot, blocker);
        }
    }

    /// Forgets the contenders of keys that made room for others.
    fn forget_contenders(&mut self) {
        if self.contenders.len() > self.keys.rows.len() {
            self.contenders.retain(|key| self.keys.rows.contains_key(key));
        }
    }
}

/// Counts by time, for a bounded number of names.
struct Table<K, C> {
    rows: HashMap<K, Vec<(i64, C)>>,
    /// The bytes of the names.
    bytes: usize,
}

impl<K, C> Default for Table<K, C> {
    fn default() -> Self {
        Self { rows: HashMap::new(), bytes: 0 }
    }
}

trait Name: std::hash::Hash + Eq + Clone {
    fn size(&self) -> usize;
}

impl Name for String {
    fn size(&self) -> usize {
        self.len()
    }
}

impl Name for SessionId {
    fn size(&self) -> usize {
        self.as_str().len()
    }
}

impl<K: Name, C: Default + Weighted> Table<K, C> {
    fn count(&mut self, name: K, at: Timestamp, add: impl FnOnce(&mut C)) {
        let slot = at.0.div_euclid(SLOT_MS);
        if !self.rows.contains_key(&name) {
            self.make_room(name.size());
            self.bytes += name.size();
        }
        let slots = self.rows.entry(name).or_default();
        match slots.last_mut() {
            Some((last, count)) if *last >= slot => return add(count),
            _ => {}
        }
        let oldest = slot - i64::try_from(COUNTED_TIME.as_millis()).unwrap_or(i64::MAX) / SLOT_MS;
        slots.retain(|(slot, _)| *slot > oldest);
        merge_hours(slots, slot - FINE_SLOTS);
        let mut count = C::default();
        add(&mut count);
        slots.push((slot, count));
    }

    /// Removes names with the lowest counts until one of this size fits.
    fn make_room(&mut self, size: usize) {
        if self.rows.len() < COUNTED_MAX && self.bytes + size <= COUNTED_BYTES_MAX {
            return;
        }
        let mut by_weight: Vec<(u64, K)> =
            self.rows.iter().map(|(name, slots)| (slots.iter().map(|(_, c)| c.weight()).sum(), name.clone())).collect();
        by_weight.sort_unstable_by_key(|(weight, _)| *weight);
        // A tenth at once, so that a flood of new names does not sort the table for each of them.
        let (many, mut freed) = (by_weight.len().div_ceil(10), 0);
        for (count, (_, name)) in by_weight.into_iter().enumerate() {
            if count >= many && freed >= size {
                return;
            }
            freed += name.size();
            self.bytes -= name.size();
            self.rows.remove(&name);
        }
    }
}

/// Counts that can be compared and merged.
trait Weighted {
    fn weight(&self) -> u64;
    fn merge(&mut self, other: Self);
}

impl Weighted for KeyCounts {
    fn weight(&self) -> u64 {
        KeyCounts::weight(*self)
    }

    fn merge(&mut self, other: Self) {
        self.add(other);
    }
}

impl Weighted for ExpiredCount {
    fn weight(&self) -> u64 {
        self.count
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.name = other.name.or(self.name.take());
    }
}

/// Merges the slots before `fine` that are in the same hour.
fn merge_hours<C: Weighted>(slots: &mut Vec<(i64, C)>, fine: i64) {
    let mut merged: Vec<(i64, C)> = Vec::with_capacity(slots.len() + 1);
    for (slot, count) in slots.drain(..) {
        match merged.last_mut() {
            Some((last, sum)) if slot < fine && last.div_euclid(SLOTS_OF_HOUR) == slot.div_euclid(SLOTS_OF_HOUR) => {
                sum.merge(count);
                // A merged slot counts as its newest part.
                *last = slot;
            }
            _ => merged.push((slot, count)),
        }
    }
    *slots = merged;
}

fn recent<C>(slots: &[(i64, C)], from: i64) -> impl Iterator<Item = &C> {
    slots.iter().filter(move |(slot, _)| *slot >= from).map(|(_, count)| count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn who(id: &str) -> SessionName {
        SessionName { session: SessionId::parse(id).unwrap(), name: None }
    }

    fn refused(minute: i64, text: &str) -> RefusedRequest {
        let at = Timestamp(minute * MINUTE);
        let (who, kind, keys) = (who("bo"), RefusalKind::Locked, vec![text.to_owned()]);
        RefusedRequest { at, first_at: at, count: 1, who, kind, keys, blockers: Vec::new(), cycle: Vec::new() }
    }

    fn refuse(contention: &Contention, minute: i64, text: &str) {
        contention.note(Note::Refused { request: refused(minute, text), blockers: vec![(0, who("ana"))] });
    }

    /// The time from this minute until a minute much later.
    fn since(minute: i64) -> CountWindow {
        let slots = (20 * 24 * 60 * MINUTE / SLOT_MS) as usize;
        CountWindow { from: minute.div_euclid(10), slots_of_step: 1, steps: slots }
    }

    fn conflicts(contention: &Contention, since_minute: i64) -> Vec<(String, u64)> {
        let report = contention.report(&since(since_minute), 10, 0);
        report.keys.into_iter().map(|(key, counts)| (key, counts.conflicts)).collect()
    }

    #[test]
    fn a_request_that_waited_in_vain_is_one_conflict() {
        let contention = Contention::default();
        let at = Timestamp(MINUTE);
        contention.note_wait(at, who("bo"), vec!["a".to_owned()], Vec::new(), Duration::from_secs(4));
        let mut request = refused(1, "a");
        request.kind = RefusalKind::TimedOut;
        contention.note(Note::Refused { request, blockers: vec![(0, who("ana"))] });
        let report = contention.report(&since(0), 10, 0);
        assert_eq!(report.total, KeyCounts { conflicts: 1, waits: 1, waited_ms: 4_000 });
        assert_eq!(report.keys, [("a".to_owned(), report.total)]);
        assert_eq!(contention.refusals(at, None).0.len(), 1, "it is still listed");
    }

    #[test]
    fn counts_are_kept_by_time_and_survive_a_restart() {
        let contention = Contention::default();
        let day = 24 * 60;
        for minute in [0, 5, 3 * day, 3 * day + 20, 3 * day + 40] {
            refuse(&contention, minute, "a");
        }
        refuse(&contention, 3 * day + 45, "b");
        let (at, keys) = (Timestamp((3 * day + 45) * MINUTE), vec!["b".to_owned()]);
        contention.note_wait(at, who("cy"), keys, vec![(0, who("ana"))], Duration::from_secs(4));
        let restored = Contention::default();
        restored.restore(&contention.save().unwrap());
        assert_eq!(contention.save(), None, "nothing changed since");
        for contention in [contention, restored] {
            assert_eq!(conflicts(&contention, 0), [("a".to_owned(), 5), ("b".to_owned(), 2)]);
            assert_eq!(conflicts(&contention, 3 * day + 30), [("b".to_owned(), 2), ("a".to_owned(), 1)]);
            let report = contention.report(&since(0), 1, 1);
            assert_eq!((report.keys.len(), report.total.conflicts), (1, 7));
            assert_eq!(report.details[0].by_step.iter().sum::<u64>(), 5);
            assert_eq!(report.details[0].between, [who("ana"), who("bo")]);
            let lately = contention.report(&since(3 * day), 10, 10);
            let between: Vec<_> = lately.details.iter().map(|details| details.between.clone()).collect();
            assert_eq!(between, [vec![who("ana"), who("bo")], vec![who("ana"), who("bo"), who("cy")]]);
            assert_eq!((report.total.waits, report.total.waited_ms), (1, 4_000));
            // A week later only the new one counts.
            refuse(&contention, 11 * day, "a");
            assert_eq!(contention.current().keys.rows["a"].len(), 1);
        }
        Contention::default().restore(b"{not json");
    }

    #[test]
    fn a_flood_of_names_removes_those_with_the_lowest_counts() {
        let contention = Contention::default();
        (0..3).for_each(|_| refuse(&contention, 1, "hot"));
        (0..3 * COUNTED_MAX).for_each(|n| refuse(&contention, 1, &format!("cold{n}")));
        let counts = contention.current();
        assert!(counts.keys.rows.len() <= COUNTED_MAX && counts.keys.rows.contains_key("hot"));
        assert_eq!(counts.keys.bytes, counts.keys.rows.keys().map(String::len).sum::<usize>());
        assert_eq!(counts.contenders.len(), counts.keys.rows.len());
    }

    #[test]
    fn conflicts_are_counted_by_step() {
        let contention = Contention::default();
        let hour = 60;
        // At 02:00, 02:59, 25:00 and 25:59 since the beginning of a day; the last one is now.
        for minute in [2 * hour, 2 * hour + 59, 25 * hour, 25 * hour + 59] {
            refuse(&contention, minute, "a");
        }
        let now = Timestamp((25 * hour + 59) * MINUTE);
        let by_step = |step_minutes: u64, steps: usize| {
            let window = CountWindow::new(now, Duration::from_secs(step_minutes * 60), steps);
            let report = contention.report(&window, 10, 10);
            (window.since().0 / MINUTE, report.details.into_iter().next().unwrap().by_step)
        };
        assert_eq!(by_step(10, 7), (25 * hour - 10, vec![0, 1, 0, 0, 0, 0, 1]));
        let (since, day) = by_step(60, 25);
        assert_eq!((since, day[1], day[24], day.iter().sum::<u64>()), (hour, 2, 2, 4));
        let (since, week) = by_step(24 * 60, 7);
        assert_eq!((since, week), ((26 - 7 * 24) * hour, vec![0, 0, 0, 0, 0, 0, 4]));
    }

    #[test]
    fn expired_reservations_count_for_their_session() {
        let contention = Contention::default();
        for id in ["ana", "bo", "bo"] {
            contention.note_expired(Timestamp(MINUTE), who(id));
        }
        let expired = contention.report(&since(0), 10, 0).expired;
        assert_eq!(expired.iter().map(|(id, _, n)| (id.as_str(), *n)).collect::<Vec<_>>(), [("bo", 2), ("ana", 1)]);
    }
}
