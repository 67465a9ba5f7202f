//! Runs one scenario: reads lines like `1s ana reserves src/** wait=10s`, sends them to an engine and describes the result.
//!
//! Like the desk, a runner lets time pass before each line: everything that is due by then ends first. `desk stalls for=60s`
//! says that the server did not listen in the last minute.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use git_dibs::engine::{
    Actor, AllocatePorts, Command, Content, EndState, Engine, Event, Grant, Intent, KeyName, LeftWhy, Mode, ObjectId,
    Outcome, Owner, Policy, PortRange, Record, RefUpdate, Refusal, ReservationId, Reserve, Seq, SessionId,
    SessionIdentity, Timestamp, Ttl, Turn, UnlockAnswer, WaiterId, Want, Why,
};
use git_dibs::key::{Key, KeyRules, Kind};
use uuid::Uuid;

use crate::text::*;

pub struct Runner {
    pub engine: Engine,
    pub records: Vec<Record>,
    /// The identity in each session's token.
    tokens: HashMap<String, SessionIdentity>,
    fences: HashMap<ReservationId, Seq>,
    ids: HashMap<Seq, ReservationId>,
    /// The grants of each wait, in case they do not reach their client.
    granted: HashMap<WaiterId, (SessionId, Vec<Grant>)>,
    made: Cell<u128>,
    requests: Vec<Uuid>,
}

/// A line cut into its words.
struct Line<'a> {
    keys: Vec<&'a str>,
    options: HashMap<&'a str, &'a str>,
}

impl Runner {
    /// A runner with the settings of a `policy` line.
    pub fn new(words: &str) -> Runner {
        let line = Line::cut(words.split_whitespace());
        let mut policy = Policy { fold_case: line.keys.contains(&"fold_case"), ..Policy::default() };
        let number = |name| line.options.get(name).map(|text: &&str| text.parse().expect("a number"));
        policy.session_timeout = line.time("session_timeout").unwrap_or(policy.session_timeout);
        policy.reservations_per_session = number("reservations").unwrap_or(policy.reservations_per_session);
        policy.waiters_per_session = number("waiters").unwrap_or(policy.waiters_per_session);
        policy.sessions = number("sessions").unwrap_or(policy.sessions);
        policy.reservations = number("all_reservations").unwrap_or(policy.reservations);
        policy.text_bytes = number("text_bytes").unwrap_or(policy.text_bytes);
        policy.records_per_slice = number("slice").unwrap_or(policy.records_per_slice);
        Runner {
            engine: Engine::new(policy),
            records: Vec::new(),
            tokens: HashMap::new(),
            fences: HashMap::new(),
            ids: HashMap::new(),
            granted: HashMap::new(),
            made: Cell::new(0),
            requests: Vec::new(),
        }
    }

    /// Runs one line, without its expectation, and describes what happened.
    pub fn play(&mut self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let now = Timestamp(0).after(time(words.next().expect("a time")));
        let who = words.next().expect("who, or what");
        let verb = match who {
            "tick" | "sweep" | "count" | "restart" => who,
            _ => words.next().expect("a verb"),
        };
        let line = Line::cut(words);
        let mut parts = Vec::new();
        if verb == "stalls" {
            self.engine.lose_time(line.time("for").expect("how long"));
        }
        if !matches!(verb, "tick" | "sweep" | "stalls" | "restart")
            && self.engine.next_due().is_some_and(|due| due <= now)
        {
            parts.extend(self.ask(&Actor::Desk, Command::Tick, now, verb).into_iter().skip(1));
        }
        if let Some(seen) = self.look(who, verb, &line) {
            parts.insert(0, seen);
        } else if verb == "restart" {
            parts.extend(self.restart(&line, now));
        } else {
            let (actor, command) = self.command(who, verb, &line);
            if self.engine.next_due().is_some_and(|due| due <= now) && verb == "reserves" {
                parts.extend(self.expire_in_the_way(&command, now));
            }
            let mut answer = self.ask(&actor, command, now, verb);
            let effects = answer.split_off(1);
            parts = answer.into_iter().chain(parts).chain(effects).collect();
        }
        parts.retain(|part| !part.is_empty());
        if parts.is_empty() { "ok".to_owned() } else { parts.join(", ") }
    }

