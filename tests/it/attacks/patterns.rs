//! Patterns that are expensive to compare. What is checked is the work of the desk, which every other session waits for.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};

use super::{metric, numbers};
use crate::http::request;
use crate::world::World;

/// The most work of one turn: that of one request, and of what was under way when it was used up. It is some tens of
/// milliseconds; without a limit the requests below took a thousand times as much.
const TURN_WORK_MAX: f64 = 60_000_000.0;

/// A pattern that overlaps no other one with another digit at its end, and is expensive to compare with it.
fn expensive(number: usize, digit: usize) -> String {
    let letter = |n: usize| char::from(b'a' + ((n * 7 + number * 3 + n * n * number) % 26) as u8);
    let word: String = (0..40).map(letter).collect();
    format!("*{number:04}{word}*[{digit}{}]", char::from(b'A' + digit as u8))
}

fn patterns(range: std::ops::Range<usize>, digit: usize) -> Vec<String> {
    range.map(|number| expensive(number, digit)).collect()
}

/// Four connections with 999 patterns each delayed another session's reserve by seconds.
#[test]
fn patterns_of_one_session_do_not_occupy_the_desk() {
    let (held, asked) = (numbers(40, 300), numbers(60, 999));
    let world = World::new();
    let ana = world.session("ana");
    for part in patterns(0..held, 0).chunks(100) {
        ana.reserve(json!({ "filePaths": part, "ttlSeconds": 300 })).ok();
    }
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (session, keys) =
                (format!("busy{number}"), patterns(1_000 * (number + 1)..1_000 * (number + 1) + asked, number + 1));
            let world = &world;
            scope.spawn(move || {
                let busy = world.session(&session);
                for _ in 0..2 {
                    // Granted, or refused because it is too much: that is up to the load of the machine.
                    let answer = busy.reserve(json!({ "filePaths": keys, "mode": "shared" }));
                    assert!(matches!(answer.status, 200 | 400 | 429), "{answer}");
                    busy.release_all();
                }
            });
        }
        let quiet = world.session("quiet");
        for number in 0..numbers(50, 500) {
            quiet.hold(&format!("quiet/{number}"));
        }
    });
    let work = metric(&world, "dibs_desk_turn_work_max");
    assert!(work < TURN_WORK_MAX, "{work}");
}

/// 300 held patterns and one check of 60 patterns, whose client left after a second, froze everybody for 40 s.
#[test]
fn a_check_of_patterns_whose_client_is_gone_does_not_occupy_the_desk() {
    let world = World::new();
    let ana = world.session("ana");
    for part in patterns(0..numbers(60, 300), 0).chunks(100) {
        ana.reserve(json!({ "filePaths": part, "ttlSeconds": 300 })).ok();
    }
    let (bearer, body) =
        (format!("Bearer {}", world.reader()), json!({ "paths": patterns(2_000..2_060, 1) }).to_string());
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let bytes = request("POST", "/api/check-conflicts", &headers, body.as_bytes());
    for _ in 0..numbers(3, 20) {
        let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
        world.session("quiet").hold("a");
    }
    let work = metric(&world, "dibs_desk_turn_work_max");
    assert!(work < TURN_WORK_MAX, "{work}");
    // A check of as many patterns that is waited for is complete, or says that it is too much.
    let answer = world.post("/api/check-conflicts", &world.reader(), json!({ "paths": patterns(3_000..3_060, 1) }));
    match answer.status {
        200 => assert_eq!(answer.ok()["conflicts"], json!([])),
        status => assert!(matches!(status, 400 | 429) && answer.json()["error"] != Value::Null, "{answer}"),
    }
}
