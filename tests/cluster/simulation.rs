//! Leaders that believe in themselves, on a simulated etcd that loses, delays and repeats what it is asked.
//!
//! The journal and the engine are the real ones; only etcd is played, by [`Played`]. Several nodes believe to lead at once,
//! takeovers happen at any moment, also between two attempts of one append, and answers get lost before or after the work.
//! After each answer the world checks it against all answers before. A failure prints its seed; `DIBS_CLUSTER_SEEDS` runs
//! more of them. Three mistakes are planted, to show that they would be found.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use git_dibs::engine::{
    Actor, Command, Engine, Event, Image, Mode, Outcome, Owner, Policy, Record, ReservationId, ReservationImage,
    Reserve, Seq, SessionId, SessionIdentity, Timestamp, Ttl, Turn, Want,
};
use git_dibs::etcd::messages::{
    Compare, Expected, KeyValue, Operation, OperationResult, RangeRequest, RangeResponse, RequestOp, ResponseHeader,
    ResponseOp, SortOrder, TxnRequest, TxnResponse,
};
use git_dibs::etcd::{EtcdError, KeyValueStore, create_is, delete, get, put, value_is};
use git_dibs::journal::{
    EtcdJournal, EtcdKeys, Journal, JournalError, JournalReader, Leadership, LoadCallback, Replay, replay,
};
use git_dibs::key::{Key, KeyRules};
use uuid::Uuid;

use crate::dice::{Dice, number_from_env};

/// Worlds in the short form.
const SEEDS: u64 = 2_000;

/// Within this many worlds a planted mistake must be found.
const SEEDS_TO_FIND: u64 = 1_000;

const STEPS: usize = 60;
const NODES: u64 = 3;
const SESSIONS: u64 = 3;
const FILES: u64 = 2;

/// What is wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// After an unclear answer the head is read, and the records are appended after it.
    CarelessRetry,
    /// Transactions do not compare who leads.
    NoEpoch,
    /// A leader believes that its lease is valid, and never asks etcd who leads.
    NoLeaseCheck,
}

