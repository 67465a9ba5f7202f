//! What is held, as far as the records tell: the part of the engine's state that the tree shows.
//!
//! A small fold of its own, because the ledger needs neither shelves nor queues nor deadlines. It can begin with a
//! journal's snapshot, with a tree the ledger wrote, or with nothing.

use std::collections::{BTreeMap, HashMap};

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shelf;
use crate::engine::{Event, Mode, Record, ReservationId, Seq, SessionId, Text, Timestamp, Ttl};
use crate::key::Key;

/// One reservation, as a line of its blob. What nobody knows any more is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// What is held.
    pub key: Key,
    /// By whom.
    pub session: SessionId,
    /// What they are called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Stamp>,
    /// Until when, had nobody renewed it: renewals are no records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Stamp>,
    /// The number of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Seq>,
    /// The reservation.
    pub id: ReservationId,
}

/// A moment, in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(pub Timestamp);

/// What is held, by shelf in the tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    shelves: BTreeMap<Vec<u8>, Vec<Holding>>,
    whereabouts: HashMap<ReservationId, Vec<u8>>,
    /// What sessions that are alive are called.
    names: HashMap<SessionId, Text>,
}

/// As much of a snapshot as is needed; see `engine::Image`.
#[derive(Deserialize)]
struct Snapshot {
    sessions: Vec<SnapshotSession>,
    reservations: Vec<SnapshotReservation>,
}

#[derive(Deserialize)]
struct SnapshotSession {
    id: SessionId,
    name: Option<Text>,
    end: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct SnapshotReservation {
    id: ReservationId,
    session: SessionId,
    key: Key,
    mode: Mode,
    ttl: Ttl,
    reason: Option<Text>,
    since: Timestamp,
    fence: Seq,
}

impl Live {
    /// What a journal's snapshot says.
    pub fn of_snapshot(state: &[u8]) -> serde_json::Result<Live> {
        let snapshot: Snapshot = serde_json::from_slice(state)?;
        let mut live = Live::default();
        for session in snapshot.sessions {
            if let (None, Some(name)) = (session.end, session.name) {
                live.names.insert(session.id, name);
            }
        }
        for held in snapshot.reservations {
            let SnapshotReservation { id, session, key, mode, ttl, reason, since, fence } = held;
            let name = live.names.get(&session).cloned();
            let until = Some(Stamp(since.after(ttl.duration())));
            let (mode, since, fence) = (Some(mode), Some(Stamp(since)), Some(fence));
            live.hold(Holding { key, session, name, mode, reason, since, until, fence, id });
        }
        Ok(live)
    }

    /// Follows one record, and notes in `touched` which shelves look different now.
    pub fn apply(&mut self, record: &Record, touched: &mut Vec<Vec<u8>>) {
        match &record.event {
            Event::Opened { session, name: Some(name), .. } => {
                self.names.insert(session.clone(), name.clone());
            }
            Event::Ended { session, .. } => {
                self.names.remove(session);
            }
            Event::Reserved { id, session, key, mode, ttl, reason } => {
                touched.push(self.hold(Holding {
                    key: key.clone(),
                    session: session.clone(),
                    name: self.names.get(session).cloned(),
                    mode: Some(*mode),
                    reason: reason.clone(),
                    since: Some(Stamp(record.at)),
                    until: Some(Stamp(record.at.after(ttl.duration()))),
                    fence: Some(record.seq),
                    id: *id,
                }));
            }
            Event::Amended { id, mode, ttl, reason, .. } => {
                let Some(shelf) = self.whereabouts.get(id) else { return };
                let holdings = self.shelves.get_mut(shelf).expect("what is somewhere is there");
                let held = holdings.iter_mut().find(|held| held.id == *id).expect("what is somewhere is there");
                held.mode = Some(*mode);
                held.reason = reason.clone();
                held.until = held.since.map(|since| Stamp(since.0.after(ttl.duration())));
                touched.push(shelf.clone());
            }
            Event::Released { id, .. } => touched.extend(self.let_go(*id)),
            _ => {}
        }
    }

    /// Adds one that is held.
    pub fn hold(&mut self, held: Holding) -> Vec<u8> {
        let shelf = shelf::of(&held.key);
        self.whereabouts.insert(held.id, shelf.clone());
        let holdings = self.shelves.entry(shelf.clone()).or_default();
        holdings.push(held);
        holdings.sort_by_key(|held| (held.fence, held.id));
        shelf
    }

    /// Takes one away.
    pub fn let_go(&mut self, id: ReservationId) -> Option<Vec<u8>> {
        let shelf = self.whereabouts.remove(&id)?;
        let holdings = self.shelves.get_mut(&shelf).expect("what is somewhere is there");
        holdings.retain(|held| held.id != id);
        if holdings.is_empty() {
            self.shelves.remove(&shelf);
        }
        Some(shelf)
    }

