//! Seeded random commands for the engine and the model: both must answer the same, and invariants must hold.
//!
//! Each test runs many small simulations of its own kind, together more than a million commands. `DIBS_SIM_COMMANDS` sets
//! how many commands each test runs, `DIBS_SIM_SEED` selects one simulation. A failure prints its seed and its last commands;
//! the bug behind it becomes a scenario.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use git_dibs::engine::{
    Actor, AllocatePorts, Command, Conflict, CycleStep, EndState, Engine, Event, Grant, HOLDERS_LISTED, Image, Intent,
    KeyName, LeftWhy, Mode, Notice, Outcome, Owner, Policy, PortRange, Record, Refusal, ReservationId, Reserve, Seq,
    SessionId, SessionIdentity, Text, Timestamp, Ttl, Turn, UnlockAnswer, WaiterId, Want, Why,
};
use git_dibs::key::Key;
use uuid::Uuid;

use crate::keys::{FEATURES, KeySet, PORTS, Random};
use crate::model::{Hint, Model, ModelActor, ModelCommand, clash};
use crate::runner::{replay, through_text};

/// Commands of each test. Together the tests run more than a million.
const COMMANDS: usize = 180_000;
/// A simulation ends before its history gets long.
const COMMANDS_PER_SEED: usize = 5_000;
/// Clients at the same time; each has one session.
const CLIENTS: usize = 8;

#[test]
fn ordinary_settings() {
    play(1, false, Policy { session_timeout: Duration::from_secs(600), ..Policy::default() });
}

#[test]
fn folded_case() {
    play(2, true, Policy { session_timeout: Duration::from_secs(300), ..Policy::default() });
}

#[test]
fn tight_limits() {
    let (reservations_per_session, waiters_per_session, sessions) = (5, 2, CLIENTS);
    let session_timeout = Duration::from_secs(300);
    play(
        7,
        false,
        Policy { session_timeout, reservations_per_session, waiters_per_session, sessions, ..Policy::default() },
    );
}

#[test]
fn short_session_timeout() {
    play(4, false, Policy { session_timeout: Duration::from_secs(12), ..Policy::default() });
}

/// Most of what ends is still to be recorded when the next command comes.
#[test]
fn tiny_slices() {
    let session_timeout = Duration::from_secs(120);
    play(5, false, Policy { session_timeout, records_per_slice: 1, ..Policy::default() });
}

#[test]
fn small_slices() {
    let (session_timeout, reservations) = (Duration::from_secs(60), 40);
    play(6, true, Policy { session_timeout, records_per_slice: 3, reservations, ..Policy::default() });
}

fn play(kind: u64, fold_case: bool, policy: Policy) {
    let setting = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let policy = Policy { fold_case, ..policy };
    if let Some(seed) = setting("DIBS_SIM_SEED") {
        Simulation::new(seed, &policy).run(COMMANDS_PER_SEED);
        return;
    }
    let commands = setting("DIBS_SIM_COMMANDS").map_or(COMMANDS, |commands| commands as usize);
    let mut seen = BTreeMap::new();
    for number in 0..commands.div_ceil(COMMANDS_PER_SEED) as u64 {
        let mut simulation = Simulation::new(kind * 1_000_000 + number, &policy);
        simulation.run(COMMANDS_PER_SEED);
        for (what, count) in &simulation.seen {
            *seen.entry(*what).or_insert(0) += count;
        }
    }
    let rare = INTERESTING.iter().filter(|what| seen.get(*what).is_none_or(|count| *count < 20));
    let rare: Vec<_> = rare.map(|(what, how)| format!("{what} {how}")).collect();
    assert!(commands < COMMANDS || rare.is_empty(), "hardly ever seen: {rare:?}, of {seen:?}");
}

/// What must happen often enough in every test, or the test proves too little.
const INTERESTING: [(&str, &str); 16] = [
    ("answered", "granted"),
    ("answered", "refused"),
    ("answered", "queued"),
    ("answered", "deadlock"),
    ("answered", "wrong version"),
    ("answered", "paused"),
    ("answered", "lapsed"),
    ("answered", "not held"),
    ("answered", "session ended"),
    ("recorded", "reopened"),
    ("answered", "request"),
    ("settled", "granted"),
    ("settled", "wait over"),
    ("settled", "wrong version"),
    ("settled", "paused"),
    ("settled", "deadlock"),
];

