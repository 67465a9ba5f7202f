//! Clients that work at the same time, each on its own connection, and record every request and response with its time.
//!
//! They work with a server that answers every request, or with one that fails again and again. A client that misses a response
//! ends its session and goes on as another one: after that, the request cannot happen any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::lock::{Conflict, Did, Hold, KEYS, Key, Op, Outcome, Request, Session};
use crate::dice::Dice;
use crate::http::{Connection, Response};
use crate::kill::{Alarm, Field};
use crate::mint;
use crate::support::process::LIMIT;
use crate::world::{World, text};

/// A reservation must not outlive its TTL by more than this. The promise is far less; a busy machine may need more.
const LATE: Duration = Duration::from_secs(1);

/// Times are told in milliseconds, so a time may run out by so much before somebody else's clock says so.
const TICK: Duration = Duration::from_millis(1);

/// The most sessions of one client.
const SESSIONS: Session = 1_000_000;

/// How one round of clients works.
#[derive(Clone, Copy)]
pub struct Round {
    pub number: u64,
    pub seed: u64,
    pub clients: u64,
    pub ops: usize,
    pub ttl_seconds: u64,
    /// The longest pause between two calls, in milliseconds.
    pub pause_ms: u64,
}

/// The server of a round.
#[derive(Clone, Copy)]
pub enum Reach<'w> {
    /// It answers every request.
    Steady(&'w World),
    /// It fails again and again. The round takes as long as that.
    Failing(&'w Field),
}

impl<'w> Reach<'w> {
    fn connect(self, number: u64) -> Connection {
        match self {
            Reach::Steady(world) => world.connect(),
            Reach::Failing(field) => field.connect(number),
        }
    }

    fn token(self, claims: Value) -> String {
        match self {
            Reach::Steady(world) => world.token(claims),
            Reach::Failing(field) => mint::hs256(&mint::claims(claims), field.secret()),
        }
    }

    /// Whether a client that has made so many calls makes no more.
    fn is_over(self, ops: usize, round: Round) -> bool {
        match self {
            Reach::Steady(_) => ops >= round.ops,
            Reach::Failing(field) => field.is_over(),
        }
    }

    /// Ends the test for all clients if this one fails.
    fn alarm(self) -> Option<Alarm<'w>> {
        match self {
            Reach::Steady(_) => None,
            Reach::Failing(field) => Some(Alarm(field)),
        }
    }

    /// A wait that ends with its server is tested elsewhere.
    fn has_waits(self) -> bool {
        matches!(self, Reach::Steady(_))
    }
}

