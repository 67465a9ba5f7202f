//! The server is killed again and again while many clients work, and nothing that was acknowledged changes.
//!
//! Each client remembers what it was told: what it holds, with which id and fence, and what it released. When a response
//! is lost with the server, the client either repeats the request, as the contract allows, or lists what it holds now.
//! The request may have happened as a whole or not at all, and nothing else may have changed. `DIBS_KILL_CYCLES` says
//! how often the server is killed.
//!
//! Beside them work clients on other keys whose responses must have an order; see `linear`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::dice::{Dice, number_from_env};
use crate::http::{Address, Connection, Response};
use crate::linear::check_through_failures;
use crate::mint;
use crate::world::{World, text, until};

const CLIENTS: u64 = 6;

/// Keys, and which of sixteen imaginary names each of them covers: two keys overlap where they share one.
const KEYS: &[(&str, u16)] = &[
    ("p/0", 1 << 0),
    ("p/1", 1 << 1),
    ("p/2", 1 << 2),
    ("p/3", 1 << 3),
    ("p/4", 1 << 4),
    ("p/5", 1 << 5),
    ("p/[0-2]", 0b111),
    ("p/{2,5}", 1 << 2 | 1 << 5),
    ("p/**", 0b1111_1111),
    ("p/dir", 1 << 6 | 1 << 7),
    ("p/dir/x", 1 << 6),
    ("p/dir/**", 1 << 6 | 1 << 7),
    ("q/a", 1 << 8),
    ("q/b", 1 << 9),
    ("q/?", 1 << 8 | 1 << 9),
    ("file:[z]", 1 << 10),
    ("db:schema:slot", 1 << 11),
    ("flag:x/*", 1 << 12 | 1 << 13),
    ("flag:x/a", 1 << 12),
    ("deploy://prod", 1 << 14),
];

/// What the clients share with the test that kills the server.
pub struct Field {
    addresses: RwLock<[Address; 2]>,
    acknowledged: AtomicU64,
    /// The highest fence in any response.
    highest: AtomicU64,
    over: AtomicBool,
    secret: Vec<u8>,
}

impl Field {
    /// The number of responses so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Makes all clients use the server that runs now.
    pub fn go_to(&self, world: &World) {
        *self.addresses.write().unwrap() = [world.tcp(), world.unix()];
    }

    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Connects a client once there is a server to connect to.
    pub fn connect(&self, number: u64) -> Connection {
        until("a server accepts the connection", || {
            // Read before the address, which is that of the last server once this is true.
            let over = self.is_over();
            let address = self.addresses.read().unwrap()[number as usize % 2].clone();
            match Connection::open(&address) {
                Ok(line) => Some(line),
                Err(error) => {
                    assert!(!over, "the last server is gone: {error}");
                    None
                }
            }
        })
    }

    /// The clients have finished, or one of them has failed.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// Ends the test for all clients when one of them fails.
pub struct Alarm<'f>(pub &'f Field);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.over.store(true, Ordering::SeqCst);
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Held {
    id: String,
    fence: u64,
    mode: &'static str,
}

type Holdings = BTreeMap<String, Held>;

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let mut dice = Dice::new(7);
    work_through_failures(World::new(), number_from_env("DIBS_KILL_CYCLES", 20), |world, field| {
        let enough = field.acknowledged() + dice.below(150);
        while field.acknowledged() < enough && !field.is_over() {
            check_exclusive_is_not_shared(&world.reservations());
        }
        world.kill();
        world.start();
    });
}

/// Lets the clients work while `happens` does something to their server, again and again. It must leave a running
/// server.
/// In the end the server has what the clients were told.
pub fn work_through_failures(mut world: World, times: u32, mut happens: impl FnMut(&mut World, &Field)) {
    let field = Field {
        addresses: RwLock::new([world.tcp(), world.unix()]),
        acknowledged: AtomicU64::new(0),
        highest: AtomicU64::new(0),
        over: AtomicBool::new(false),
        secret: world.secret(),
    };
    let clients = std::thread::scope(|scope| {
        let field = &field;
        let _alarm = Alarm(field);
        let threads: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || Client::new(field, number).work())).collect();
        let in_order = scope.spawn(move || {
            let _alarm = Alarm(field);
            check_through_failures(field);
        });
        for _ in 0..times {
            happens(&mut world, field);
            field.go_to(&world);
        }
        field.over.store(true, Ordering::SeqCst);
        in_order.join().unwrap();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });

    as_told(&world, &clients);
    world.kill();
    world.start();
    as_told(&world, &clients);
    let stats = world.get("/api/stats", &world.reader()).ok();
    eprintln!("{times} times, {} answers, {stats}", field.acknowledged());
}