fn word(result: &Result<Outcome, Refusal>) -> &'static str {
    match result {
        Ok(Outcome::Granted(_)) => "granted",
        Err(Refusal::Locked(_)) => "refused",
        Ok(Outcome::Queued(_)) => "queued",
        Err(Refusal::WaitOver { .. }) => "wait over",
        Err(Refusal::Deadlock(_)) => "deadlock",
        Err(Refusal::WrongVersion { .. }) => "wrong version",
        Err(Refusal::Paused(_)) => "paused",
        Err(Refusal::Lapsed { .. }) => "lapsed",
        Err(Refusal::NotHeld { .. }) => "not held",
        Err(Refusal::SessionEnded { .. }) => "session ended",
        Ok(Outcome::Request(_) | Outcome::Asked(_)) => "request",
        _ => "otherwise",
    }
}

/// A client's session, and the owner, the feature and the time of issue in its token.
type Client = (SessionId, usize, Option<&'static str>, Option<Timestamp>);

struct Simulation {
    random: Random,
    engine: Engine,
    /// An engine that only applies the records.
    follower: Engine,
    model: Model,
    now: Timestamp,
    records: Vec<Record>,
    clients: Vec<Client>,
    fences: HashMap<ReservationId, Seq>,
    made: u128,
    born: usize,
    /// Grants of waits, in case they do not reach their client.
    granted: VecDeque<(SessionId, Vec<Grant>)>,
    /// How often each outcome was seen.
    seen: BTreeMap<(&'static str, &'static str), usize>,
    last: Last,
}

/// The last commands, printed when a test fails.
struct Last {
    seed: u64,
    commands: VecDeque<(Timestamp, ModelActor, SessionId, ModelCommand)>,
}

impl Drop for Last {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} (run it alone with DIBS_SIM_SEED); its last commands:", self.seed);
            for (now, who, session, ask) in &self.commands {
                eprintln!("  {:>9.3}s {who:?} {session} {ask:?}", now.0 as f64 / 1000.0);
            }
        }
    }
}

impl Simulation {
    fn new(seed: u64, policy: &Policy) -> Simulation {
        let mut random = Random::new(seed);
        let keyset = KeySet::new(&mut random, policy.fold_case);
        let mut simulation = Simulation {
            random,
            engine: Engine::new(policy.clone()),
            follower: Engine::new(policy.clone()),
            model: Model::new(keyset, policy.clone()),
            now: Timestamp(1_000_000),
            records: Vec::new(),
            clients: Vec::new(),
            fences: HashMap::new(),
            made: 0,
            born: 0,
            granted: VecDeque::new(),
            seen: BTreeMap::new(),
            last: Last { seed, commands: VecDeque::new() },
        };
        for _ in 0..CLIENTS {
            let client = simulation.new_client();
            simulation.clients.push(client);
        }
        simulation
    }

    fn run(&mut self, commands: usize) {
        for step in 1..=commands {
            let pace = self.random.below(100);
            let passed = match pace {
                0..60 => 0,
                60..97 => self.random.below(1_500),
                _ => self.random.below(12_000),
            };
            self.now = self.now.after(Duration::from_millis(passed as u64));
            if self.random.percent(2) {
                // The server did not listen for a while: the clock goes on, deadlines do not.
                let stall = Duration::from_millis(self.random.below(90_000) as u64);
                self.now = self.now.after(stall);
                self.engine.lose_time(stall);
                self.model.lose_time(stall);
            }
            // As the desk does: everything that is due ends before the next command.
            if self.engine.next_due().is_some_and(|due| due <= self.now) {
                self.ask(ModelActor::Desk, &self.clients[0].0.clone(), ModelCommand::Tick);
            }
            if self.engine.has_backlog() && self.random.percent(40) {
                self.ask(ModelActor::Desk, &self.clients[0].0.clone(), ModelCommand::Sweep);
            }
            self.nothing_is_overdue();
            let (who, session, ask) = self.command();
            self.expire_in_the_way(&session, &ask);
            self.ask(who, &session, ask);
            self.check_invariants();
            self.look(step);
            if self.random.below(1_500) == 0 {
                self.restart();
            }
        }
        let replayed = replay(self.engine.policy().clone(), &self.records);
        assert_same(&replayed.image(), &self.engine.image(), "a replay of the written records equals the live state");
    }