    /// The result, and after it the other effects.
    fn ask(&mut self, actor: &Actor, command: Command, now: Timestamp, verb: &str) -> Vec<String> {
        let mut turn = Turn::at(now);
        let result = self.engine.execute(&mut turn, actor, command);
        self.describe(result, turn, verb)
    }

    fn describe(&mut self, result: Result<Outcome, Refusal>, turn: Turn, verb: &str) -> Vec<String> {
        let settled: HashMap<WaiterId, Result<Outcome, Refusal>> = turn.settled.into_iter().collect();
        let records = turn.records;
        for record in &records {
            if let Event::Reserved { id, .. } = &record.event {
                self.fences.insert(*id, record.seq);
                self.ids.insert(record.seq, *id);
            }
        }
        let shown = match &result {
            Ok(Outcome::Request(request)) => std::slice::from_ref(&**request),
            Ok(Outcome::Asked(requests)) => requests,
            _ => &[],
        };
        for request in shown {
            if !self.requests.contains(&request.id) {
                self.requests.push(request.id);
            }
        }
        let mut parts = vec![self.words(&result)];
        let granted_now = match &result {
            Ok(Outcome::Granted(grants)) => grants.iter().map(|grant| grant.fence).collect(),
            _ => Vec::new(),
        };
        let by_hand =
            matches!(result, Ok(Outcome::Released { .. } | Outcome::ReleasedLate { .. } | Outcome::Ended { .. }))
                && verb != "sweep";
        for record in &records {
            parts.extend(match &record.event {
                Event::Opened { session, .. } => {
                    (!matches!(verb, "opens" | "creates")).then(|| format!("opened {session}"))
                }
                Event::Bound { session, owner: Owner::Itself } => Some(format!("bound {session} to itself")),
                Event::Bound { session, owner: Owner::Worker { sub, .. } } => Some(format!("bound {session} to {sub}")),
                Event::Reopened { session, .. } => Some(format!("reopened {session}")),
                Event::ReleasedAll { session } => Some(format!("{session} released everything")),
                Event::Ended { session, state } => {
                    (!by_hand).then(|| format!("ended {session} ({})", state_word(*state)))
                }
                Event::Reserved { session, key, .. } => (!granted_now.contains(&record.seq))
                    .then(|| format!("granted {} {} to {session}", record.seq, key.shown())),
                Event::Amended { id, mode, ttl, .. } => {
                    Some(format!("amended {} ({}, {})", self.fences[id], mode_word(*mode), ttl_words(*ttl)))
                }
                Event::Released { why: Why::Released | Why::Ended, .. } if by_hand => None,
                Event::Released { id, why, .. } => Some(format!("released {} ({})", self.fences[id], why_word(why))),
                Event::Queued { .. } => None,
                Event::Seated { waiter, .. } => Some(format!("seated {waiter}")),
                Event::Left { waiter, why, .. } => {
                    let more = settled.get(waiter).map(|result| self.words(result)).filter(|text| !text.is_empty());
                    let more = more.map(|text| format!(": {text}")).unwrap_or_default();
                    Some(format!("left {waiter} ({}{more})", left_word(*why)))
                }
                Event::Counted { conflicts, deadlocks } => Some(format!("counted {conflicts} and {deadlocks}")),
                Event::UnlockRequested { .. } => None,
                Event::UnlockAnswered { request, answer, .. } => match &result {
                    Ok(Outcome::Request(answered)) if answered.id == *request => None,
                    _ => Some(format!("{} {}", request_name(*request, &self.requests), answer_word(Some(*answer)))),
                },
                Event::Restored { kept, .. } => Some(format!("restored {kept}")),
                Event::Committed { contents, .. } => {
                    let keys: Vec<_> = contents.iter().map(|content| content.key.shown()).collect();
                    Some(format!("committed {}", keys.join(" and ")))
                }
            });
        }
        for record in &records {
            if let Event::Seated { waiter, session } = &record.event
                && let Some(Ok(Outcome::Granted(grants))) = settled.get(waiter)
            {
                self.granted.insert(*waiter, (session.clone(), grants.to_vec()));
            }
        }
        self.records.extend(records);
        parts
    }

