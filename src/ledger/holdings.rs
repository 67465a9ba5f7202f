//! What is held according to the records: the part of the engine's state that the ledger's tree shows.
//!
//! Separate from the engine, because the ledger needs no queues and no deadlines, and must also start from a tree it
//! wrote. [`Holdings`] starts from a journal's snapshot, from such a tree, or empty.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use super::tree_path;
use crate::engine::{Event, Image, Mode, Record, ReservationId, ReservationImage, Seq, SessionId, Text, Timestamp};
use crate::journal::Replay;
use crate::key::Key;

/// One reservation, which is one line of a blob. Unknown fields are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    pub key: Key,
    pub session: SessionId,
    /// The session's display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Stamp>,
    /// When it expires without renewal. Renewals are not recorded, so it may last longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Stamp>,
    /// The number of the record that granted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Seq>,
    pub id: ReservationId,
}

/// A time that is written in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(pub Timestamp);

/// A path in the tree. Most are written like their key, and share its memory.
#[derive(Debug, Clone)]
enum HeldPath {
    OfKey(Key),
    Other(Arc<[u8]>),
}

impl HeldPath {
    fn of(key: &Key) -> HeldPath {
        let path = tree_path::of(key);
        if path == key.spelling() { HeldPath::OfKey(key.clone()) } else { HeldPath::Other(path.into()) }
    }

    fn to_vec(&self) -> Vec<u8> {
        Borrow::<[u8]>::borrow(self).to_vec()
    }
}

impl Borrow<[u8]> for HeldPath {
    fn borrow(&self) -> &[u8] {
        match self {
            HeldPath::OfKey(key) => key.spelling(),
            HeldPath::Other(path) => path,
        }
    }
}

impl Ord for HeldPath {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let (one, other): (&[u8], &[u8]) = (self.borrow(), other.borrow());
        one.cmp(other)
    }
}

impl PartialOrd for HeldPath {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for HeldPath {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for HeldPath {}

/// All that is held, by path in the tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Holdings {
    by_path: BTreeMap<HeldPath, SmallVec<[Holding; 1]>>,
    /// Where each reservation is in `by_path`.
    paths: HashMap<ReservationId, HeldPath>,
    /// The display names of live sessions.
    names: HashMap<SessionId, Text>,
}

impl Holdings {
    /// What is held in a journal's snapshot.
    pub fn of_image(image: Image, reservations: &mut dyn Iterator<Item = ReservationImage>) -> Holdings {
        let mut holdings = Holdings::default();
        for session in image.sessions {
            if let (None, Some(name)) = (session.end, session.name) {
                holdings.names.insert(session.id, name);
            }
        }
        for held in reservations {
            holdings.insert(Holding {
                name: holdings.names.get(&held.session).cloned(),
                key: held.key,
                session: held.session,
                mode: Some(held.mode),
                reason: held.reason,
                since: Some(Stamp(held.since)),
                until: Some(Stamp(held.since.after(held.ttl.duration()))),
                fence: Some(held.fence),
                id: held.id,
            });
        }
        holdings
    }

    /// Adds the next record. Returns the path whose blob it changes, if any.
    pub fn apply(&mut self, record: &Record) -> Option<Vec<u8>> {
        match &record.event {
            Event::Opened { session, name: Some(name), .. } | Event::Reopened { session, name: Some(name), .. } => {
                self.names.insert(session.clone(), name.clone());
                None
            }
            Event::Ended { session, .. } => {
                self.names.remove(session);
                None
            }
            Event::Reserved { id, session, key, mode, ttl, reason } => {
                let holding = Holding {
                    key: key.clone(),
                    session: session.clone(),
                    name: self.names.get(session).cloned(),
                    mode: Some(*mode),
                    reason: reason.clone(),
                    since: Some(Stamp(record.at)),
                    until: Some(Stamp(record.at.after(ttl.duration()))),
                    fence: Some(record.seq),
                    id: *id,
                };
                Some(self.insert(holding))
            }
            Event::Amended { id, mode, ttl, reason, .. } => {
                let path = self.paths.get(id)?;
                let at_path = self.by_path.get_mut(path).expect("paths and by_path agree");
                let held = at_path.iter_mut().find(|held| held.id == *id).expect("paths and by_path agree");
                held.mode = Some(*mode);
                held.reason = reason.clone();
                held.until = held.since.map(|since| Stamp(since.0.after(ttl.duration())));
                Some(path.to_vec())
            }
            Event::Released { id, .. } => self.remove(*id),
            _ => None,
        }
    }

    /// Adds a reservation. Returns its path in the tree.
    pub fn insert(&mut self, held: Holding) -> Vec<u8> {
        let path = HeldPath::of(&held.key);
        let bytes = path.to_vec();
        self.paths.insert(held.id, path.clone());
        let at_path = self.by_path.entry(path).or_default();
        at_path.push(held);
        at_path.sort_by_key(|held| (held.fence, held.id));
        bytes
    }