/// Lets the clients of a round work, and returns their history.
pub fn work(server: Reach<'_>, round: Round) -> Vec<Op> {
    let start = Instant::now();
    let mut history: Vec<Op> = std::thread::scope(|scope| {
        let client = |number| scope.spawn(move || Client::new(server, round, number, start).work());
        let threads: Vec<_> = (0..round.clients).map(client).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    history.sort_by_key(|op| op.from);
    history.extend(endings(&history, Duration::from_secs(round.ttl_seconds)));
    history
}

/// The expiries: of each reservation that was not released, a TTL after its last grant or renewal.
fn endings(history: &[Op], ttl: Duration) -> Vec<Op> {
    let mut last: BTreeMap<(Session, Key), (u64, &Op)> = BTreeMap::new();
    let mut all = Vec::new();
    let ending = |((session, key), (fence, op)): ((Session, Key), (u64, &Op))| {
        let nanos = |time: Duration| time.as_nanos() as u64;
        let (from, to) = (op.from + nanos(ttl - TICK), op.to + nanos(ttl + LATE));
        Op { session, from, to, did: Did::Expire(key, fence) }
    };
    // One session's calls come one after the other, so their order here is their order there.
    for op in history {
        let granted: Vec<(Key, u64)> = match &op.did {
            Did::Reserve { came: Outcome::Granted(grants), .. } => {
                grants.iter().map(|(k, fence, _)| (*k, *fence)).collect()
            }
            Did::Renew(key, Some(fence)) => vec![(*key, *fence)],
            Did::Release { keys, count: Some(count) } if *count == keys.len() => {
                last.retain(|(session, key), _| *session != op.session || !keys.contains(key));
                continue;
            }
            Did::ReleaseAll(keys) | Did::End(keys) => {
                last.retain(|(session, key), _| *session != op.session || !keys.contains(key));
                continue;
            }
            _ => continue,
        };
        for (key, fence) in granted {
            let before = last.insert((op.session, key), (fence, op));
            // A new grant of the same key: the one before had expired.
            all.extend(before.filter(|(old, _)| *old != fence).map(|before| ending(((op.session, key), before))));
        }
    }
    all.extend(last.into_iter().map(ending));
    all
}

struct Client<'w> {
    server: Reach<'w>,
    round: Round,
    number: u64,
    /// The number of its session; those it had before were lower.
    session: Session,
    token: String,
    reader: String,
    /// None until the first request, and after a response was lost.
    line: Option<Connection>,
    dice: Dice,
    start: Instant,
    history: Vec<Op>,
}

impl<'w> Client<'w> {
    fn new(server: Reach<'w>, round: Round, number: u64, start: Instant) -> Self {
        let dice = Dice::new(round.seed.wrapping_mul(1_000_003) ^ (round.number << 32) ^ number);
        let session = number as Session * SESSIONS;
        let reader = server.token(json!({ "sub": "reader", "scope": "read" }));
        let token = token(server, round, session);
        Client { server, round, number, session, token, reader, line: None, dice, start, history: Vec::new() }
    }

    fn work(mut self) -> Vec<Op> {
        let _alarm = self.server.alarm();
        let mut ops = 0;
        while !self.server.is_over(ops, self.round) {
            match self.dice.below(40) {
                0 => self.end(),
                1 => self.release_all(),
                2..5 => self.list(),
                5..9 => self.check(),
                9..13 => self.renew(),
                13..24 => self.release(),
                _ => self.reserve(),
            }
            ops += 1;
            if self.round.pause_ms > 0 {
                std::thread::sleep(Duration::from_millis(self.dice.below(self.round.pause_ms)));
            }
        }
        if matches!(self.server, Reach::Failing(_)) {
            self.end();
        }
        self.history
    }

    fn reserve(&mut self) {
        let keys = self.keys(3);
        let exclusive = self.dice.below(3) > 0;
        let wait = self.dice.below(10) == 0 && self.server.has_waits();
        let mut body = json!({
            "mode": if exclusive { "exclusive" } else { "shared" },
            "ttlSeconds": self.round.ttl_seconds,
        });
        self.name_keys(&mut body, &keys);
        if wait {
            body["waitSeconds"] = 1.into();
        }
        let (from, answer, to) = self.ask("files/reserve", &body);
        let Some(answer) = answer else { return self.lost(from, Request::Reserve { keys, exclusive }) };
        let body = answer.json();
        let came = match (answer.status, body["code"].as_str()) {
            (200, _) if keys.len() == 1 => Outcome::Granted(vec![self.granted(&body)]),
            (200, _) => Outcome::Granted(list(&body["reservations"]).map(|one| self.granted(one)).collect()),
            (409, Some("RESOURCE_LOCKED")) => Outcome::Refused(self.conflicts(&body)),
            (409, Some("LOCK_ACQUISITION_FAILED")) => Outcome::TimedOut(self.conflicts(&body)),
            (409, Some("POSSIBLE_DEADLOCK")) => Outcome::Deadlock,
            _ => panic!("{answer}"),
        };
        if let Outcome::Granted(grants) = &came {
            assert!(grants.iter().map(|(key, ..)| key).eq(&keys), "asked for {keys:?}, got {grants:?}");
        }
        self.note(from, to, Did::Reserve { keys, exclusive, wait, came });
    }

    fn release(&mut self) {
        let keys = self.keys(2);
        let mut body = json!({});
        self.name_keys(&mut body, &keys);
        let (from, answer, to) = self.ask("files/release", &body);
        let Some(answer) = answer else { return self.lost(from, Request::Release(keys)) };
        let count = match answer.status {
            403 => drop_body(answer.refused("LOCK_NOT_HELD"), None),
            _ => Some(answer.ok()["releasedCount"].as_u64().unwrap() as usize),
        };
        self.note(from, to, Did::Release { keys, count });
    }

    fn release_all(&mut self) {
        let (from, answer, to) = self.ask("files/release-all", &json!({}));
        let Some(answer) = answer else { return self.lost(from, Request::ReleaseAll) };
        let paths = list(&answer.ok()["releasedPaths"]).map(|path| self.key(path)).collect();
        self.note(from, to, Did::ReleaseAll(paths));
    }

    /// Ends the session, and goes on as another one. To end it again has the same answer.
    fn end(&mut self) {
        let begun = self.now();
        let (answer, to) = loop {
            if let (_, Some(answer), to) = self.ask("end", &json!({})) {
                break (answer, to);
            }
            assert!(self.start.elapsed() < Duration::from_nanos(begun) + 3 * LIMIT, "a session cannot be ended");
        };
        let paths = list(&answer.ok()["releasedPaths"]).map(|path| self.key(path)).collect();
        self.note(begun, to, Did::End(paths));
        self.session += 1;
        self.token = token(self.server, self.round, self.session);
    }

    /// A response was lost. What was asked for happens before the end of the session, if it happens.
    fn lost(&mut self, from: u64, request: Request) {
        let place = self.history.len();
        self.note(from, from, Did::Lost(request));
        self.end();
        self.history[place].to = self.now();
    }

    fn renew(&mut self) {
        let key = self.keys(1)[0];
        let (from, answer, to) = self.ask("files/renew", &json!({ "filePath": self.name(key) }));
        // It changes nothing.
        let Some(answer) = answer else { return };
        let fence = match answer.status {
            403 => drop_body(answer.refused("LOCK_NOT_HELD"), None),
            410 => drop_body(answer.refused("LOCK_TIMEOUT"), None),
            _ => Some(answer.ok()["fence"].as_u64().unwrap()),
        };
        self.note(from, to, Did::Renew(key, fence));
    }

    fn check(&mut self) {
        let keys = self.keys(4);
        let (from, answer, to) = self.ask("files/check-conflicts", &json!({ "paths": self.names(&keys) }));
        let Some(answer) = answer else { return };
        let conflicts = self.conflicts(&answer.ok());
        self.note(from, to, Did::Check { keys, conflicts });
    }

    fn list(&mut self) {
        let bearer = format!("Bearer {}", self.reader);
        let answer = self.exchange("GET", "/api/reservations?limit=1000", &[("authorization", &bearer)], b"");
        let (from, Some(answer), to) = answer else { return };
        let body = answer.ok();
        let own = list(&body["reservations"]).filter(|one| self.is_of_this_round(&one["sessionId"]));
        let hold = |one: &Value| Hold {
            key: self.key(&one["filePath"]),
            session: session(&one["sessionId"]),
            exclusive: one["mode"] == "exclusive",
            fence: one["fence"].as_u64().unwrap(),
        };
        let all = own.map(hold).collect();
        self.note(from, to, Did::List(all));
    }

    fn ask(&mut self, call: &str, body: &Value) -> (u64, Option<Response>, u64) {
        let target = format!("/api/sessions/{}/{call}", name_of(self.round, self.session));
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        self.exchange("POST", &target, &headers, body.to_string().as_bytes())
    }

    /// When the request was sent, the response unless it was lost, and when that was known.
    fn exchange(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u64, Option<Response>, u64) {
        let mut line = self.line.take().unwrap_or_else(|| self.server.connect(self.number));
        let from = self.now();
        let answer = line.call(method, target, headers, body);
        let to = self.now();
        let answer = match (answer, self.server) {
            // A server that ends may have done it all the same.
            (Err(_), Reach::Failing(_)) => return (from, None, to),
            (Ok(answer), Reach::Failing(_)) if answer.status == 503 => return (from, None, to),
            (answer, _) => answer.unwrap(),
        };
        answer.check_ground_rules();
        self.line = Some(line);
        (from, Some(answer), to)
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn note(&mut self, from: u64, to: u64, did: Did) {
        self.history.push(Op { session: self.session, from, to, did });
    }

    /// Keys to ask for, mostly one; all of them from the same corner, or few histories would fall apart.
    fn keys(&mut self, most: u64) -> Vec<Key> {
        const CORNERS: [std::ops::Range<u64>; 4] = [0..6, 6..9, 9..11, 11..12];
        let corner = CORNERS[[0, 0, 0, 0, 1, 1, 1, 2, 2, 3][self.dice.below(10) as usize]].clone();
        let count = if self.dice.below(3) == 0 { 1 + self.dice.below(most) } else { 1 };
        let one = |dice: &mut Dice| (corner.start + dice.below(corner.end - corner.start)) as Key;
        (0..count).map(|_| one(&mut self.dice)).collect::<BTreeSet<Key>>().into_iter().collect()
    }

    fn name(&self, key: Key) -> String {
        KEYS[key as usize].0.replace('@', &self.round.number.to_string())
    }

    /// One key is named alone, as most clients do.
    fn name_keys(&self, body: &mut Value, keys: &[Key]) {
        match keys {
            [key] => body["filePath"] = self.name(*key).into(),
            keys => body["filePaths"] = self.names(keys).into(),
        }
    }

    fn names(&self, keys: &[Key]) -> Vec<String> {
        keys.iter().map(|key| self.name(*key)).collect()
    }

    fn key(&self, name: &Value) -> Key {
        let known = (0..KEYS.len() as Key).find(|key| *name == self.name(*key));
        known.unwrap_or_else(|| panic!("nobody asked for {name}"))
    }

    fn granted(&self, one: &Value) -> (Key, u64, u64) {
        (self.key(&one["filePath"]), one["fence"].as_u64().unwrap(), one["version"].as_u64().unwrap())
    }

    fn conflicts(&self, body: &Value) -> BTreeSet<Conflict> {
        let conflict = |one: &Value| Conflict {
            asked: self.key(&one["filePath"]),
            key: self.key(&one["key"]),
            session: session(&one["reservedBy"]),
            exclusive: one["mode"] == "exclusive",
            waiting: one["waiting"] == true,
        };
        list(&body["conflicts"]).map(conflict).collect()
    }

    fn is_of_this_round(&self, name: &Value) -> bool {
        text(name).starts_with(&format!("r{}-", self.round.number))
    }
}

fn name_of(round: Round, session: Session) -> String {
    format!("r{}-{session}", round.number)
}

fn session(name: &Value) -> Session {
    text(name).rsplit('-').next().unwrap().parse().unwrap()
}

fn token(server: Reach<'_>, round: Round, session: Session) -> String {
    server.token(json!({ "sub": name_of(round, session) }))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).iter()
}

fn drop_body<T>(_: Value, otherwise: T) -> T {
    otherwise
}