#[test]
fn nothing_is_lost_doubled_or_said_wrongly_whatever_etcd_does() {
    for seed in 0..number_from_env("DIBS_CLUSTER_SEEDS", SEEDS) {
        if let Err(wrong) = World::new(seed, Mistake::None).run() {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn a_careless_retry_would_be_found() {
    assert!(is_found(Mistake::CarelessRetry), "not in {SEEDS_TO_FIND} seeds");
}

#[test]
fn a_missing_comparison_of_the_epoch_would_be_found() {
    assert!(is_found(Mistake::NoEpoch), "not in {SEEDS_TO_FIND} seeds");
}

#[test]
fn a_missing_check_of_the_lease_would_be_found_in_answers_and_loses_nothing() {
    let mut wrong_answers = 0;
    for seed in 0..SEEDS_TO_FIND {
        match World::new(seed, Mistake::NoLeaseCheck).run() {
            Ok(()) => {}
            // The transactions alone keep what is written safe.
            Err(Wrong::Answer(_)) => wrong_answers += 1,
            Err(Wrong::Journal(sentence)) => panic!("seed {seed}: {sentence}"),
        }
    }
    assert!(wrong_answers > 0, "not in {SEEDS_TO_FIND} seeds");
}

/// A check of the world finds it, or an assertion of the engine or the journal. Nothing else may be wrong in that world.
fn is_found(mistake: Mistake) -> bool {
    let fails = |seed: u64, mistake: Mistake| {
        let run = std::panic::AssertUnwindSafe(|| World::new(seed, mistake).run());
        !matches!(std::panic::catch_unwind(run), Ok(Ok(())))
    };
    let found = (0..SEEDS_TO_FIND).find(|seed| fails(*seed, mistake));
    found.is_some_and(|seed| !fails(seed, Mistake::None))
}

// ---- etcd ----

#[derive(Default)]
struct Tables {
    keys: BTreeMap<Vec<u8>, KeyValue>,
    revision: i64,
    /// Transactions that arrive later than their senders wait.
    late: Vec<TxnRequest>,
}

/// What a world finds wrong.
#[derive(Debug)]
enum Wrong {
    /// An answer without a record, which tells of the past.
    Answer(String),
    /// What was granted, and what is in the journal.
    Journal(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Wrong::Answer(sentence) | Wrong::Journal(sentence)) = self;
        f.write_str(sentence)
    }
}

/// For sentences about the journal.
impl From<String> for Wrong {
    fn from(sentence: String) -> Wrong {
        Wrong::Journal(sentence)
    }
}

/// An etcd with failures.
struct Played {
    tables: Mutex<Tables>,
    dice: Mutex<Dice>,
    mistake: Mistake,
    /// Failures happen only while this is true.
    fails: Mutex<bool>,
    leader: String,
}

impl Played {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap()
    }

    fn roll(&self, sides: u64) -> u64 {
        self.dice.lock().unwrap().below(sides)
    }

    fn fails(&self) -> bool {
        *self.fails.lock().unwrap()
    }

    fn apply(&self, request: &TxnRequest) -> TxnResponse {
        let mut tables = self.tables();
        let holds = |compare: &Compare| {
            if self.mistake == Mistake::NoEpoch && compare.key == self.leader.as_bytes() {
                return true;
            }
            let found = tables.keys.get(&compare.key);
            match compare.expected.as_ref().unwrap() {
                Expected::Version(0) => found.is_none(),
                Expected::Version(version) => found.is_some_and(|found| found.version == *version),
                Expected::CreateRevision(revision) => found.map_or(0, |found| found.create_revision) == *revision,
                Expected::ModRevision(revision) => found.map_or(0, |found| found.mod_revision) == *revision,
                Expected::Value(value) => found.is_some_and(|found| found.value == *value),
            }
        };
        let succeeded = request.compare.iter().all(holds);
        let operations = if succeeded { &request.success } else { &request.failure };
        if operations.iter().any(|one| !matches!(one.operation, Some(Operation::Range(_)))) {
            tables.revision += 1;
        }
        let responses = operations.iter().map(|one| tables.operate(one)).collect();
        TxnResponse { header: Some(tables.header()), succeeded, responses }
    }

    /// Some of what is late arrives.
    fn let_late_ones_arrive(&self, all: bool) {
        loop {
            let next = {
                let mut tables = self.tables();
                let count = tables.late.len() as u64;
                if count == 0 || (!all && self.roll(3) > 0) {
                    return;
                }
                let which = self.roll(count) as usize;
                tables.late.swap_remove(which)
            };
            self.apply(&next);
        }
    }

    fn leads(&self, epoch: i64) -> bool {
        self.tables().keys.get(self.leader.as_bytes()).is_some_and(|leader| leader.create_revision == epoch)
    }

    /// Another node becomes the leader. Returns its epoch.
    fn elect(&self) -> i64 {
        self.apply(&TxnRequest { success: vec![delete(&self.leader, b"")], ..TxnRequest::default() });
        let put = TxnRequest { success: vec![put(&self.leader, b"x")], ..TxnRequest::default() };
        self.apply(&put).header.unwrap().revision
    }
}

impl Tables {
    fn header(&self) -> ResponseHeader {
        ResponseHeader { revision: self.revision, ..ResponseHeader::default() }
    }

    fn operate(&mut self, operation: &RequestOp) -> ResponseOp {
        let result = match operation.operation.as_ref().unwrap() {
            Operation::Range(request) => OperationResult::Range(self.range(request)),
            Operation::Put(request) => {
                let revision = self.revision;
                let new = KeyValue { key: request.key.clone(), create_revision: revision, ..KeyValue::default() };
                let kept = self.keys.entry(request.key.clone()).or_insert(new);
                kept.value = request.value.clone();
                kept.mod_revision = revision;
                kept.version += 1;
                OperationResult::Put(Default::default())
            }
            Operation::Delete(request) => {
                let (key, end) = (&request.key, &request.range_end);
                self.keys.retain(|name, _| if end.is_empty() { name != key } else { name < key || name >= end });
                OperationResult::Delete(Default::default())
            }
        };
        ResponseOp { result: Some(result) }
    }

    fn range(&self, request: &RangeRequest) -> RangeResponse {
        let (key, end) = (&request.key, &request.range_end);
        let is_in = |name: &Vec<u8>| if end.is_empty() { name == key } else { name >= key && name < end };
        let mut kvs: Vec<KeyValue> = self.keys.values().filter(|found| is_in(&found.key)).cloned().collect();
        if request.sort_order == i32::from(SortOrder::Descend) {
            kvs.reverse();
        }
        let count = kvs.len();
        let limit = if request.limit == 0 { count } else { request.limit as usize };
        kvs.truncate(limit);
        if request.keys_only {
            kvs.iter_mut().for_each(|found| found.value.clear());
        }
        RangeResponse { header: Some(self.header()), more: count > limit, count: count as i64, kvs }
    }
}

impl KeyValueStore for Played {
    fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        if self.fails() && self.roll(12) == 0 {
            return Err(EtcdError::Unclear("played".to_owned()));
        }
        Ok(self.tables().range(&request))
    }

    fn txn(&self, request: TxnRequest) -> Result<TxnResponse, EtcdError> {
        let unclear = || Err(EtcdError::Unclear("played".to_owned()));
        if !self.fails() {
            return Ok(self.apply(&request));
        }
        self.let_late_ones_arrive(false);
        match self.roll(10) {
            // Lost on the way there.
            0 => unclear(),
            // Lost on the way back.
            1 => {
                self.apply(&request);
                unclear()
            }
            // It arrives when its sender waits no more.
            2 => {
                self.tables().late.push(request);
                unclear()
            }
            // It arrives twice.
            3 => {
                let answer = self.apply(&request);
                self.apply(&request);
                Ok(answer)
            }
            _ => Ok(self.apply(&request)),
        }
    }

    fn compact(&self, _: i64) -> Result<(), EtcdError> {
        Ok(())
    }

    /// Between two attempts anything may happen.
    fn pause(&self, _: u32) {
        self.let_late_ones_arrive(false);
        if self.fails() && self.roll(6) == 0 {
            self.elect();
        }
    }
}