    /// Removes a reservation. Returns its path in the tree, if there was one.
    pub fn remove(&mut self, id: ReservationId) -> Option<Vec<u8>> {
        let path = self.paths.remove(&id)?;
        let at_path = self.by_path.get_mut(&path).expect("paths and by_path agree");
        at_path.retain(|held| held.id != id);
        if at_path.is_empty() {
            self.by_path.remove(&path);
        }
        Some(path.to_vec())
    }

    /// Copies the session names that are unknown here.
    pub fn add_names(&mut self, other: &Holdings) {
        for (session, name) in &other.names {
            self.names.entry(session.clone()).or_insert_with(|| name.clone());
        }
        for held in other.iter() {
            if let Some(name) = &held.name {
                self.names.entry(held.session.clone()).or_insert_with(|| name.clone());
            }
        }
    }

    pub fn set_name(&mut self, session: &SessionId, name: Option<&Text>) {
        match name {
            Some(name) => self.names.insert(session.clone(), name.clone()),
            None => self.names.remove(session),
        };
    }

    pub fn name(&self, session: &SessionId) -> Option<&Text> {
        self.names.get(session)
    }

    /// The display name of the session that has this reservation.
    pub fn holder_name(&self, id: ReservationId) -> Option<&Text> {
        let at_path = self.by_path.get(self.paths.get(&id)?)?;
        at_path.iter().find(|held| held.id == id)?.name.as_ref()
    }

    /// Whether both have the same reservations, apart from the names of their holders.
    pub fn equals_apart_from_names(&self, other: &Holdings) -> bool {
        let nameless = |held: &Holding| Holding { name: None, ..held.clone() };
        self.iter().map(nameless).eq(other.iter().map(nameless))
    }

    /// The blob at a path: a line for each reservation. None if nothing is held there.
    pub fn blob(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.by_path.get(path).map(|at_path| lines(at_path))
    }

    /// Every path in the tree where something is held.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.by_path.keys().map(Borrow::borrow)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Holding> {
        self.by_path.values().flatten()
    }
}

impl Replay for Holdings {
    fn restore(
        &mut self,
        image: Image,
        reservations: &mut dyn Iterator<Item = ReservationImage>,
        _expected_count: usize,
    ) {
        *self = Holdings::of_image(image, reservations);
    }

    fn apply(&mut self, record: &Record) {
        Holdings::apply(self, record);
    }
}

/// One JSON document per line.
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
    use crate::engine::{Actor, Command, Engine, Owner, Policy, Reserve, SessionIdentity, Ttl, Turn, Want};
    use crate::key::KeyRules;

    fn reserve(engine: &mut Engine, session: &str, keys: &[&str], mode: Mode, records: &mut Vec<Record>) {
        let id = SessionId::parse(session).unwrap();
        let intro = SessionIdentity {
            id: id.clone(),
            name: Some("Ana".into()),
            feature: None,
            owner: Owner::Itself,
            issued: None,
            hears_notices: true,
        };
        let want = |key: &&str| Want {
            id: ReservationId(uuid::Uuid::now_v7()),
            key: Key::parse(key, &KeyRules::default()).unwrap(),
            ttl: Ttl::Plain(60),
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
    fn an_image_of_the_engine_has_the_same_holdings_as_its_records() {
        let mut engine = Engine::new(Policy::default());
        let mut records = Vec::new();
        reserve(&mut engine, "ana", &["src/a.rs", "docs/", "db:schema:slot"], Mode::Exclusive, &mut records);
        reserve(&mut engine, "bo", &["shared"], Mode::Shared, &mut records);
        reserve(&mut engine, "cy", &["shared"], Mode::Shared, &mut records);
        reserve(&mut engine, "bo", &["mine"], Mode::Exclusive, &mut records);
        let release = Command::ReleaseAll { session: SessionId::parse("bo").unwrap() };
        let mut turn = Turn::at(Timestamp(1_700_000_001_000));
        engine.execute(&mut turn, &Actor::Admin("ops".into()), release).unwrap();
        records.extend(turn.records);
        let mut holdings = Holdings::default();
        for record in &records {
            holdings.apply(record);
        }
        let (image, reservations) = engine.image().split();
        assert_eq!(holdings, Holdings::of_image(image, &mut reservations.into_iter()));
        assert_eq!(holdings.iter().count(), 4);
        assert_eq!(holdings.name(&SessionId::parse("ana").unwrap()).unwrap().as_ref(), "Ana");

        let blob = String::from_utf8(holdings.blob(b"src/a.rs").unwrap()).unwrap();
        let id = holdings.by_path[b"src/a.rs".as_slice()][0].id;
        let expected = format!(
            r#"{{"key":"src/a.rs","session":"ana","name":"Ana","mode":"exclusive","reason":"because","since":"2023-11-14T22:13:20.000Z","until":"2023-11-14T22:14:20.000Z","fence":2,"id":"{id}"}}"#
        );
        assert_eq!(blob.trim_end(), expected);
        assert_eq!(serde_json::from_str::<Holding>(&blob).unwrap(), holdings.by_path[b"src/a.rs".as_slice()][0]);
    }
}