    /// What is overdue and in the way of a request ends first, as at the desk: in as many steps as it takes.
    fn expire_in_the_way(&mut self, command: &Command, now: Timestamp) -> Vec<String> {
        let mut parts = Vec::new();
        loop {
            let mut turn = Turn::at(now);
            let is_complete = self.engine.expire_in_the_way(&mut turn, command);
            parts.extend(self.describe(Ok(Outcome::Done), turn, "tick").split_off(1));
            if is_complete {
                return parts;
            }
        }
    }

    /// Restarts from the records or from an image, both read from text as a journal stores them.
    fn restart(&mut self, line: &Line, now: Timestamp) -> Vec<String> {
        let policy = self.engine.policy().clone();
        self.engine = if line.keys.contains(&"image") {
            Engine::restore(policy, through_text(&self.engine.image()))
        } else {
            replay(policy, &self.records)
        };
        let mut turn = Turn::at(now);
        self.engine.resume(&mut turn);
        self.describe(Ok(Outcome::Done), turn, "restart").split_off(1)
    }

    /// Verbs that change nothing.
    fn look(&mut self, who: &str, verb: &str, line: &Line) -> Option<String> {
        let id = SessionId::parse(who).filter(|id| self.engine.session(id).is_some());
        let found = match verb {
            "checks" => {
                let key = self.key(line.keys[0]);
                let checked = match line.object("blob") {
                    Some(blob) => self.engine.check_content(id.as_ref(), 0, &key, blob),
                    None => self.engine.check(id.as_ref(), 0, &key, line.intent()),
                };
                let pause = id.as_ref().and_then(|id| self.engine.paused(id, None));
                let mut parts: Vec<_> = checked.conflicts.iter().map(conflict_words).collect();
                parts.sort();
                if parts.is_empty() {
                    let clear = if checked.carried { "carried" } else { "clear" };
                    parts.push(if checked.held { "held" } else { clear }.to_owned());
                }
                parts.extend(pause.as_ref().map(pause_words));
                parts
            }
            "holds" => self.engine.held(&id?).iter().map(|grant| grant_words(grant, true)).collect(),
            "hears" => {
                self.engine.take_notices(&id?).into_iter().map(|notice| notice_words(&notice, &self.requests)).collect()
            }
            _ => return None,
        };
        Some(if found.is_empty() { "nothing".to_owned() } else { found.join(", ") })
    }

