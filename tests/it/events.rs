//! The event stream: nothing is missed, nothing comes twice, and only permitted callers follow it.

use std::collections::BTreeMap;

use git_dibs::engine::{Engine, Policy, Seq};
use git_dibs::journal::{Journal, LoadItem, SqliteJournal};
use serde_json::{Value, json};

use crate::document::Document;
use crate::http::{Connection, Response, request};
use crate::mint;
use crate::world::{Run, World, text};

/// An open stream.
struct Stream {
    line: Connection,
    text: String,
    /// The `Last-Event-ID` a client would reconnect with.
    last_id: Option<u64>,
    /// The comments so far.
    comments: Vec<String>,
}

/// One event.
#[derive(Debug)]
struct Event {
    id: Option<u64>,
    name: String,
    data: Value,
}

impl Stream {
    #[track_caller]
    fn open(world: &World, query: &str, token: &str, last_id: Option<u64>) -> Stream {
        let (mut line, answer) = Stream::ask(world, query, token, last_id.map(|id| id.to_string()));
        if answer.status != 200 {
            panic!("{}", Stream::refusal(&mut line, answer));
        }
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert!(answer.header("x-request-id").is_some());
        Stream { line, text: String::new(), last_id, comments: Vec::new() }
    }

    fn ask(world: &World, query: &str, token: &str, last_id: Option<String>) -> (Connection, Response) {
        let mut line = world.connect();
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("authorization", &*bearer)];
        headers.extend(last_id.as_deref().map(|id| ("last-event-id", id)));
        line.send(&request("GET", &format!("/api/events{query}"), &headers, b"")).unwrap();
        let answer = line.head().unwrap();
        (line, answer)
    }

    fn refusal(line: &mut Connection, mut answer: Response) -> Response {
        let length = answer.header("content-length").unwrap().parse().unwrap();
        answer.body = line.exact(length).unwrap();
        answer
    }

    /// The response to a request that must be refused.
    #[track_caller]
    fn refused(world: &World, query: &str, token: &str, last_id: Option<&str>) -> Response {
        let (mut line, answer) = Stream::ask(world, query, token, last_id.map(str::to_owned));
        let answer = Stream::refusal(&mut line, answer);
        answer.check_ground_rules();
        Document::checked_in().check_describes("GET", "/api/events", &answer);
        answer
    }

    /// The next event; `None` once the stream or the connection has ended.
    fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(event) = self.read(&block) {
                    return Some(event);
                }
            }
            let chunk = self.line.chunk().ok()??;
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }

    /// Reads a block as a browser does: the id counts even without data.
    fn read(&mut self, block: &str) -> Option<Event> {
        let (mut id, mut name, mut data) = (None, String::new(), None);
        for line in block.lines() {
            match line.split_once(':').unwrap() {
                ("", comment) => self.comments.push(comment.trim().to_owned()),
                ("id", value) => id = Some(value.trim().parse().unwrap()),
                ("event", value) => name = value.trim().to_owned(),
                ("data", value) => data = Some(serde_json::from_str(value).unwrap()),
                (other, _) => panic!("{other} in {block}"),
            }
        }
        self.last_id = id.or(self.last_id);
        Some(Event { id, name, data: data? })
    }

    /// Every event up to and including this one.
    #[track_caller]
    fn until(&mut self, seq: u64) -> Vec<Event> {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|event: &Event| event.id != Some(seq)) {
            let event = self.next().unwrap_or_else(|| panic!("the stream ended before #{seq}: {seen:?}"));
            assert!(event.id.is_some_and(|id| id <= seq), "#{seq} was passed over: {event:?}");
            seen.push(event);
        }
        seen
    }

    /// The remaining events until the stream ends.
    fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// What is held, reconstructed from events alone.
#[derive(Default)]
struct Picture {
    last: u64,
    held: BTreeMap<String, Value>,
}