    /// Sends one command to both and compares the results.
    fn ask(&mut self, who: ModelActor, session: &SessionId, ask: ModelCommand) {
        if self.last.commands.len() == 20 {
            self.last.commands.pop_front();
        }
        self.last.commands.push_back((self.now, who, session.clone(), ask.clone()));
        let (actor, command) = self.engine_command(who, session, &ask);
        let mut turn = Turn::at(self.now);
        let result = self.engine.execute(&mut turn, &actor, command);
        let Turn { records: out, settled, .. } = turn;
        *self.seen.entry(("answered", word(&result))).or_insert(0) += 1;
        for (_, result) in &settled {
            *self.seen.entry(("settled", word(result))).or_insert(0) += 1;
        }
        for record in &out {
            self.follow(record, &ask);
            if matches!(record.event, Event::Reopened { .. }) {
                *self.seen.entry(("recorded", "reopened")).or_insert(0) += 1;
            }
        }
        let lost = out.iter().filter_map(|record| match &record.event {
            Event::Ended { session, state: EndState::Lost } => Some(session.clone()),
            _ => None,
        });
        let queued = if let Ok(Outcome::Queued(seq)) = result { seq } else { WaiterId::LAST };
        let hint = Hint { queued, lost: lost.collect(), expired: expired(&out) };
        if let Err(Refusal::Deadlock(cycle)) = &result {
            self.assert_is_cycle(cycle);
        }
        let expected = self.model.execute(who, session, &ask, self.now, &hint);
        let (result, mut expected) = (self.plain(result), in_order(expected));
        list_alike(&result, &mut expected);
        assert_eq!(result, expected, "the result (engine left, model right)");
        for (seq, result) in &settled {
            if let Ok(Outcome::Granted(grants)) = result {
                let seated = out.iter().find_map(|record| match &record.event {
                    Event::Seated { waiter, session } if waiter == seq => Some(session.clone()),
                    _ => None,
                });
                self.granted.push_back((seated.expect("a grant of a wait is on record"), grants.to_vec()));
                self.granted.truncate(16);
            }
        }
        let settled: Vec<_> = settled.into_iter().map(|(seq, result)| (seq, self.plain(result))).collect();
        let expected = std::mem::take(&mut self.model.settled);
        let mut expected: Vec<_> = expected.into_iter().map(|(seq, result)| (seq, in_order(result))).collect();
        for ((_, result), (_, expected)) in settled.iter().zip(&mut expected) {
            list_alike(result, expected);
        }
        assert_eq!(settled, expected, "the waits that ended (engine left, model right)");
        self.records.extend(out);
    }

    /// What is overdue and in the way of a request ends first, as at the desk.
    fn expire_in_the_way(&mut self, session: &SessionId, ask: &ModelCommand) {
        if self.engine.next_due().is_none_or(|due| due > self.now) {
            return;
        }
        let (_, command) = self.engine_command(ModelActor::Desk, session, ask);
        loop {
            let mut turn = Turn::at(self.now);
            let is_complete = self.engine.expire_in_the_way(&mut turn, &command);
            for record in &turn.records {
                self.follow(record, ask);
            }
            let hint = Hint { queued: WaiterId::LAST, lost: Vec::new(), expired: expired(&turn.records) };
            *self.seen.entry(("expired", "in the way")).or_insert(0) += hint.expired.len();
            self.model.expire_in_the_way(ask, self.now, &hint);
            let settled = self.model.settled.len();
            assert_eq!(turn.settled.len(), settled, "the waits that ended");
            self.model.settled.clear();
            self.records.extend(turn.records);
            if is_complete {
                return;
            }
        }
    }

    /// A record is the next one, happened now, and has a reason that fits what was asked.
    fn follow(&mut self, record: &Record, ask: &ModelCommand) {
        assert_eq!(record.at, self.now);
        self.follower.apply(record); // which insists on the next number
        match &record.event {
            Event::Reserved { id, .. } => {
                assert!(self.fences.values().all(|fence| *fence < record.seq), "fences only grow");
                assert!(self.fences.insert(*id, record.seq).is_none(), "a reservation is granted once");
            }
            Event::Released { id, why, .. } => {
                assert!(self.fences.remove(id).is_some(), "only what is held is released");
                let fits = match why {
                    Why::Released if matches!(ask, ModelCommand::Release(_)) => true,
                    Why::Released | Why::Ended => {
                        let answers = matches!(ask, ModelCommand::Respond { .. });
                        let ends = matches!(ask, ModelCommand::ReleaseAll | ModelCommand::End(_) | ModelCommand::Tick);
                        answers || ends || matches!(ask, ModelCommand::Sweep)
                    }
                    Why::Expired => matches!(ask, ModelCommand::Tick | ModelCommand::Reserve { .. }),
                    Why::Overridden { .. } => matches!(ask, ModelCommand::Override(_) | ModelCommand::Respond { .. }),
                    Why::Approved { request } => matches!(ask, ModelCommand::Respond { id, .. } if id == request),
                    Why::Unheard => matches!(ask, ModelCommand::Unheard(_)),
                };
                assert!(fits, "{why:?} is no reason when {ask:?} was asked");
            }
            _ => {}
        }
    }