    fn command(&mut self, who: &str, verb: &str, line: &Line) -> (Actor, Command) {
        let actor = match who {
            "tick" | "sweep" | "count" | "desk" => Actor::Desk,
            "admin" => Actor::Admin("admin".into()),
            "reader" => Actor::Reader,
            _ => Actor::Session(self.intro(who, line)),
        };
        let this = &*self;
        let named = |text: &&str| {
            let key = this.key(text);
            let literal =
                (key.kind() == Kind::Glob).then(|| Key::literal(text.as_bytes(), &this.rules()).ok()).flatten();
            KeyName { key, literal }
        };
        let session = || match &actor {
            Actor::Session(intro) => intro.id.clone(),
            _ => SessionId::parse(line.keys[0]).expect("a session id"),
        };
        let text = |name| line.options.get(name).map(|text: &&str| (*text).into());
        let number = |at: usize| Seq(line.keys[at].trim_start_matches('#').parse().expect("a number like #3"));
        let command = match verb {
            "opens" => Command::Touch,
            "creates" => {
                Command::Create { session: session(), name: text("name"), feature: text("feature"), owner: None }
            }
            "reserves" => {
                let keys: Vec<Key> = line.keys.iter().map(|key| this.key(key)).collect();
                let ttl = line.ttl().unwrap_or(Ttl::Plain(60));
                let wants = keys.into_iter().map(|key| Want { id: ReservationId(this.make_id()), key, ttl }).collect();
                let if_version = line.options.get("if").map(|text| text.parse().expect("a version"));
                let (wait, reason) = (line.time("wait"), text("reason"));
                Command::Reserve(Reserve { session: session(), wants, mode: line.mode(), reason, wait, if_version })
            }
            "allocates" => {
                let number = |text: &str| text.parse::<u16>().expect("a port");
                let (first, last) = line.options["ports"].split_once('-').expect("a range like 100-119");
                let (first, last) = (number(first), number(last));
                let start = line.options.get("start").map_or(first, |text| number(text));
                let busy = line.options.get("busy").into_iter().flat_map(|text| text.split(',')).map(number).collect();
                let ids = (0..number(line.options["count"])).map(|_| ReservationId(this.make_id())).collect();
                let (ttl, reason, range) =
                    (line.ttl().unwrap_or(Ttl::Plain(60)), None, PortRange { first, last, start });
                Command::AllocatePorts(AllocatePorts { session: session(), ids, ttl, reason, range, busy })
            }
            "releases" if line.keys == ["everything"] => Command::ReleaseAll { session: session() },
            "releases" => Command::Release { session: session(), keys: line.keys.iter().map(named).collect() },
            "renews" => {
                Command::Renew { session: session(), keys: line.keys.iter().map(named).collect(), ttl: line.ttl() }
            }
            "heartbeats" => Command::Heartbeat { session: session() },
            "ends" => {
                let state = match line.keys.last() {
                    Some(&"failed") => EndState::Failed,
                    Some(&"stopped") => EndState::Stopped,
                    _ => EndState::Completed,
                };
                Command::End { session: session(), state }
            }
            "overrides" => Command::Override { id: this.ids[&number(0)], reason: text("reason").expect("a reason") },
            "unheard" => {
                let (session, grants) = this.granted[&number(0).into()].clone();
                Command::Unheard { session, grants: grants.into() }
            }
            "gone" => Command::Leave { waiter: number(0).into(), why: LeftWhy::Gone },
            "asks" => {
                let (key, reason) = (named(&line.keys[0]), text("reason").expect("a reason"));
                Command::Ask { session: session(), request: this.make_id(), key, reason }
            }
            "approves" | "rejects" | "withdraws" => {
                let answer = match verb {
                    "approves" => UnlockAnswer::Approved,
                    "rejects" => UnlockAnswer::Rejected,
                    _ => UnlockAnswer::Withdrawn,
                };
                // An admin names the session in whose place it answers: `admin approves ana r1`.
                let request = if who == "admin" { line.keys[1] } else { line.keys[0] };
                let request: usize = request.trim_start_matches('r').parse().expect("a request like r1");
                let request = this.requests.get(request - 1).copied().unwrap_or(Uuid::max());
                let hand_over = line.keys.contains(&"handing-over").then(|| ReservationId(this.make_id()));
                Command::Respond { session: session(), request, answer, note: text("note"), hand_over }
            }
            "commits" => {
                let blob = line.object("blob").expect("a blob");
                let contents = line.keys.iter().map(|key| Content { key: this.key(key), blob }).collect();
                Command::RecordCommit { session: session(), contents }
            }
            "announces" => Command::AnnouncePush { session: session(), updates: line.updates() },
            "claims" => Command::ClaimPush { updates: line.updates() },
            "tick" | "stalls" => Command::Tick,
            "sweep" => Command::Sweep,
            "count" => Command::Count,
            _ => panic!("there is no verb {verb:?}"),
        };
        (actor, command)
    }