impl Picture {
    #[track_caller]
    fn apply(&mut self, event: &Event) {
        let data = &event.data;
        assert_eq!(event.id, Some(self.last + 1), "no gap, no repeat: {event:?}");
        assert_eq!((&data["seq"], &data["event"]), (&json!(event.id), &json!(event.name)));
        self.last += 1;
        let id = || text(&data["reservationId"]).to_owned();
        match &*event.name {
            "reserved" => {
                assert_eq!(data["fence"], data["seq"]);
                assert!(self.held.insert(id(), data.clone()).is_none(), "{event:?}");
            }
            "amended" => {
                let held = self.held.get_mut(&id()).unwrap();
                for field in ["mode", "reason"] {
                    held[field] = data[field].clone();
                }
            }
            "released" => assert!(self.held.remove(&id()).is_some(), "{event:?}"),
            _ => {}
        }
    }

    #[track_caller]
    fn shows(&self, reservations: &[Value]) {
        let fields = ["reservationId", "filePath", "sessionId", "mode", "reason", "reservedAt", "fence"];
        let told = |one: &Value| fields.map(|field| one[field].clone());
        let mut own: Vec<_> = self.held.values().map(told).collect();
        own.sort_by_key(|one| one[6].as_u64());
        assert_eq!(own, reservations.iter().map(told).collect::<Vec<_>>());
    }
}

/// Everything held, and the record it is current to.
fn look(world: &World) -> (Vec<Value>, u64) {
    let mut list = world.get("/api/reservations?limit=1000", &world.reader()).ok();
    let seq = list["seq"].as_u64().unwrap();
    (serde_json::from_value(list["reservations"].take()).unwrap(), seq)
}

/// Some of every kind of event.
fn live(world: &World, round: usize) {
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    let carl = world.session(&format!("carl-{round}"));
    ana.reserve(json!({ "filePaths": ["a", "b", "src/**"], "reason": "why" })).ok();
    let odd = json!({ "filePath": "file:x%0A y", "encoding": "percent" });
    ana.reserve(odd.clone()).ok();
    ana.reserve(json!({ "filePath": "a", "mode": "shared", "reason": "because" })).ok();
    bo.reserve(json!({ "filePath": "a", "mode": "shared" })).ok();
    bo.reserve(json!({ "filePath": "b" })).refused("RESOURCE_LOCKED");
    let asked = bo.post("unlock-requests", json!({ "filePath": "b", "reason": "please" })).expect(201);
    let approve = format!("unlock-requests/{}/approve", text(&asked["id"]));
    ana.post(&approve, json!({ "handOver": true })).ok();
    carl.reserve(json!({ "filePaths": ["c", "db:slot"], "ttlSeconds": 300 })).ok();
    let taken = carl.hold(&format!("taken/{round}"));
    let target = format!("/api/reservations/{}", text(&taken["reservationId"]));
    world.delete(&target, &world.admin(), json!({ "reason": "release night" })).ok();
    std::thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePath": "c", "waitSeconds": 60 }));
        carl.end();
        waiting.join().unwrap().ok();
    });
    ana.reserve(json!({ "filePath": format!("kept/{round}") })).ok();
    bo.post("files/release-all", json!({})).ok();
    ana.release("src/**");
    ana.release("a");
    ana.post("files/release", odd).ok();
}

