//! The recorded state as one value: the content of a snapshot, and what tests compare after a replay.

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use super::command::UnlockRequest;
use super::held_list::Links;
use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, Ttl, WaiterId};
use super::index::Place;
use super::lapsed::LapsedKeys;
use super::listening::ListeningTime;
use super::over::OverSegment;
use super::record::{Content, EndState, Mode, Owner, Want, Why};
use super::slab::SessionSlot;
use super::state::{EarlierEnd, End, Engine, Policy, ReleasedKeys, Reservation, Session, Totals, Waiter};
use crate::key::Key;

/// See the module. Lists are in an order that depends on nothing but the records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    seq: Seq,
    pub(crate) sessions: Vec<SessionImage>,
    ended: Vec<SessionId>,
    /// Reservations that are over, although their releases are not recorded yet: which record ended those of a session.
    /// Missing in images before format 4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    over: Vec<(Seq, SessionId, Why)>,
    waiters: Vec<WaiterImage>,
    requests: Vec<UnlockRequest>,
    answered: Vec<uuid::Uuid>,
    /// Keys with their version and whether they were held before. Keys that are held for the first time are left out:
    /// their reservation says everything.
    versions: Vec<(Key, u64, bool)>,
    /// Idle keys, the longest idle first.
    resting: Vec<(Key, u64)>,
    version_floor: u64,
    /// Committed contents by session, the oldest first. Missing in images of format 1.
    #[serde(default)]
    committed: Vec<(SessionId, Content)>,
    /// Ports with their ranks. Without them, a port has the rank it was granted in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    port_ranks: Vec<(u16, u16)>,
    totals: Totals,
    /// The last field, so that a large image can be restored while they are still being read. Earlier versions wrote them
    /// before others.
    #[serde(default)]
    reservations: Vec<ReservationImage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionImage {
    pub(crate) id: SessionId,
    pub(crate) name: Option<Text>,
    feature: Option<Text>,
    owner: Option<Owner>,
    opened: Seq,
    started: Timestamp,
    pub(crate) end: Option<(EndState, Timestamp, Vec<Key>)>,
    lapsed: Vec<Key>,
    /// Missing in images of format 1, like the next field.
    #[serde(default, skip_serializing_if = "is_zero")]
    lapsed_dropped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    earlier_end: Option<EarlierEnd>,
    /// How many more keys its end released than `end` lists. Missing in images before format 4.
    #[serde(default, skip_serializing_if = "is_zero")]
    more_released: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A reservation of an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReservationImage {
    pub(crate) id: ReservationId,
    pub(crate) session: SessionId,
    pub(crate) key: Key,
    pub(crate) mode: Mode,
    pub(crate) ttl: Ttl,
    pub(crate) reason: Option<Text>,
    pub(crate) since: Timestamp,
    pub(crate) fence: Seq,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WaiterImage {
    seq: WaiterId,
    session: SessionId,
    wants: Vec<Want>,
    mode: Mode,
    reason: Option<Text>,
    if_version: Option<u64>,
    since: Timestamp,
}

impl Image {
    /// The image without its reservations, and these.
    pub fn split(mut self) -> (Image, Vec<ReservationImage>) {
        let reservations = std::mem::take(&mut self.reservations);
        (self, reservations)
    }
}

impl Engine {
    pub fn image(&self) -> Image {
        let mut sessions: Vec<_> = self.sessions.iter().map(|(_, session)| image_of_session(session)).collect();
        sessions.sort_by_key(|session| session.opened);
        let id = |slot: SessionSlot| self.sessions[slot].id.clone();
        let live = self.grants.iter().filter_map(|(fence, slot)| {
            let held = self.reservations.get(*slot).filter(|held| held.fence == *fence)?;
            Some(ReservationImage {
                id: held.id,
                session: id(held.session),
                key: held.key.clone(),
                mode: held.mode,
                ttl: held.ttl,
                reason: held.reason.clone(),
                since: held.since,
                fence: held.fence,
            })
        });
        let waiters = self.waiters.iter().map(|(number, waiter)| WaiterImage {
            seq: *number,
            session: id(waiter.session),
            wants: waiter.wants.clone(),
            mode: waiter.mode,
            reason: waiter.reason.clone(),
            if_version: waiter.if_version,
            since: waiter.since,
        });
        let mut requests: Vec<_> = self.requests.values().cloned().collect();
        requests.sort_by_key(|request| (request.at, request.id));
        let version = |place: &Place| (place.key.clone(), place.version, place.was_held);
        // Restoring the first reservation makes such a place again, with the same spelling.
        let is_new = |place: &Place| {
            let first = place.holders.iter().next().map(|slot| self.reservations[slot].key.spelling());
            !place.was_held && place.version == self.version_floor && first == Some(place.key.spelling())
        };
        let mut versions: Vec<_> = self.index.all().filter(|place| !is_new(place)).map(version).collect();
        versions.sort_by_cached_key(|(key, ..)| key.text());
        let resting = self.idle_places.iter().filter(|(place, since)| self.index.is_idle_since(*place, *since));
        let resting = resting.map(|(place, _)| self.index.place(*place));
        let resting = resting.map(|place| (place.key.clone(), place.version));
        let over = self.sweeps.iter().map(|(by, slot)| {
            let segment = self.sessions[*slot].segments.iter().find(|segment| segment.by == *by);
            (*by, id(*slot), segment.expect("every segment is listed").why.clone())
        });
        // Refusals have no records. Only the counts that were recorded are part of the recorded state.
        let totals = Totals {
            conflicts: self.totals.recorded_refusals.0,
            deadlocks: self.totals.recorded_refusals.1,
            ..self.totals.clone()
        };
        Image {
            seq: self.seq,
            sessions,
            ended: self.ended.values().map(|slot| id(*slot)).collect(),
            over: over.collect(),
            waiters: waiters.collect(),
            requests,
            answered: self.answered.iter().copied().collect(),
            versions,
            resting: resting.collect(),
            version_floor: self.version_floor,
            committed: self.committed.list(),
            port_ranks: self.port_ranks(),
            totals,
            reservations: live.collect(),
        }
    }

    /// An engine with this state. Deadlines start with [`Engine::resume`].
    pub fn restore(policy: Policy, image: Image) -> Engine {
        let (image, reservations) = image.split();
        let expected_count = reservations.len();
        Engine::restore_parts(policy, image, &mut reservations.into_iter(), expected_count)
    }

    /// The same with the parts of [`Image::split`]: the image without reservations, and these. Their number is an estimate.
    pub fn restore_parts(
        policy: Policy,
        image: Image,
        reservations: &mut dyn Iterator<Item = ReservationImage>,
        expected_count: usize,
    ) -> Engine {
        let mut engine = Engine::new(policy);
        engine.index.reserve(expected_count + image.versions.len());
        engine.reservations.reserve(expected_count);
        engine.seq = image.seq;
        engine.version_floor = image.version_floor;
        for session in image.sessions {
            engine.restore_session(session);
        }
        // Numbered anew: every end so far stays before every later one.
        for (seq, id) in (1..).map(Seq).zip(&image.ended) {
            let slot = engine.session_ids[id];
            engine.sessions[slot].end.as_mut().expect("it has ended").seq = seq;
            engine.ended.insert(seq, slot);
            engine.remember_ended_keys(seq, slot);
        }
        for (key, version, was_held) in image.versions {
            engine.index.restore(&engine.compared(&key), version, was_held);
        }
        for (key, _) in image.resting {
            if let Some(place) = engine.index.find(&engine.compared(&key)) {
                engine.index.set_idle(place, image.seq);
                engine.idle_places.push_back((place, image.seq));
            }
        }
        for (by, session, why) in image.over {
            let slot = engine.session_ids[&session];
            let session = &mut engine.sessions[slot];
            session.over_until = by;
            session.segments.push(OverSegment { by, why });
            engine.sweeps.insert((by, slot));
        }
        for held in reservations {
            let key = engine.compared(&held.key);
            let session = engine.session_ids[&held.session];
            let place = engine.index.find_or_insert(&key, engine.version_floor);
            let known = &engine.index.place(place).key;
            let reservation = Reservation {
                id: held.id,
                place,
                // Most keys are always spelled the same way. Then place and reservation share one copy.
                key: if known.spelling() == key.spelling() { known.clone() } else { key },
                reason: held.reason,
                since: held.since,
                fence: held.fence,
                session,
                links: Links::NONE,
                ttl: held.ttl,
                mode: held.mode,
                is_timed: false,
                expires: engine.listening(held.since),
                renewals: 0,
            };
            let held = engine.reservations.insert(reservation);
            engine.apply_reserved(held);
        }
        engine.restore_port_ranks(&image.port_ranks);
        for waiter in image.waiters {
            let session = engine.session_ids[&waiter.session];
            let fold = |want: Want| Want { key: engine.compared(&want.key), ..want };
            let WaiterImage { seq, wants, mode, reason, if_version, since, .. } = waiter;
            let wants = wants.into_iter().map(fold).collect();
            let (until, feature, blocked_at, places) = (ListeningTime::NEVER, None, Cell::new(0), Vec::new());
            engine.apply_queued(
                seq,
                Waiter { session, wants, places, mode, reason, if_version, since, until, feature, blocked_at },
            );
        }
        for request in image.requests {
            engine.restore_request(request);
        }
        for (session, content) in image.committed {
            engine.apply_committed(&session, std::slice::from_ref(&content));
        }
        engine.answered = image.answered.into();
        engine.answered_bytes = engine.answered.iter().map(|id| engine.requests[id].text_bytes()).sum();
        engine.totals = image.totals;
        engine.totals.recorded_refusals = (engine.totals.conflicts, engine.totals.deadlocks);
        engine
    }

    fn restore_session(&mut self, image: SessionImage) {
        let SessionImage { id, name, feature, owner, opened, started, end, .. } = image;
        let SessionImage { lapsed, lapsed_dropped, earlier_end, more_released, .. } = image;
        self.apply_opened(opened, started, &id, name, feature, owner);
        let slot = self.slot(&id);
        let fold_case = self.policy.fold_case;
        let lapsed = LapsedKeys::restore(lapsed.into_iter().map(|key| key.folded(fold_case)), lapsed_dropped);
        let session = &mut self.sessions[slot];
        (session.lapsed, session.earlier_end) = (lapsed, earlier_end);
        if let Some((state, at, released)) = end {
            drop(self.sessions[slot].lapsed.take_untold());
            let keys: Vec<Key> = released.iter().map(|key| self.compared(key)).collect();
            let released = ReleasedKeys { count: keys.len() as u64 + more_released, keys };
            self.sessions[slot].end = Some(End { seq: Seq::ZERO, state, at, released });
            self.alive -= 1;
            self.count_worker_session(slot, false);
        }
    }

    fn restore_request(&mut self, mut request: UnlockRequest) {
        request.key = self.compared(&request.key);
        if request.answer.is_none() {
            self.pending.entry(request.reservation).or_default().push(request.id);
            let holder = self.slot(&request.holder);
            self.sessions[holder].incoming.push(request.id);
            self.pending_bytes += request.text_bytes();
            if let Some(asker) = self.session_ids.get(&request.by) {
                self.sessions[*asker].outgoing.insert(request.id);
            }
        }
        self.requests.insert(request.id, request);
    }
}

fn image_of_session(session: &Session) -> SessionImage {
    SessionImage {
        id: session.id.clone(),
        name: session.name.clone(),
        feature: session.feature.clone(),
        owner: session.owner.clone(),
        opened: session.opened,
        started: session.started,
        end: session.end.as_ref().map(|end| (end.state, end.at, end.released.keys.clone())),
        more_released: session.end.as_ref().map_or(0, |end| end.released.count - end.released.keys.len() as u64),
        lapsed: session.lapsed.iter().cloned().collect(),
        lapsed_dropped: session.lapsed.forgotten(),
        earlier_end: session.earlier_end,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::engine::{Actor, Command, Outcome, Reserve, Turn};

    struct World {
        engine: Engine,
        ana: SessionId,
    }

    impl World {
        fn new() -> World {
            let (engine, ana) = (Engine::new(Policy::default()), SessionId::parse("ana").unwrap());
            let mut world = World { engine, ana: ana.clone() };
            world.ask(Command::Create { session: ana, name: None, feature: None, owner: None });
            world
        }

        fn ask(&mut self, command: Command) -> Outcome {
            self.engine.execute(&mut Turn::at(Timestamp(0)), &Actor::Admin("test".into()), command).unwrap()
        }

        fn reserve(&mut self, text: &str) {
            let want =
                Want { id: ReservationId(Uuid::nil()), key: Key::recall(text, false).unwrap(), ttl: Ttl::Plain(60) };
            let (session, wants, mode) = (self.ana.clone(), [want].into(), Mode::Exclusive);
            let ask = Reserve { session, wants, mode, reason: None, wait: None, if_version: None };
            assert!(matches!(self.ask(Command::Reserve(ask)), Outcome::Granted(_)), "{text}");
        }

        fn release(&mut self, text: &str) {
            let key = Key::recall(text, self.engine.policy.fold_case).unwrap();
            let (session, keys) = (self.ana.clone(), [key.into()].into());
            assert!(matches!(self.ask(Command::Release { session, keys }), Outcome::Released { .. }), "{text}");
        }
    }

    #[test]
    fn an_image_lists_only_keys_with_a_version() {
        let mut world = World::new();
        for text in ["new", "again", "over"] {
            world.reserve(text);
        }
        for text in ["again", "over"] {
            world.release(text);
        }
        world.reserve("again");
        assert_eq!(world.engine.weight(), 4, "three keys and a session");
        let image = world.engine.image();
        let listed: Vec<_> = image.versions.iter().map(|(key, version, held)| (key.text(), *version, *held)).collect();
        assert_eq!(listed, [("again".to_owned(), 1, true), ("over".to_owned(), 1, true)]);
        let mut restored = World { engine: Engine::restore(Policy::default(), image.clone()), ana: world.ana };
        assert_eq!(restored.engine.image(), image);
        restored.release("new");
        let versions: Vec<_> =
            restored.engine.image().versions.iter().map(|(key, version, _)| (key.text(), *version)).collect();
        assert!(versions.contains(&("new".to_owned(), 1)), "{versions:?}");
    }

    #[test]
    fn an_image_of_format_1_loads() {
        let mut world = World::new();
        world.reserve("a");
        let mut image = serde_json::to_value(world.engine.image()).unwrap();
        image.as_object_mut().unwrap().remove("committed").unwrap();
        let engine = Engine::restore(Policy::default(), serde_json::from_value(image).unwrap());
        assert_eq!(engine.image(), world.engine.image());
    }

    #[test]
    fn a_restored_key_has_its_first_spelling() {
        let policy = Policy { fold_case: true, ..Policy::default() };
        let mut world = World::new();
        world.engine = Engine::new(policy.clone());
        let [ana, bo] = ["ana", "bo"].map(|id| SessionId::parse(id).unwrap());
        for session in [&ana, &bo] {
            world.ask(Command::Create { session: session.clone(), name: None, feature: None, owner: None });
        }
        let want = |text: &str| {
            let key = Key::recall(text, true).unwrap();
            Want { id: ReservationId(Uuid::nil()), key, ttl: Ttl::Plain(60) }
        };
        let mut ask = |session: &SessionId, texts: &[&str], wait| {
            let (session, wants, mode) =
                (session.clone(), texts.iter().map(|text| want(text)).collect(), Mode::Exclusive);
            world.ask(Command::Reserve(Reserve { session, wants, mode, reason: None, wait, if_version: None }))
        };
        assert!(matches!(ask(&bo, &["x"], None), Outcome::Granted(_)));
        assert!(matches!(ask(&ana, &["A", "x"], Some(std::time::Duration::from_secs(9))), Outcome::Queued(_)));
        assert!(matches!(ask(&ana, &["a"], None), Outcome::Granted(_)));
        let engine = Engine::restore(policy, world.engine.image());
        let mut restored = World { engine, ana };
        // Now the image lists its version, and with it the spelling of the place.
        for world in [&mut world, &mut restored] {
            world.release("a");
        }
        // Compared as text: keys are equal in every spelling.
        let text = |world: &World| serde_json::to_string(&world.engine.image()).unwrap();
        assert_eq!(text(&restored), text(&world));
    }

    #[test]
    fn a_restored_key_is_in_memory_once() {
        let mut world = World::new();
        world.reserve("src/a.rs");
        world.release("src/a.rs");
        world.reserve("src/a.rs");
        let image = serde_json::from_slice(&serde_json::to_vec(&world.engine.image()).unwrap()).unwrap();
        let engine = Engine::restore(Policy::default(), image);
        let (_, held) = engine.reservations.iter().next().unwrap();
        assert!(std::ptr::eq(held.key.spelling(), engine.index.place(held.place).key.spelling()));
    }
}