    /// The result without what the model cannot know.
    fn plain(&self, mut result: Result<Outcome, Refusal>) -> Result<Outcome, Refusal> {
        match &mut result {
            Ok(Outcome::Granted(grants)) => {
                for grant in grants {
                    let known = self.fences.get(&grant.id).is_none_or(|fence| *fence == grant.fence);
                    assert!(known, "a fence is the number of its grant");
                    grant.fence = Seq::ZERO;
                }
            }
            Err(Refusal::Deadlock(cycle)) => cycle.clear(),
            _ => {}
        }
        in_order(result)
    }

    /// Each session waits for something the next one has. All of these waits exist, except the one that was refused.
    fn assert_is_cycle(&self, cycle: &[CycleStep]) {
        assert!(cycle.len() > 1, "{cycle:?}");
        let number = |id: &SessionId| self.model.sessions.iter().position(|session| session.id == *id).unwrap();
        let mut imagined = 0;
        for (step, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
            let (wants, has) = (self.model.keyset.number(&step.wants), self.model.keyset.number(&next.holds));
            assert!(self.model.keyset.meet(wants, has), "{cycle:?}");
            let (from, to) = (number(&step.session), number(&next.session));
            let real = self.model.waits_of(from).any(|wait| self.model.waits_for(wait).contains(&to));
            imagined += usize::from(!real);
        }
        assert!(imagined <= 1, "{cycle:?}");
    }

    fn nothing_is_overdue(&self) {
        if self.engine.policy().records_per_slice < CLIENTS {
            return;
        }
        assert!(
            self.model.held.iter().all(|held| self.model.deadline(held) > self.now),
            "a reservation outlived its deadline"
        );
        assert!(self.model.waits.iter().all(|wait| wait.until > self.now), "a wait outlived its deadline");
    }

    fn check_invariants(&self) {
        let Model { held, waits, sessions, keyset, .. } = &self.model;
        for (at, one) in held.iter().enumerate() {
            assert!(sessions[one.session].ended.is_none(), "an ended session holds nothing");
            for other in &held[..at] {
                let both =
                    one.session != other.session && clash(one.mode, other.mode) && keyset.meet(one.key, other.key);
                assert!(!both, "{:?} and {:?} are held at once", keyset.key(one.key), keyset.key(other.key));
            }
        }
        for wait in waits {
            assert!(sessions[wait.session].ended.is_none(), "an ended session waits for nothing");
            // It is looked at when the releases are recorded.
            let is_late = !self.model.over.is_empty();
            assert!(is_late || self.model.is_blocked(wait), "a wait that could be granted is granted");
            assert!(is_late || !self.model.closes_a_cycle(wait), "no session waits in a cycle");
        }
        let numbers = self.engine.numbers();
        assert_eq!((numbers.reservations, numbers.waiters), (held.len(), waits.len()));
        let totals = git_dibs::engine::Totals {
            recorded_refusals: numbers.totals.recorded_refusals,
            ..self.model.totals.clone()
        };
        assert_eq!(numbers.totals, totals);
    }

    /// Compares some or all of the state; more expensive parts less often.
    fn look(&mut self, step: usize) {
        if step.is_multiple_of(3) {
            let key = self.any_key();
            let mode = self.any_mode();
            let intent =
                *self.random.pick(&[Intent::Reserve(mode), Intent::ReserveNow(mode), Intent::Change, Intent::Look]);
            let client = self.random.below(CLIENTS + 1);
            let id = self.clients.get(client).map(|(id, ..)| id.clone());
            let session = id.as_ref().and_then(|id| self.number(id));
            let asked = self.spelled(key);
            let mut seen = self.engine.check(id.as_ref(), 0, &asked, intent);
            let mut expected = self.model.check(session, key, intent);
            sort(&mut seen.conflicts);
            sort(&mut expected.conflicts);
            expected.conflicts = listed(&seen.conflicts, std::mem::take(&mut expected.conflicts));
            assert_eq!(seen, expected, "a check finds what a scan finds");
        }
        if step.is_multiple_of(16) {
            self.everything_is_the_same();
        }
        if step.is_multiple_of(50) {
            let client = self.random.below(CLIENTS);
            let id = self.clients[client].0.clone();
            if let Some(session) = self.number(&id) {
                let seen = self.engine.take_notices(&id);
                assert_eq!(words(seen), words(self.model.notices(session)), "the notices of a session");
            }
        }
        if step.is_multiple_of(1_000) {
            let image = self.engine.image();
            assert_same(&self.follower.image(), &image, "a replay equals the live state");
            let restored = Engine::restore(self.engine.policy().clone(), through_text(&image));
            assert_same(&restored.image(), &image, "an image comes back as it was");
            assert_eq!(restored.text_bytes(), self.engine.text_bytes(), "bytes are counted alike");
        }
    }