#[test]
fn events_alone_show_what_is_held_across_restarts() {
    let mut world = World::new();
    let mut picture = Picture::default();
    let mut stream = Stream::open(&world, "?after=0", &world.reader(), None);
    let mut names = std::collections::BTreeSet::new();
    for round in 0..4 {
        live(&world, round);
        let (held, seq) = look(&world);
        assert!(!held.is_empty());
        // In every other round the server is killed before the events were read.
        if round % 2 == 0 {
            for event in stream.until(seq) {
                picture.apply(&event);
                names.insert(event.name);
            }
            picture.shows(&held);
        }
        match round {
            0 | 1 => assert_eq!(world.stop().status.code(), Some(0)),
            _ => world.kill(),
        }
        for event in stream.rest() {
            picture.apply(&event);
        }
        world.start();
        stream = Stream::open(&world, "?after=0", &world.reader(), stream.last_id);
    }
    world.session("ana").hold("last");
    let (held, seq) = look(&world);
    stream.until(seq).iter().for_each(|event| picture.apply(event));
    picture.shows(&held);
    assert_eq!((picture.last, held.len()), (seq, 5));
    let expected = ["amended", "ended", "opened", "queued", "released", "reserved", "seated"];
    let expected = expected.into_iter().chain(["unlockAnswered", "unlockRequested"]);
    assert!(expected.clone().all(|name| names.contains(name)), "{names:?}");
    // A client that starts in the middle lists what is held and follows from there.
    let (held, seq) = look(&world);
    let mut late = Picture { last: seq, held: BTreeMap::new() };
    late.held.extend(held.into_iter().map(|one| (text(&one["reservationId"]).to_owned(), one)));
    let mut stream = Stream::open(&world, &format!("?after={seq}"), &world.reader(), None);
    live(&world, 4);
    let (held, seq) = look(&world);
    stream.until(seq).iter().for_each(|event| late.apply(event));
    late.shows(&held);
}

#[test]
fn a_stream_starts_now_by_default() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("before");
    let mut stream = Stream::open(&world, "", &world.reader(), None);
    let granted = ana.reserve(json!({ "filePath": "after", "reason": "x" })).ok();
    let event = stream.next().unwrap();
    assert_eq!((event.id, &*event.name), (granted["fence"].as_u64(), "reserved"));
    for field in ["reservationId", "filePath", "sessionId", "mode", "reason", "reservedAt", "expiresAt", "fence"] {
        assert_eq!(event.data[field], granted[field], "{field}");
    }
    assert_eq!(event.data["ttlSeconds"], 60);
    // On a reconnect the header counts, not the URL of the first request.
    let seq = event.id.unwrap();
    let mut again = Stream::open(&world, "?after=0", &world.reader(), Some(seq - 1));
    assert_eq!(again.next().unwrap().id, Some(seq));
    let mut again = Stream::open(&world, "?after=1", &world.reader(), None);
    assert_eq!(again.next().unwrap().data["filePath"], "before");
    assert_eq!(again.next().unwrap().id, Some(seq));
    // The Unix socket and a session's own token work too.
    let mut own = Stream::open(&world, &format!("?after={}", seq - 1), &ana.token, None);
    assert_eq!(own.next().unwrap().id, Some(seq));
}

#[test]
fn the_history_shows_the_events_of_the_stream() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    ana.reserve(json!({ "filePaths": ["src/**", "db:x"], "reason": "all of it" })).ok();
    ana.post("files/renew", json!({ "filePath": "db:x", "ttlSeconds": 90 })).ok();
    let request = bo.post("unlock-requests", json!({ "filePath": "src/**", "reason": "please" })).expect(201);
    ana.post(&format!("unlock-requests/{}/approve", text(&request["id"])), json!({})).ok();
    ana.end();
    let history = world.get("/api/history", &world.reader()).ok();
    let mut rows = history["events"].as_array().unwrap().clone();
    rows.reverse();
    let last = rows.last().unwrap()["seq"].as_u64().unwrap();
    let stream = Stream::open(&world, "?after=0", &world.reader(), None).until(last);
    let kinds: Vec<&str> = stream.iter().map(|event| &*event.name).collect();
    assert!(kinds.contains(&"unlockAnswered") && kinds.contains(&"released") && kinds.contains(&"ended"), "{kinds:?}");
    assert!(rows.iter().any(|row| row["sessionName"] == "Ana"));
    for row in &mut rows {
        row.as_object_mut().unwrap().remove("sessionName");
    }
    // Counters are records too, but not part of the history.
    let streamed: Vec<Value> =
        stream.into_iter().filter(|event| event.name != "counted").map(|event| event.data).collect();
    assert_eq!(rows, streamed);
}