/// The lease of one leader. Where it is valid by its clock, no other node was elected; it may also have run out too early, and
/// then etcd is asked. A node gives up after some attempts.
struct PlayedLease {
    etcd: Arc<Played>,
    epoch: i64,
}

impl Leadership for PlayedLease {
    fn is_certain(&self) -> bool {
        if self.etcd.mistake == Mistake::NoLeaseCheck {
            return true;
        }
        self.etcd.fails() && self.etcd.roll(2) > 0 && self.etcd.leads(self.epoch)
    }

    fn is_possible(&self) -> bool {
        !self.etcd.fails() || self.etcd.roll(8) > 0
    }
}

// ---- nodes ----

/// A node that believes to lead.
struct Node {
    engine: Engine,
    journal: Box<dyn Journal>,
}

/// Rebuilds an engine.
struct Rebuilt(Engine);

impl Replay for Rebuilt {
    fn restore(&mut self, image: Image, reservations: &mut dyn Iterator<Item = ReservationImage>, about: usize) {
        self.0 = Engine::restore_parts(self.0.policy().clone(), image, reservations, about);
    }

    fn apply(&mut self, record: &Record) {
        self.0.apply(record);
    }
}

/// The outcome of a command, and whether it needed a record.
type Decided = (Result<Outcome, ()>, bool);

struct World {
    etcd: Arc<Played>,
    keys: EtcdKeys,
    mistake: Mistake,
    dice: Dice,
    nodes: BTreeMap<u64, Node>,
    now: i64,
    made: u128,
    /// What a session was told to hold and has not asked to release: the file, with the reservation and its fence.
    told: HashMap<u64, (u64, ReservationId, Seq)>,
    /// Reservations that were definitely not made.
    refused: HashSet<ReservationId>,
    highest: Seq,
}

impl World {
    fn new(seed: u64, mistake: Mistake) -> World {
        let leader = "leader".to_owned();
        let etcd = Arc::new(Played {
            tables: Mutex::default(),
            dice: Mutex::new(Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            mistake,
            fails: Mutex::new(true),
            leader: leader.clone(),
        });
        World {
            etcd,
            keys: EtcdKeys::new("journal", &leader),
            mistake,
            dice: Dice::new(seed ^ 0x5bd1_e995),
            nodes: BTreeMap::new(),
            now: 1_000,
            made: u128::from(seed) << 64,
            told: HashMap::new(),
            refused: HashSet::new(),
            highest: Seq::ZERO,
        }
    }

    fn run(mut self) -> Result<(), Wrong> {
        for _ in 0..STEPS {
            self.now += 10;
            let node = self.dice.below(NODES);
            match self.dice.below(8) {
                0 => self.take_over(node)?,
                1 => self.snapshot(node),
                2..4 => self.check(node)?,
                4 => self.release(node)?,
                _ => self.reserve(node)?,
            }
        }
        self.etcd.let_late_ones_arrive(true);
        Ok(self.finish()?)
    }

    fn open(&self, epoch: i64) -> Result<Node, JournalError> {
        let (store, leadership) = (self.etcd.clone(), Arc::new(PlayedLease { etcd: self.etcd.clone(), epoch }));
        let real = EtcdJournal::open(store, self.keys.clone(), epoch, leadership)?;
        let mut rebuilt = Rebuilt(Engine::new(Policy::default()));
        let mut journal: Box<dyn Journal> = Box::new(real);
        replay(|on| journal.load(on), &mut rebuilt)?;
        if self.mistake == Mistake::CarelessRetry {
            let (etcd, keys) = (self.etcd.clone(), self.keys.clone());
            journal = Box::new(Careless { real: journal, etcd, keys, epoch });
        }
        Ok(Node { engine: rebuilt.0, journal })
    }

    fn take_over(&mut self, number: u64) -> Result<(), String> {
        let epoch = self.etcd.elect();
        let Ok(mut node) = self.open(epoch) else { return Ok(()) };
        let (after, mut turn) = (node.engine.head(), Turn::at(Timestamp(self.now)));
        node.engine.resume(&mut turn);
        if node.journal.append(after, &turn.records).is_ok() {
            self.nodes.insert(number, node);
        }
        Ok(())
    }

    fn snapshot(&mut self, number: u64) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let Ok(mut reader) = node.journal.reader() else { return };
        let state = git_dibs::journal::encode_image(&node.engine.image());
        let _ = reader.save_snapshot(node.engine.head(), &state, Seq(node.engine.head().0.saturating_sub(5)));
    }