    fn everything_is_the_same(&self) {
        for (number, session) in self.model.sessions.iter().enumerate().rev().take(3 * CLIENTS) {
            let view = self.engine.session(&session.id).expect("a session is known");
            assert_eq!(view.state, session.ended.as_ref().map(|(state, ..)| *state));
            let waits: Vec<_> = self.model.waits_of(number).map(|wait| (wait.seq, wait.until)).collect();
            assert_eq!(view.waits.iter().map(|wait| (wait.waiter, wait.until)).collect::<Vec<_>>(), waits);
            if session.ended.is_none() {
                assert_eq!(view.last_seen, session.last_seen);
            }
            let held = (0..self.model.held.len()).filter(|at| self.model.held[*at].session == number);
            let expected: Vec<_> = held.map(|at| self.model.grant_of(at)).collect();
            let held = self.plain(Ok(Outcome::Granted(self.engine.held(&session.id).into())));
            let Ok(Outcome::Granted(held)) = held else { unreachable!() };
            assert_eq!(held.to_vec(), expected, "what {} holds", session.id);
            let (incoming, outgoing) = self.engine.requests(&session.id);
            let mut requests: Vec<_> = self.model.requests.iter().collect();
            requests.sort_by_key(|request| (request.at, request.id));
            let requests = requests.into_iter();
            assert!(incoming.iter().eq(requests.clone().filter(|request| request.holder == session.id)));
            assert!(outgoing.iter().eq(requests.filter(|request| request.by == session.id)));
        }
    }

    /// The server restarts, from its records or from an image.
    fn restart(&mut self) {
        self.now = self.now.after(Duration::from_millis(self.random.below(30_000) as u64));
        let policy = self.engine.policy().clone();
        self.engine = if self.random.percent(50) {
            replay(policy, &self.records)
        } else {
            Engine::restore(policy, through_text(&self.engine.image()))
        };
        let mut turn = Turn::at(self.now);
        self.engine.resume(&mut turn);
        assert!(turn.settled.is_empty(), "no client is left to receive a result");
        let out = turn.records;
        for record in &out {
            assert!(matches!(record.event, Event::Left { why: LeftWhy::Stopped, .. }));
            self.follow(record, &ModelCommand::Tick);
        }
        self.records.extend(out);
        self.model.resume(self.now);
        // After a restart, notices come again or not at all.
        for session in 0..self.model.sessions.len() {
            let id = &self.model.sessions[session].id;
            let has_more = |notice: &Notice| matches!(notice, Notice::More { notices: 1.., .. });
            while self.engine.take_notices(id).iter().any(has_more) {}
            self.model.sessions[session].notices.clear();
            self.model.sessions[session].untold = 0;
        }
    }

    // The next command.