#[test]
fn a_stream_contains_only_the_selected_events() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let reader = world.reader();
    let mut of_bo = Stream::open(&world, "?session=bo", &reader, None);
    let mut of_src = Stream::open(&world, "?prefix=src/", &reader, None);
    let mut of_both = Stream::open(&world, "?prefix=src/&session=bo", &reader, None);
    ana.reserve(json!({ "filePaths": ["src/a", "doc/a"] })).ok();
    bo.reserve(json!({ "filePaths": ["src/b", "file:src/[b].ts", "doc/b"] })).ok();
    std::thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePaths": ["src/a", "doc/a"], "waitSeconds": 60 }));
        ana.end();
        waiting.join().unwrap().ok();
    });
    bo.end();
    let told = |stream: &mut Stream, count: usize| -> Vec<String> {
        let tell = |event: Event| {
            let path = event.data.get("filePath").map(text).unwrap_or_default().to_owned();
            format!("{} {path}", event.name).trim_end().to_owned()
        };
        (0..count).map(|_| tell(stream.next().unwrap())).collect()
    };
    let held_by_bo = ["src/b", "file:src/[b].ts", "doc/b"].map(|path| format!("reserved {path}"));
    let mut expected = vec!["opened".to_owned()];
    expected.extend(held_by_bo);
    expected.extend(["queued", "seated", "reserved src/a", "reserved doc/a"].map(str::to_owned));
    assert_eq!(told(&mut of_bo, 8), expected);
    let expected =
        ["reserved src/a", "reserved src/b", "reserved file:src/[b].ts", "queued", "released src/a", "reserved src/a"];
    assert_eq!(told(&mut of_src, 6), expected);
    let expected = ["reserved src/b", "reserved file:src/[b].ts", "queued", "reserved src/a"];
    assert_eq!(told(&mut of_both, 4), expected);
    let mut rest = told(&mut of_both, 3);
    rest.sort();
    assert_eq!(rest, ["released file:src/[b].ts", "released src/a", "released src/b"]);
}

#[test]
fn a_position_that_is_gone_is_reported_with_where_to_continue() {
    let mut world = World::new();
    world.session("ana").reserve(json!({ "filePaths": ["a", "b", "c"] })).ok();
    world.session("ana").release("b");
    let mut stream = Stream::open(&world, "?after=900", &world.reader(), None);
    let event = stream.next().unwrap();
    assert_eq!((event.id, &*event.name), (Some(5), "reset"));
    assert_eq!(event.data, json!({ "why": "unknown", "reload": "/api/reservations", "after": 5 }));
    world.session("ana").hold("d");
    assert_eq!(stream.next().unwrap().data["filePath"], "d", "it goes on after the reset");
    world.stop();
    drop_records_before(&world, Seq(5));
    world.start();

    let mut stream = Stream::open(&world, "?after=1", &world.reader(), None);
    let event = stream.next().unwrap();
    let (held, seq) = look(&world);
    assert_eq!((&*event.name, &event.data["why"], &event.data["after"]), ("reset", &json!("tooOld"), &json!(seq)));
    assert_eq!(stream.last_id, Some(seq));
    let mut picture = Picture { last: seq, held: BTreeMap::new() };
    picture.held.extend(held.into_iter().map(|one| (text(&one["reservationId"]).to_owned(), one)));
    world.session("bo").hold("e");
    let (held, seq) = look(&world);
    stream.until(seq).iter().for_each(|event| picture.apply(event));
    picture.shows(&held);
    // Events that are still there are sent.
    let mut stream = Stream::open(&world, "?after=4", &world.reader(), None);
    assert_eq!(stream.next().unwrap().id, Some(5));
}