/// The server has exactly what the clients were told.
fn as_told(world: &World, clients: &[Client<'_>]) {
    let list = world.reservations();
    check_exclusive_is_not_shared(&list);
    let told: BTreeMap<_, _> = clients.iter().map(|client| (client.session(), client.held.clone())).collect();
    let mut found: BTreeMap<String, Holdings> = told.keys().map(|id| (id.clone(), Holdings::new())).collect();
    for one in &list {
        let of_session = found.entry(text(&one["sessionId"]).to_owned()).or_default();
        of_session.insert(text(&one["filePath"]).to_owned(), held(one));
    }
    assert_eq!(found, told, "found on the left, told on the right");
    for client in clients {
        for generation in 0..client.generation {
            let ended = world.session(&client.session_of(generation)).post("heartbeat", json!({}));
            ended.refused("SESSION_ENDED");
        }
    }
}

/// The connection was closed, and did not only stay silent for long.
pub fn is_closed(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

pub fn check_exclusive_is_not_shared(list: &[Value]) {
    // The keys of other clients cover none of these names.
    let covers = |one: &Value| KEYS.iter().find(|(key, _)| one["filePath"] == *key).map_or(0, |(_, names)| *names);
    let mut fences = BTreeSet::new();
    for (n, one) in list.iter().enumerate() {
        assert!(fences.insert(one["fence"].as_u64().unwrap()), "a fence is there twice: {list:?}");
        for other in &list[..n] {
            let apart = one["sessionId"] == other["sessionId"] || covers(one) & covers(other) == 0;
            assert!(apart || (one["mode"] == "shared" && other["mode"] == "shared"), "both hold: {one} and {other}");
        }
    }
}

fn held(one: &Value) -> Held {
    let mode = if one["mode"] == "shared" { "shared" } else { "exclusive" };
    Held { id: text(&one["reservationId"]).to_owned(), fence: one["fence"].as_u64().unwrap(), mode }
}

/// A client; when its session ends it works as a new one.
struct Client<'f> {
    field: &'f Field,
    number: u64,
    generation: u32,
    held: Holdings,
    dice: Dice,
    line: Option<Connection>,
}

/// The result of a request that may have been sent more than once.
enum Outcome {
    /// A response, and whether an earlier response to the same request was lost.
    Response(Response, bool),
    /// The response was lost; this is what the session holds now. `None` if it has ended.
    Listed(Option<Holdings>),
}

impl<'f> Client<'f> {
    fn new(field: &'f Field, number: u64) -> Self {
        let dice = Dice::new(number * 7919 + 1);
        Self { field, number, generation: 0, held: Holdings::new(), dice, line: None }
    }

    fn session(&self) -> String {
        self.session_of(self.generation)
    }

    fn session_of(&self, generation: u32) -> String {
        format!("c{}-{generation}", self.number)
    }

    fn work(mut self) -> Self {
        let _alarm = Alarm(self.field);
        while !self.field.over.load(Ordering::SeqCst) {
            match self.dice.below(20) {
                0 => self.end(),
                1 => self.release_all(),
                2..8 => self.release(),
                _ => self.reserve(),
            }
        }
        self
    }

    fn reserve(&mut self) {
        let mode = if self.dice.below(4) == 0 { "shared" } else { "exclusive" };
        let count = if self.dice.below(3) == 0 { 1 + self.dice.below(4) } else { 1 };
        let keys: BTreeSet<&str> = (0..count).map(|_| KEYS[self.dice.below(KEYS.len() as u64) as usize].0).collect();
        // What is held already is only renewed in its mode, so that its mode stays known.
        let keys: Vec<&str> =
            keys.into_iter().filter(|key| self.held.get(*key).is_none_or(|held| held.mode == mode)).collect();
        if keys.is_empty() {
            return;
        }
        let wait = if self.dice.below(10) == 0 { 1 } else { 0 };
        let body = json!({ "filePaths": keys, "mode": mode, "ttlSeconds": 300, "waitSeconds": wait });
        let before = self.field.highest.load(Ordering::SeqCst);
        let fresh: Vec<&str> = keys.iter().copied().filter(|key| !self.held.contains_key(*key)).collect();
        match self.ask("files/reserve", &body) {
            Outcome::Response(answer, _) if answer.status == 200 => {
                let granted = answer.ok();
                assert_eq!(granted["reserved"], json!(keys));
                for one in granted["reservations"].as_array().unwrap() {
                    self.keep(text(&one["filePath"]), held(one), before);
                }
            }
            // All or nothing: if an earlier attempt had been granted, this one would have renewed it.
            Outcome::Response(answer, _) => {
                let code = answer.json()["code"].clone();
                let known = ["RESOURCE_LOCKED", "LOCK_ACQUISITION_FAILED", "POSSIBLE_DEADLOCK"];
                assert!(answer.status == 409 && known.contains(&text(&code)), "{answer}");
            }
            Outcome::Listed(now) => {
                let now = now.expect("it has not ended");
                let got = fresh.iter().filter(|key| now.contains_key(**key)).count();
                assert!(got == 0 || got == fresh.len(), "half of {fresh:?} was granted: {now:?}");
                let mut expected = self.held.clone();
                for key in fresh.iter().filter(|key| now.contains_key(**key)) {
                    self.keep(key, now[*key].clone(), before);
                    expected.insert((*key).to_owned(), now[*key].clone());
                }
                assert_eq!(now, expected, "found on the left, told on the right");
            }
        }
    }

    /// Checks and notes a grant: what was held is unchanged, and what is new has a higher fence than any before.
    fn keep(&mut self, key: &str, grant: Held, before: u64) {
        match self.held.get(key) {
            Some(known) => assert_eq!(*known, grant, "{key} is not what it was"),
            None => assert!(grant.fence > before, "{key} has fence {} after {before}", grant.fence),
        }
        self.field.highest.fetch_max(grant.fence, Ordering::SeqCst);
        self.held.insert(key.to_owned(), grant);
    }

    fn release(&mut self) {
        let count = 1 + self.dice.below(2);
        let keys: BTreeSet<String> =
            (0..count).filter_map(|_| self.held.keys().nth(self.dice.below(8) as usize).cloned()).collect();
        if keys.is_empty() {
            return;
        }
        match self.ask("files/release", &json!({ "filePaths": keys })) {
            // Another session holds it now, so the release whose response was lost did happen.
            Outcome::Response(answer, true) if answer.status == 403 => {
                answer.refused("LOCK_NOT_HELD");
                self.held.retain(|key, _| !keys.contains(key));
            }
            Outcome::Response(answer, again) => {
                let count = answer.ok()["releasedCount"].as_u64().unwrap() as usize;
                assert!(count == keys.len() || (again && count == 0), "{count} of {keys:?} released");
                self.held.retain(|key, _| !keys.contains(key));
            }
            Outcome::Listed(now) => self.released_or_not(&now.expect("it has not ended"), &keys),
        }
    }

    fn release_all(&mut self) {
        let keys: BTreeSet<String> = self.held.keys().cloned().collect();
        match self.ask("files/release-all", &json!({})) {
            Outcome::Response(answer, again) => {
                self.check_everything_released(&answer.ok()["releasedPaths"], again);
                self.held.clear();
            }
            Outcome::Listed(now) => self.released_or_not(&now.expect("it has not ended"), &keys),
        }
    }

    fn end(&mut self) {
        match self.ask("end", &json!({})) {
            // Repeating gives the same answer, so it always lists everything.
            Outcome::Response(answer, _) => self.check_everything_released(&answer.ok()["releasedPaths"], false),
            Outcome::Listed(Some(now)) => {
                assert_eq!(now, self.held, "it has not ended, so nothing is released");
                return;
            }
            Outcome::Listed(None) => {}
        }
        self.held.clear();
        self.generation += 1;
    }

    fn check_everything_released(&self, paths: &Value, or_nothing: bool) {
        let paths: BTreeSet<&str> = paths.as_array().unwrap().iter().map(text).collect();
        let all: BTreeSet<&str> = self.held.keys().map(String::as_str).collect();
        assert!(paths == all || (or_nothing && paths.is_empty()), "released {paths:?}, held {all:?}");
    }

    fn released_or_not(&mut self, now: &Holdings, keys: &BTreeSet<String>) {
        let mut without = self.held.clone();
        without.retain(|key, _| !keys.contains(key));
        assert!(*now == self.held || *now == without, "found {now:?}, held {:?}, let go of {keys:?}", self.held);
        self.held = now.clone();
    }

    /// Sends a request. If the response is lost, sends it again or looks at what the session holds.
    fn ask(&mut self, call: &str, body: &Value) -> Outcome {
        let target = format!("/api/sessions/{}/{call}", self.session());
        let body = body.to_string();
        let mut lost = false;
        loop {
            match self.exchange("POST", &target, body.as_bytes()) {
                Ok(answer) => return Outcome::Response(answer, lost),
                Err(_) if self.dice.below(2) == 0 => return Outcome::Listed(self.look()),
                Err(_) => lost = true,
            }
        }
    }

    fn look(&mut self) -> Option<Holdings> {
        let target = format!("/api/sessions/{}/reserved-files", self.session());
        let answer = loop {
            if let Ok(answer) = self.exchange("GET", &target, b"") {
                break answer;
            }
        };
        if answer.status == 410 {
            return None;
        }
        let list = answer.ok();
        let list = list["reservations"].as_array().unwrap().iter();
        Some(list.map(|one| (text(&one["filePath"]).to_owned(), held(one))).collect())
    }

    /// One request on the client's connection, once there is a server to connect to. An error says that it is not
    /// known what became of the request.
    fn exchange(&mut self, method: &str, target: &str, body: &[u8]) -> io::Result<Response> {
        let token = mint::hs256(&mint::claims(json!({ "sub": self.session() })), &self.field.secret);
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let mut line = match self.line.take() {
            Some(line) => line,
            None => self.field.connect(self.number),
        };
        let answer = line.call(method, target, &headers, body).inspect_err(|error| {
            assert!(is_closed(error), "no answer, and the connection is open: {error}");
        })?;
        answer.check_ground_rules();
        if answer.status == 503 {
            return Err(io::Error::other("the server ends, and what was asked may have been its last work"));
        }
        self.field.acknowledged.fetch_add(1, Ordering::SeqCst);
        self.line = Some(line);
        Ok(answer)
    }
}