    fn command(&mut self) -> (ModelActor, SessionId, ModelCommand) {
        let client = self.random.below(CLIENTS);
        let (id, owner, feature, issued) = self.clients[client].clone();
        let ended = self.number(&id).is_some_and(|number| self.model.sessions[number].ended.is_some());
        if ended && self.random.percent(60) {
            if self.random.percent(50) {
                self.clients[client] = self.new_client();
            } else {
                // A new token for the same session.
                (self.clients[client].2, self.clients[client].3) = (self.any_feature(), Some(self.now));
            }
            return self.command();
        }
        let owner = if self.random.percent(1) { owner + 1 } else { owner };
        // Now and then an older token, or one that does not tell when it was issued.
        let issued = match self.random.below(50) {
            0 => None,
            1 => issued.map(|issued| Timestamp(issued.0 - self.random.below(60_000) as i64)),
            _ => issued,
        };
        let actor = ModelActor::Session(client, owner, feature, issued);
        let who = if self.random.percent(4) { ModelActor::Admin } else { actor };
        let ask = match self.random.below(1000) {
            0..455 => self.any_reserve(&id),
            455..480 => {
                let count = 1 + self.random.below(3);
                let ids = (0..count).map(|_| ReservationId(self.make_id())).collect();
                let start = PORTS.start() + self.random.below(PORTS.len()) as u16;
                let busy = if self.random.percent(30) { vec![start] } else { Vec::new() };
                ModelCommand::Ports { ids, ttl: self.any_ttl(), start, busy }
            }
            480..560 => ModelCommand::Release(self.known_keys(&id)),
            560..575 => ModelCommand::ReleaseAll,
            575..630 => {
                let ttl = self.random.percent(30).then(|| self.any_ttl());
                ModelCommand::Renew(self.known_keys(&id), ttl)
            }
            630..690 => ModelCommand::Heartbeat,
            690..702 => {
                ModelCommand::End(*self.random.pick(&[EndState::Completed, EndState::Failed, EndState::Stopped]))
            }
            702..715 => return (ModelActor::Admin, id, ModelCommand::Create(self.any_feature())),
            715..740 => {
                let known = self.any_held().unwrap_or(ReservationId(Uuid::nil()));
                return (ModelActor::Admin, id, ModelCommand::Override(known));
            }
            740..750 => match self.granted.pop_front() {
                Some((session, grants)) => return (ModelActor::Desk, session, ModelCommand::Unheard(grants)),
                None => ModelCommand::Touch,
            },
            750..775 => {
                let waiters: Vec<WaiterId> = self.model.waits.iter().map(|wait| wait.seq).collect();
                let waiter = if waiters.is_empty() { WaiterId(1) } else { *self.random.pick(&waiters) };
                return (ModelActor::Desk, id, ModelCommand::Leave(waiter));
            }
            775..860 => {
                let (id, reason) = (self.make_id(), self.any_reason().unwrap_or("please".into()));
                let mut key = self.any_key();
                if self.random.percent(60) && !self.model.held.is_empty() {
                    key = self.model.held[self.random.below(self.model.held.len())].key;
                }
                ModelCommand::Request { id, key, reason }
            }
            860..965 => return self.any_answer(who, id),
            965..985 => ModelCommand::Touch,
            _ => return (ModelActor::Desk, id, ModelCommand::Count),
        };
        (who, id, ask)
    }

    fn any_reserve(&mut self, id: &SessionId) -> ModelCommand {
        let count = 1 + [0, 0, 0, 0, 1, 1, 2, 3][self.random.below(8)];
        let ttl = self.any_ttl();
        let mut wants: Vec<_> = (0..count).map(|_| (ReservationId(self.make_id()), self.any_key(), ttl)).collect();
        if count > 1 && self.random.percent(40) {
            // A wait may name what its session holds already.
            wants[0].1 = self.known_keys(id)[0];
        }
        // Ports are allocated, not reserved.
        for want in &mut wants {
            while self.model.keyset.key(want.1).text().starts_with("port:") {
                want.1 = self.any_key();
            }
        }
        let wait = self.random.percent(70).then(|| Duration::from_millis(1_000 + self.random.below(40_000) as u64));
        let version = self.model.versions[wants[0].1];
        let if_version = self.random.percent(12).then(|| version.saturating_sub(self.random.below(4) as u64 / 3));
        ModelCommand::Reserve { wants, mode: self.any_mode(), reason: self.any_reason(), wait, if_version }
    }

    /// An answer to some request, mostly a pending one and mostly from the session that should answer it.
    fn any_answer(&mut self, who: ModelActor, id: SessionId) -> (ModelActor, SessionId, ModelCommand) {
        let pending = self.model.requests.iter().filter(|request| request.answer.is_none());
        let recent = self.model.requests.iter().rev().take(10);
        let list: Vec<_> = if self.random.percent(80) { pending.cloned().collect() } else { recent.cloned().collect() };
        if list.is_empty() {
            return (who, id, ModelCommand::Touch);
        }
        let request = self.random.pick(&list).clone();
        let answer = *self.random.pick(&[
            UnlockAnswer::Approved,
            UnlockAnswer::Approved,
            UnlockAnswer::Rejected,
            UnlockAnswer::Withdrawn,
        ]);
        let hand_over = self.random.percent(60).then(|| ReservationId(self.make_id()));
        let right = if answer == UnlockAnswer::Withdrawn { &request.by } else { &request.holder };
        let ask = ModelCommand::Respond { id: request.id, answer, hand_over };
        match self.clients.iter().position(|(id, ..)| id == right) {
            Some(client) if !self.random.percent(10) => {
                let (id, owner, feature, issued) = self.clients[client].clone();
                (ModelActor::Session(client, owner, feature, issued), id, ask)
            }
            _ => (who, id, ask),
        }
    }

    /// Keys the session holds, mostly.
    fn known_keys(&mut self, id: &SessionId) -> Vec<usize> {
        let number = self.number(id);
        let held = self.model.held.iter().filter(|held| Some(held.session) == number);
        let mine: Vec<usize> = held.map(|held| held.key).collect();
        let count = 1 + self.random.below(8) / 5;
        let mut key = || {
            if mine.is_empty() || self.random.percent(12) { self.any_key() } else { *self.random.pick(&mine) }
        };
        (0..count).map(|_| key()).collect()
    }