/// The numbers of undone events are not given out again, so a position from before is never mistaken for a later one.
#[test]
fn a_position_from_before_a_restore_is_reported_with_where_to_continue() {
    let mut world = World::new();
    world.session("ana").hold("a");
    let copy = world.path("copy.db");
    let copy = copy.to_str().unwrap();
    assert!(world.dibs(&["db", "backup", copy]).run().status.success());
    world.session("ana").reserve(json!({ "filePaths": ["b", "c"] })).ok();
    world.stop();
    assert!(world.dibs(&["db", "restore", copy]).run().status.success());
    world.start();
    for last_id in [0, 2, 4] {
        let mut stream = Stream::open(&world, "", &world.reader(), Some(last_id));
        let event = stream.next().unwrap();
        let (_, seq) = look(&world);
        assert_eq!((event.id, &*event.name, &event.data["why"]), (Some(seq), "reset", &json!("restored")));
        assert!(seq >> 40 == 1 && event.data["after"] == seq, "{seq}");
        world.session("ana").hold("d");
        assert_eq!(stream.next().unwrap().data["filePath"], "d", "it goes on after the reset");
        world.session("ana").release("d");
        // A position from after the restore is as good as ever.
        let mut stream = Stream::open(&world, "", &world.reader(), Some(seq));
        assert_eq!(stream.next().unwrap().data["filePath"], "d");
    }
}

/// Truncates the journal, as a server does once it has grown long.
fn drop_records_before(world: &World, keep_from: Seq) {
    let journal = SqliteJournal::open(&world.path("repo/.git/dibs/journal.db")).unwrap();
    let mut engine = Engine::new(Policy::default());
    let mut reader = journal.reader().unwrap();
    let at = reader.load(Seq(u64::MAX), &mut |loaded| {
        if let LoadItem::Record(record) = loaded {
            engine.apply(&record);
        }
        Ok(())
    });
    reader.save_snapshot(at.unwrap(), &serde_json::to_vec(&engine.image()).unwrap(), keep_from).unwrap();
}

#[test]
fn bad_values_are_refused() {
    let world = World::new();
    let reader = world.reader();
    for (query, last_id, field) in [
        ("?after=x", None, "after"),
        ("?after=-1", None, "after"),
        ("?after=", None, "after"),
        ("?after=99999999999999999999", None, "after"),
        ("?session=a%20b", None, "session"),
        ("?session=", None, "session"),
        ("", Some("x"), "Last-Event-ID"),
        ("", Some("-1"), "Last-Event-ID"),
        ("", Some("+1"), "Last-Event-ID"),
        ("", Some(""), "Last-Event-ID"),
        ("?after=1", Some("99999999999999999999"), "Last-Event-ID"),
        ("", Some("\u{e9}"), "Last-Event-ID"),
    ] {
        let body = Stream::refused(&world, query, &reader, last_id).refused("INVALID_REQUEST");
        assert_eq!(body["field"], field, "{query} {last_id:?}: {body}");
    }
    assert!(Stream::ask(&world, "?after=18446744073709551615&prefix=%00", &reader, None).1.status == 200);
    world.post("/api/events", &reader, json!({})).refused("METHOD_NOT_ALLOWED");
    world.get("/api/events", "").refused("UNAUTHENTICATED");
    world.get("/api/events", "x.y.z").refused("UNAUTHENTICATED");
}

#[test]
fn streams_end_when_the_server_stops_and_do_not_hold_it_up() {
    let mut world = World::new();
    let mut streams: Vec<_> = (0..5).map(|_| Stream::open(&world, "", &world.reader(), None)).collect();
    world.session("ana").hold("a");
    let ended = world.stop();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), ""), "nobody was cut off");
    for stream in &mut streams {
        stream.rest();
        assert_eq!(stream.comments.last().map(|comment| &**comment), Some("the server is stopping"));
    }
}