    /// Lets a node decide, as the desk does. None if no answer leaves, and whether it is certain then that nothing was done.
    fn ask(&mut self, number: u64, session: u64, command: Command) -> Option<Result<Result<Outcome, ()>, bool>> {
        let reply = self.decide(number, session, command)?;
        // Without a check of the lease, what a node says without a record may be wrong; `check` looks at that.
        let counts = |(outcome, is_recorded)| (is_recorded || self.mistake != Mistake::NoLeaseCheck).then_some(outcome);
        match reply {
            Ok(reply) => counts(reply).map(Ok),
            Err(is_certain) => Some(Err(is_certain)),
        }
    }

    /// What is decided; or whether it is certain that nothing was done.
    fn decide(&mut self, number: u64, session: u64, command: Command) -> Option<Result<Decided, bool>> {
        let now = Timestamp(self.now);
        let node = self.nodes.get_mut(&number)?;
        let identity = SessionIdentity {
            id: session_id(session),
            name: None,
            feature: None,
            owner: Owner::Itself,
            issued: None,
            hears_notices: true,
        };
        let (after, mut turn) = (node.engine.head(), Turn::at(now));
        let outcome = node.engine.execute(&mut turn, &Actor::Session(identity), command).map_err(|_| ());
        let written = match turn.records.is_empty() {
            true => node.journal.confirm(),
            false => node.journal.append(after, &turn.records),
        };
        Some(match written {
            Ok(()) => Ok((outcome, !turn.records.is_empty())),
            Err(error) => {
                self.nodes.remove(&number);
                Err(!error.may_be_stored())
            }
        })
    }

    fn reserve(&mut self, number: u64) -> Result<(), String> {
        let (session, file) = (self.dice.below(SESSIONS), self.dice.below(FILES));
        self.made += 1;
        let id = ReservationId(Uuid::from_u128(self.made));
        let want = Want { id, key: key(file), ttl: Ttl::Plain(100_000) };
        let reserve = Reserve {
            session: session_id(session),
            wants: [want].into_iter().collect(),
            mode: Mode::Exclusive,
            reason: None,
            wait: None,
            if_version: None,
        };
        let holder = self.told.iter().find(|(_, (held, ..))| *held == file).map(|(holder, _)| *holder);
        let before = self.highest;
        match self.ask(number, session, Command::Reserve(reserve)) {
            Some(Ok(Ok(Outcome::Granted(grants)))) => {
                let grant = &grants[0];
                if holder.is_some_and(|holder| holder != session) {
                    return Err(format!("file {file} is granted to {session} and {holder:?}"));
                }
                if grant.id == id && grant.fence <= before {
                    return Err(format!("fence {} after {before}", grant.fence));
                }
                self.highest = self.highest.max(grant.fence);
                self.told.retain(|_, (held, ..)| *held != file);
                self.told.insert(session, (file, grant.id, grant.fence));
            }
            Some(Err(true)) => {
                self.refused.insert(id);
            }
            _ => {}
        }
        Ok(())
    }

    fn release(&mut self, number: u64) -> Result<(), Wrong> {
        let session = self.dice.below(SESSIONS);
        let told = self.told.get(&session).cloned();
        match self.ask(number, session, Command::ReleaseAll { session: session_id(session) }) {
            // Nothing was asked, or certainly nothing was done.
            None | Some(Err(true)) => {}
            Some(Ok(Ok(Outcome::Released { .. } | Outcome::ReleasedLate { .. }))) | Some(Err(false)) => {
                self.told.remove(&session);
            }
            Some(Ok(_)) if told.is_some() => {
                return Err(Wrong::Answer(format!("{session} could not release {told:?}")));
            }
            Some(Ok(_)) => {}
        }
        Ok(())
    }