    fn new_client(&mut self) -> Client {
        self.born += 1;
        let id = SessionId::parse(&format!("s{}", self.born)).unwrap();
        let issued = self.random.percent(80).then_some(self.now);
        (id, self.random.below(3), self.any_feature(), issued)
    }

    fn any_feature(&mut self) -> Option<&'static str> {
        self.random.percent(50).then(|| *self.random.pick(&FEATURES))
    }

    fn any_key(&mut self) -> usize {
        let key = self.random.below(self.model.keyset.keys.len());
        // Features are paused now and then, not most of the time.
        if self.model.keyset.pauses[key].is_some() && self.random.percent(80) { self.any_key() } else { key }
    }

    fn any_mode(&mut self) -> Mode {
        if self.random.percent(65) { Mode::Exclusive } else { Mode::Shared }
    }

    fn any_ttl(&mut self) -> Ttl {
        let seconds = 1 + self.random.below(60) as u32;
        if self.random.percent(25) { Ttl::WhileSession(seconds) } else { Ttl::Plain(seconds) }
    }

    fn any_reason(&mut self) -> Option<Text> {
        self.random.percent(30).then(|| (*self.random.pick(&["one", "two"])).into())
    }

    fn any_held(&mut self) -> Option<ReservationId> {
        let held = &self.model.held;
        (!held.is_empty()).then(|| held[self.random.below(held.len())].id)
    }

    fn make_id(&mut self) -> Uuid {
        self.made += 1;
        Uuid::from_u128(self.made)
    }

    fn number(&self, id: &SessionId) -> Option<usize> {
        self.model.sessions.iter().rposition(|session| session.id == *id)
    }

    // The same as commands of the engine.

    fn spelled(&mut self, key: usize) -> Key {
        self.random.pick(&self.model.keyset.keys[key]).clone()
    }

    fn named(&mut self, keys: &[usize]) -> Vec<KeyName> {
        let literal = |key: usize| self.model.keyset.literal[key].map(|file| self.model.keyset.key(file).clone());
        let literals: Vec<_> = keys.iter().map(|key| literal(*key)).collect();
        keys.iter().zip(literals).map(|(key, literal)| KeyName { key: self.spelled(*key), literal }).collect()
    }

    fn engine_command(&mut self, who: ModelActor, session: &SessionId, ask: &ModelCommand) -> (Actor, Command) {
        let actor = match who {
            ModelActor::Session(_, owner, feature, issued) => {
                let owner = match owner {
                    0 => Owner::Itself,
                    worker => Owner::Worker { iss: None, sub: format!("w{worker}").into() },
                };
                Actor::Session(SessionIdentity {
                    id: session.clone(),
                    name: None,
                    feature: feature.map(Into::into),
                    owner,
                    issued,
                    hears_notices: true,
                })
            }
            ModelActor::Admin => Actor::Admin("admin".into()),
            ModelActor::Desk => Actor::Desk,
        };
        let session = session.clone();
        let command = match ask.clone() {
            ModelCommand::Touch => Command::Touch,
            ModelCommand::Create(feature) => {
                Command::Create { session, name: None, feature: feature.map(Into::into), owner: None }
            }
            ModelCommand::Reserve { wants, mode, reason, wait, if_version } => {
                let want = |(id, key, ttl): (ReservationId, usize, Ttl)| Want { id, key: self.spelled(key), ttl };
                let wants = wants.into_iter().map(want).collect();
                Command::Reserve(Reserve { session, wants, mode, reason, wait, if_version })
            }
            ModelCommand::Ports { ids, ttl, start, busy } => {
                let range = PortRange { first: *PORTS.start(), last: *PORTS.end(), start };
                let busy = busy.into_iter().collect();
                Command::AllocatePorts(AllocatePorts { session, ids, ttl, reason: None, range, busy })
            }
            ModelCommand::Release(keys) => Command::Release { session, keys: self.named(&keys).into() },
            ModelCommand::ReleaseAll => Command::ReleaseAll { session },
            ModelCommand::Renew(keys, ttl) => Command::Renew { session, keys: self.named(&keys).into(), ttl },
            ModelCommand::Heartbeat => Command::Heartbeat { session },
            ModelCommand::End(state) => Command::End { session, state },
            ModelCommand::Override(id) => Command::Override { id, reason: "because".into() },
            ModelCommand::Unheard(grants) => Command::Unheard { session, grants: grants.into() },
            ModelCommand::Leave(waiter) => Command::Leave { waiter, why: LeftWhy::Gone },
            ModelCommand::Request { id, key, reason } => {
                let key = self.named(&[key]).remove(0);
                Command::Ask { session, request: id, key, reason }
            }
            ModelCommand::Respond { id, answer, hand_over } => {
                Command::Respond { session, request: id, answer, note: None, hand_over }
            }
            ModelCommand::Tick => Command::Tick,
            ModelCommand::Sweep => Command::Sweep,
            ModelCommand::Count => Command::Count,
        };
        (actor, command)
    }
}