#[test]
fn a_stream_ends_with_its_session_and_with_its_token() {
    let world = World::new();
    let ana = world.session("ana");
    let mut own = Stream::open(&world, "?session=bo", &ana.token, None);
    let mut other = Stream::open(&world, "", &world.reader(), None);
    world.session("bo").end();
    ana.hold("a");
    ana.end();
    world.session("bo2").hold("b");
    let names = |events: Vec<Event>| events.into_iter().map(|event| event.name).collect::<Vec<_>>();
    assert_eq!(names(own.rest()), ["opened", "ended"], "of bo, and nothing after its own end");
    assert_eq!(own.comments.last().unwrap(), "the session has ended");
    Stream::refused(&world, "", &ana.token, None).refused("SESSION_ENDED");
    while other.next().unwrap().data["filePath"] != "b" {}

    // A token is accepted for 30 s after its expiry.
    let token = world.token(json!({ "sub": "looker", "scope": "read", "exp": mint::now() - 27 }));
    let mut stream = Stream::open(&world, "", &token, None);
    assert_eq!(names(stream.rest()), [""; 0]);
    assert_eq!(stream.comments.last().unwrap(), "the token is not valid any more");
    Stream::refused(&world, "", &token, None).refused("UNAUTHENTICATED");
    world.session("carl").hold("c");
    while other.next().unwrap().data["filePath"] != "c" {}
}

#[test]
fn following_a_repository_needs_its_token() {
    let (world, data) = World::of_two(["one", "two"]);
    let secret = crate::world::secret_in(&data);
    let token = |claims: Value| mint::hs256(&mint::claims(claims), &secret);
    let in_one = token(json!({ "sub": "looker", "scope": "read", "repo": "one" }));
    let in_two = token(json!({ "sub": "ana", "repo": "two" }));
    let admin = token(json!({ "sub": "ops", "scope": "admin" }));
    Stream::refused(&world, "?repo=two", &in_one, None).refused("FORBIDDEN");
    Stream::refused(&world, "?repo=three", &in_one, None).refused("FORBIDDEN");
    Stream::refused(&world, "", &token(json!({ "sub": "a", "repo": "three" })), None).refused("FORBIDDEN");
    Stream::refused(&world, "", &token(json!({ "sub": "a" })), None).refused("UNAUTHENTICATED");
    Stream::refused(&world, "", &admin, None).refused("INVALID_REQUEST");
    let mut one = Stream::open(&world, "?after=0", &in_one, None);
    let mut two = Stream::open(&world, "?after=0&repo=two", &admin, None);
    world.post("/api/sessions/ana/files/reserve", &in_two, json!({ "filePath": "secret" })).ok();
    let in_one = token(json!({ "sub": "bo", "repo": "one" }));
    world.post("/api/sessions/bo/files/reserve", &in_one, json!({ "filePath": "open" })).ok();
    for (stream, session, path) in [(&mut one, "bo", "open"), (&mut two, "ana", "secret")] {
        let events = stream.until(2);
        assert_eq!((&events[0].data["sessionId"], &events[1].data["filePath"]), (&json!(session), &json!(path)));
    }
}

#[test]
fn a_session_receives_its_notices_on_the_stream() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    bo.post("unlock-requests", json!({ "filePath": "a", "reason": "please" })).expect(201);
    let mut stream = Stream::open(&world, "", &ana.token, None);
    let event = stream.next().unwrap();
    assert_eq!((event.id, &*event.name), (None, "notices"));
    assert_eq!(event.data["notices"][0]["kind"], "unlockRequested");
}

#[test]
fn a_live_stream_tells_of_renewals_and_signs_of_life() {
    let world = World::new();
    let ana = world.session("ana");
    let held = ana.hold("a");
    let mut stream = Stream::open(&world, "?live=1", &world.reader(), None);
    ana.post("heartbeat", json!({})).ok();
    let live = std::iter::from_fn(|| stream.next()).find(|event| event.name == "live").expect("a live event");
    assert_eq!(live.data["sessions"][0]["sessionId"], "ana", "{}", live.data);
    assert_eq!(live.data["reservations"][0]["reservationId"], held["reservationId"], "{}", live.data);
    assert!(text(&live.data["reservations"][0]["expiresAt"]) > text(&held["expiresAt"]), "{}", live.data);
    Stream::refused(&world, "?live=yes", &world.reader(), None).refused("INVALID_REQUEST");
}