    /// Takes names over that are not known here.
    pub fn learn_names(&mut self, other: &Live) {
        for (session, name) in &other.names {
            self.names.entry(session.clone()).or_insert_with(|| name.clone());
        }
        for held in other.holdings() {
            if let Some(name) = &held.name {
                self.names.entry(held.session.clone()).or_insert_with(|| name.clone());
            }
        }
    }

    /// Says what a session is called.
    pub fn call(&mut self, session: &SessionId, name: Option<&Text>) {
        match name {
            Some(name) => self.names.insert(session.clone(), name.clone()),
            None => self.names.remove(session),
        };
    }

    /// What the session is called.
    pub fn name(&self, session: &SessionId) -> Option<&Text> {
        self.names.get(session)
    }

    /// Whether the same is held in both, whatever the holders are called.
    pub fn holds_the_same(&self, other: &Live) -> bool {
        let told = |held: &Holding| Holding { name: None, ..held.clone() };
        self.holdings().map(told).eq(other.holdings().map(told))
    }

    /// The blob at a shelf: a line for each holder. Nothing where nobody holds anything.
    pub fn blob(&self, shelf: &[u8]) -> Option<Vec<u8>> {
        self.shelves.get(shelf).map(|holdings| lines(holdings))
    }

    /// Every shelf where something is held.
    pub fn shelves(&self) -> impl Iterator<Item = &[u8]> {
        self.shelves.keys().map(|shelf| &**shelf)
    }

    /// Everything that is held.
    pub fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.shelves.values().flatten()
    }
}

/// One JSON document on each line.
pub fn lines<T: Serialize>(all: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for one in all {
        serde_json::to_writer(&mut bytes, one).expect("plain data, and memory takes every write");
        bytes.push(b'\n');
    }
    bytes
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = self.0.0.clamp(0, jiff::Timestamp::MAX.as_millisecond());
        let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
        serializer.collect_str(&format_args!("{moment:.3}"))
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        let moment: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Stamp(Timestamp(moment.as_millisecond())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Actor, Command, Engine, Intro, Owner, Policy, Reserve, Turn, Want};
    use crate::key::KeyRules;

    fn reserve(engine: &mut Engine, session: &str, keys: &[&str], mode: Mode, records: &mut Vec<Record>) {
        let id = SessionId::parse(session).unwrap();
        let intro = Intro { id: id.clone(), name: Some("Ana".into()), feature: None, owner: Owner::Itself };
        let want = |key: &&str| Want {
            id: ReservationId(uuid::Uuid::now_v7()),
            key: Key::parse(key, &KeyRules::default()).unwrap(),
            ttl: Ttl(60),
        };
        let ask = Reserve {
            session: id,
            wants: keys.iter().map(want).collect(),
            mode,
            reason: Some("because".into()),
            wait: None,
            if_version: None,
        };
        let mut turn = Turn::at(Timestamp(1_700_000_000_000));
        engine.execute(&mut turn, &Actor::Session(intro), Command::Reserve(ask)).unwrap();
        records.extend(turn.records);
    }

    #[test]
    fn a_snapshot_of_the_engine_reads_as_what_its_records_add_up_to() {
        let mut engine = Engine::new(Policy::default());
        let mut records = Vec::new();
        reserve(&mut engine, "ana", &["src/a.rs", "docs/", "db:slot"], Mode::Exclusive, &mut records);
        reserve(&mut engine, "bo", &["shared"], Mode::Shared, &mut records);
        reserve(&mut engine, "cy", &["shared"], Mode::Shared, &mut records);
        reserve(&mut engine, "bo", &["mine"], Mode::Exclusive, &mut records);
        let release = Command::ReleaseAll { session: SessionId::parse("bo").unwrap() };
        let mut turn = Turn::at(Timestamp(1_700_000_001_000));
        engine.execute(&mut turn, &Actor::Admin("ops".into()), release).unwrap();
        records.extend(turn.records);
        let mut live = Live::default();
        let mut touched = Vec::new();
        records.iter().for_each(|record| live.apply(record, &mut touched));
        let image = serde_json::to_vec(&engine.image()).unwrap();
        assert_eq!(live, Live::of_snapshot(&image).unwrap());
        assert_eq!(live.holdings().count(), 4);
        assert_eq!(live.name(&SessionId::parse("ana").unwrap()).unwrap().as_ref(), "Ana");

        let blob = String::from_utf8(live.blob(b"src/a.rs").unwrap()).unwrap();
        let id = live.shelves[b"src/a.rs".as_slice()][0].id;
        let expected = format!(
            r#"{{"key":"src/a.rs","session":"ana","name":"Ana","mode":"exclusive","reason":"because","since":"2023-11-14T22:13:20.000Z","until":"2023-11-14T22:14:20.000Z","fence":2,"id":"{id}"}}"#
        );
        assert_eq!(blob.trim_end(), expected);
        assert_eq!(serde_json::from_str::<Holding>(&blob).unwrap(), live.shelves[b"src/a.rs".as_slice()][0]);
    }
}