/// What these records end because of its deadline.
fn expired(records: &[Record]) -> Vec<ReservationId> {
    let id = |record: &Record| match &record.event {
        Event::Released { id, why: Why::Expired, .. } => Some(*id),
        _ => None,
    };
    records.iter().filter_map(id).collect()
}

fn in_order(mut result: Result<Outcome, Refusal>) -> Result<Outcome, Refusal> {
    if let Err(Refusal::Locked(conflicts) | Refusal::WaitOver { conflicts, .. }) = &mut result {
        sort(conflicts);
    }
    result
}

/// The model lists all conflicts of a key, the engine only some of them. Where these are right, the model's result becomes
/// the same.
fn list_alike(seen: &Result<Outcome, Refusal>, expected: &mut Result<Outcome, Refusal>) {
    use Refusal::{Locked, WaitOver};
    if let (
        Err(Locked(seen) | WaitOver { conflicts: seen, .. }),
        Err(Locked(expected) | WaitOver { conflicts: expected, .. }),
    ) = (seen, expected)
    {
        *expected = listed(seen, std::mem::take(expected));
    }
}

fn listed(seen: &[Conflict], expected: Vec<Conflict>) -> Vec<Conflict> {
    let sessions = |list: &[Conflict]| list.iter().map(|one| one.who.session.clone()).collect::<BTreeSet<_>>().len();
    let mut all = Vec::new();
    for of_key in expected.chunk_by(|one, other| one.position == other.position) {
        let shown: Vec<Conflict> = seen.iter().filter(|one| one.position == of_key[0].position).cloned().collect();
        let more: usize = shown.iter().map(|one| one.more_holders).sum();
        // A hand-over leaves the giver out of what was listed.
        let is_right = more > 0
            && shown.len() + more == of_key.len()
            && shown.iter().all(|one| of_key.contains(&Conflict { more_holders: 0, ..one.clone() }))
            && (shown.len() < HOLDERS_LISTED || sessions(&shown) == sessions(of_key).min(HOLDERS_LISTED));
        all.extend(if is_right { shown } else { of_key.to_vec() });
    }
    all
}

/// The engine finds conflicts in the order of its index.
fn sort(conflicts: &mut [Conflict]) {
    for conflict in conflicts.iter_mut() {
        // Where case is folded, the example is spelled like one of the two keys.
        conflict.example = conflict.example.take().map(|path| path.to_lowercase());
    }
    if conflicts.len() > 1 {
        conflicts.sort_by_cached_key(|conflict| {
            (
                conflict.position,
                conflict.key.text().to_lowercase(),
                conflict.who.session.clone(),
                conflict.since,
                conflict.until,
            )
        });
    }
}

/// Compares two images part by part, so that a failure shows only the part that differs.
fn assert_same(one: &Image, other: &Image, what: &str) {
    if one != other {
        let [one, other] = [one, other].map(|image| serde_json::to_value(image).unwrap());
        for (part, value) in one.as_object().unwrap() {
            assert_eq!(value, &other[part], "{what}: {part}");
        }
        panic!("{what}");
    }
}

fn words(notices: Vec<Notice>) -> Vec<String> {
    let word = |notice: &Notice| match notice {
        // Keys that expire at the same moment are listed in any order, and only so many are listed. Where case does not
        // count, a key may be spelled in several ways.
        Notice::Lost { at, count, keys } => {
            let mut keys: Vec<_> = keys.iter().map(|key| key.text().to_lowercase()).collect();
            keys.sort();
            format!("lost {at:?} {count} {:?}", if keys.len() == 20 { vec![] } else { keys }).to_lowercase()
        }
        Notice::Expired { count, keys } => {
            let mut keys: Vec<_> = keys.iter().map(|key| key.text().to_lowercase()).collect();
            keys.sort();
            format!("expired {count} {:?}", if keys.len() == 20 { vec![] } else { keys })
        }
        notice => format!("{notice:?}").to_lowercase(),
    };
    let mut words: Vec<_> = notices.iter().map(word).collect();
    words.sort();
    words
}