    /// A check is an answer without a record: a deposed leader must not say that a file is free.
    fn check(&mut self, number: u64) -> Result<(), Wrong> {
        let file = self.dice.below(FILES);
        let told = self.told.iter().find(|(_, (held, ..))| *held == file).map(|(holder, _)| *holder);
        let Some(node) = self.nodes.get_mut(&number) else { return Ok(()) };
        let is_free = node.engine.holders(&key(file)).next().is_none();
        if node.journal.confirm().is_err() {
            self.nodes.remove(&number);
            return Ok(());
        }
        match told {
            Some(holder) if is_free => {
                let sentence = format!("node {number} says that file {file} is free, and {holder} holds it");
                Err(Wrong::Answer(sentence))
            }
            _ => Ok(()),
        }
    }

    /// What is stored in the end is what all were told.
    fn finish(&mut self) -> Result<(), String> {
        *self.etcd.fails.lock().unwrap() = false;
        let node = self.open(self.etcd.elect()).map_err(|error| format!("the journal cannot be loaded: {error}"))?;
        for (session, (file, id, fence)) in &self.told {
            let key = key(*file);
            let mut holders = node.engine.holders(&key);
            if !holders.any(|(_, grant)| grant.id == *id && grant.fence == *fence) {
                return Err(format!("what {session} was told about file {file} is lost"));
            }
        }
        let mut reader = node.journal.reader().map_err(|error| error.to_string())?;
        let records = reader.read(Seq::ZERO, usize::MAX).map_err(|error| error.to_string())?.records;
        let mut seen = HashSet::new();
        for record in &records {
            if let Event::Reserved { id, .. } = &record.event {
                if !seen.insert(*id) {
                    return Err(format!("{id:?} is in the journal twice"));
                }
                if self.refused.contains(id) {
                    return Err(format!("{id:?} was refused, and is in the journal"));
                }
            }
        }
        Ok(())
    }
}

fn session_id(number: u64) -> SessionId {
    SessionId::parse(&format!("s{number}")).unwrap()
}

fn key(file: u64) -> Key {
    Key::parse(&format!("f{file}"), &KeyRules::default()).unwrap()
}

// ---- the planted retry ----

/// A journal that makes the mistake which the retry rule forbids.
struct Careless {
    real: Box<dyn Journal>,
    etcd: Arc<Played>,
    keys: EtcdKeys,
    epoch: i64,
}

impl Careless {
    fn head(&self) -> (Vec<u8>, u64, u64) {
        let value = self.etcd.tables().keys.get(self.keys.head().as_bytes()).map(|found| found.value.clone());
        let head: serde_json::Value =
            value.as_deref().map_or(serde_json::json!({}), |value| serde_json::from_slice(value).unwrap());
        let number = |name: &str| head[name].as_u64().unwrap_or(0);
        (value.unwrap_or_default(), number("seq"), number("bytes"))
    }
}

impl Journal for Careless {
    fn load(&mut self, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        self.real.load(on)
    }

    fn append(&mut self, _: Seq, records: &[Record]) -> Result<(), JournalError> {
        if records.is_empty() {
            return Ok(());
        }
        loop {
            let (value, seq, bytes) = self.head();
            let mut renumbered = records.to_vec();
            for (number, record) in (seq + 1..).zip(&mut renumbered) {
                record.seq = Seq(number);
            }
            let last = renumbered[renumbered.len() - 1].seq;
            let header = serde_json::json!({ "append": "careless", "last": last, "from_byte": bytes, "pieces": 0 });
            let lines: Vec<String> = renumbered.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
            let entry = format!("{header}\n{}\n", lines.join("\n"));
            let head = serde_json::json!({ "seq": last, "bytes": bytes + entry.len() as u64 });
            let mut compare = vec![create_is(self.keys.leader(), self.epoch)];
            if !value.is_empty() {
                compare.push(value_is(&self.keys.head(), &value));
            }
            let success = vec![
                put(&self.keys.entry(Seq(seq + 1)), entry.as_bytes()),
                put(&self.keys.head(), head.to_string().as_bytes()),
            ];
            match self.etcd.txn(TxnRequest { compare, success, failure: vec![get(&self.keys.head())] }) {
                Ok(reply) if reply.succeeded => return Ok(()),
                Ok(_) => return Err(JournalError::Deposed),
                Err(_) => {}
            }
        }
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.real.confirm()
    }

    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError> {
        self.real.reader()
    }
}