    /// `ana` has a token of her own, `ana@w1` that of a worker. A name, a feature or a time of issue given once
    /// stays in the token.
    fn intro(&mut self, who: &str, line: &Line) -> SessionIdentity {
        let (id, worker) = who.split_once('@').map_or((who, None), |(id, worker)| (id, Some(worker)));
        let owner = worker.map_or(Owner::Itself, |sub| Owner::Worker { iss: None, sub: sub.into() });
        let id = SessionId::parse(id).expect("a session id");
        let new = SessionIdentity { id, name: None, feature: None, owner, issued: None, hears_notices: true };
        let intro = self.tokens.entry(who.to_owned()).or_insert(new);
        intro.name = line.options.get("name").map(|text| (*text).into()).or(intro.name.clone());
        intro.feature = line.options.get("feature").map(|text| (*text).into()).or(intro.feature.clone());
        intro.issued = line.time("issued").map(|time| Timestamp(0).after(time)).or(intro.issued);
        intro.clone()
    }

    fn make_id(&self) -> Uuid {
        self.made.set(self.made.get() + 1);
        Uuid::from_u128(self.made.get())
    }

    fn rules(&self) -> KeyRules {
        KeyRules { fold_case: self.engine.policy().fold_case, ..KeyRules::default() }
    }

    fn key(&self, text: &str) -> Key {
        Key::parse(text, &self.rules()).expect("a key")
    }

    fn words(&self, result: &Result<Outcome, Refusal>) -> String {
        result_words(result, &self.requests)
    }
}

/// An engine that has replayed these records, read from text as a journal stores them.
pub fn replay(policy: Policy, records: &[Record]) -> Engine {
    let mut engine = Engine::new(policy);
    for record in records {
        engine.apply(&through_text(record));
    }
    engine
}

/// Writes a value as text and reads it again.
pub fn through_text<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).expect("it can be written")).expect("it can be read")
}

impl<'a> Line<'a> {
    fn cut(words: impl Iterator<Item = &'a str>) -> Line<'a> {
        let (mut keys, mut options) = (Vec::new(), HashMap::new());
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => drop(options.insert(name, value)),
                None if matches!(word, "shared" | "exclusive") => drop(options.insert("mode", word)),
                None => keys.push(word),
            }
        }
        Line { keys, options }
    }

    fn time(&self, name: &str) -> Option<Duration> {
        self.options.get(name).map(|text| time(text))
    }

    /// `ttl=60s`, or `while=60s` for a hold that lasts while its session gives signs of life.
    fn ttl(&self) -> Option<Ttl> {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).expect("a short time");
        let plain = self.time("ttl").map(|time| Ttl::Plain(seconds(time)));
        plain.or(self.time("while").map(|time| Ttl::WhileSession(seconds(time))))
    }

    /// What a check is for: `intent=change`, `intent=look`, or a reservation.
    fn intent(&self) -> Intent {
        match self.options.get("intent") {
            Some(&"change") => Intent::Change,
            Some(&"look") => Intent::Look,
            Some(&"reserve-now") => Intent::ReserveNow(self.mode()),
            Some(other) => panic!("there is no intent {other:?}"),
            None => Intent::Reserve(self.mode()),
        }
    }

    /// An object id, written as its last digits.
    fn object(&self, name: &str) -> Option<ObjectId> {
        self.options.get(name).map(|text| ObjectId::parse(&format!("{text:0>40}")).expect("hexadecimal digits"))
    }

    /// Updates of the named refs, all from `old` to `new`.
    fn updates(&self) -> Vec<RefUpdate> {
        let object = |name| self.object(name).expect("old and new");
        let update = |name: &&str| RefUpdate { name: (*name).into(), old: object("old"), new: object("new") };
        self.keys.iter().map(update).collect()
    }

    fn mode(&self) -> Mode {
        if self.options.get("mode") == Some(&"shared") { Mode::Shared } else { Mode::Exclusive }
    }
}

fn time(text: &str) -> Duration {
    let seconds = text.strip_suffix('s').and_then(|number| number.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or_else(|| panic!("{text:?} is not a time like 1.5s")))
}
