//! A lot of reservations, and a lot of changes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::dice::{Dice, number_from_env};
use crate::world::{Session, World};

const HELD: usize = 10_000;

/// Reserves this many files in directories, a few at a time.
fn reserve_many(world: &World, count: usize) {
    let sessions: Vec<Session> = (0..10).map(|n| world.named(&format!("agent-{n}"), &format!("Agent {n}"))).collect();
    let keys: Vec<String> = (0..count).map(|n| format!("src/module{}/part{}/file{n}.rs", n % 100, n % 7)).collect();
    for (n, some) in keys.chunks(1000).enumerate() {
        let body = json!({ "filePaths": some, "ttlSeconds": 300, "reason": "a large change" });
        sessions[n % sessions.len()].reserve(body).ok();
    }
}

#[test]
fn ten_thousand_reservations_scroll() {
    let world = World::new();
    reserve_many(&world, HELD);
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.until(
        "all are known",
        "return document.querySelector('nav a[aria-current] .count')?.textContent === '10,000'",
    );
    assert!(
        browser.run("return document.querySelectorAll('tr.held').length < 100") == true,
        "only what is visible is in the page"
    );
    assert!(
        browser.run("return Number(document.querySelector('table.rows').getAttribute('aria-rowcount')) > 10000")
            == true
    );
    // To the end and back: the last rows are there, with their numbers.
    browser.run("scrollTo(0, document.documentElement.scrollHeight)");
    browser.until("the last row is there", "const rows = [...document.querySelectorAll('tr.held')]; return rows.at(-1)?.getAttribute('aria-rowindex') === document.querySelector('table.rows').getAttribute('aria-rowcount')");
    browser.run("scrollTo(0, 0)");
    browser.until("the first row is there", "return document.querySelector('#rows tr[aria-rowindex=\"2\"]') !== null");
    browser.type_into("#filter", "file4321.rs");
    browser.lists("src/module21/part2/file4321.rs", true);
    assert_eq!(browser.run("return document.querySelectorAll('tr.held').length"), 1);
    browser.check_console(&[]);
}

/// Answers an open request to this session, or withdraws one of its own, if there is one.
fn answer_some(session: &Session, dice: &mut Dice) {
    let lists = session.get("unlock-requests").ok();
    let open = |name: &str| {
        let is_open = |one: &&Value| one["status"] == "pending";
        Some(lists[name].as_array()?.iter().find(is_open)?["id"].as_str()?.to_owned())
    };
    let call = |id: String, end: &str, body: Value| drop(session.post(&format!("unlock-requests/{id}/{end}"), body));
    match (open("incoming"), open("outgoing"), dice.below(4)) {
        (Some(id), _, 0) => call(id, "approve", json!({})),
        (Some(id), _, 1) => call(id, "approve", json!({ "handOver": true })),
        (Some(id), _, 2) => call(id, "reject", json!({ "note": "not now" })),
        (_, Some(id), _) => {
            let target = session.url(&format!("unlock-requests/{id}"));
            drop(session.world.delete(&target, &session.token, json!({})));
        }
        _ => {}
    }
}

/// Random changes of several sessions; then the page and the server must say the same.
#[test]
fn the_page_and_the_server_agree_after_a_thousand_random_changes() {
    let world = World::new();
    let sessions: Vec<Session> = (0..5).map(|n| world.named(&format!("s{n}"), &format!("Session {n}"))).collect();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    let seed = number_from_env("DIBS_SEED", 7);
    let mut dice = Dice::new(seed);
    let changes = number_from_env("DIBS_CHANGES", 1000);
    for _ in 0..changes {
        let session = &sessions[dice.below(5) as usize];
        let key = match dice.below(10) {
            0 => format!("dir{}/**", dice.below(5)),
            1 => format!("db:slot{}", dice.below(5)),
            2 => format!("deploy://host{}", dice.below(5)),
            _ => format!("dir{}/sub{}/file{}.rs", dice.below(5), dice.below(3), dice.below(20)),
        };
        let mode = if dice.below(4) == 0 { "shared" } else { "exclusive" };
        // Refusals are part of it.
        match dice.below(20) {
            0..=10 => drop(session.reserve(json!({ "filePath": key, "mode": mode, "ttlSeconds": 300, "reason": format!("why {}", dice.below(100)) }))),
            11..=16 => drop(session.post("files/release", json!({ "filePath": key }))),
            17 => match dice.below(8) {
                0 => drop(session.post("files/release-all", json!({}))),
                _ => answer_some(session, &mut dice),
            },
            18 => drop(session.post("unlock-requests", json!({ "filePath": key, "reason": "a fix" }))),
            _ => drop(session.post("heartbeat", json!({}))),
        }
    }
    sessions[4].end();
    let page = "const one = store.data; done({
        reservations: [...one.reservations.values()].map((one) => [one.id, one.key, one.sessionId, one.mode, one.reason, one.since, one.fence, one.ttl]).sort(),
        inOrder: one.order.every((next, n) => n === 0 || one.order[n - 1].sortText <= next.sortText) && one.order.length === one.reservations.size && one.order.every((next) => one.reservations.get(next.id) === next),
        sessions: [...one.sessions.values()].map((one) => [one.id, one.name, one.state, one.held]).sort(),
        requests: [...one.requests.values()].map((one) => [one.id, one.key, one.by, one.holder, one.status, one.reason, one.note, one.handedOver]).sort(),
        waits: one.waits.size })";
    let list = |target: &str, name: &str| world.get(target, &world.reader()).ok()[name].as_array().unwrap().clone();
    let sorted = |mut rows: Vec<Value>| {
        rows.sort_by_key(|row| row[0].as_str().unwrap().to_owned());
        Value::from(rows)
    };
    let expected = || {
        let time = |value: &Value| crate::support::world::time(value);
        let held = world.reservations();
        let row = |one: &Value| {
            json!([
                one["reservationId"],
                one["filePath"],
                one["sessionId"],
                one["mode"],
                one["reason"],
                time(&one["reservedAt"]),
                one["fence"],
                one["ttlSeconds"].as_i64().unwrap() * 1000
            ])
        };
        let session = |one: &Value| {
            let count = held.iter().filter(|reservation| reservation["sessionId"] == one["sessionId"]).count();
            json!([one["sessionId"], one["name"], one["state"], count])
        };
        let request = |one: &Value| {
            let handed_over = one["handedOver"] == true;
            json!([
                one["id"],
                one["filePath"],
                one["requestedBy"],
                one["reservedBy"],
                one["status"],
                one["reason"],
                one["note"],
                handed_over
            ])
        };
        json!({
            "reservations": sorted(held.iter().map(row).collect()),
            "inOrder": true,
            "sessions": sorted(list("/api/sessions?limit=1000", "sessions").iter().map(session).collect()),
            "requests": sorted(list("/api/unlock-requests?limit=1000", "requests").iter().map(request).collect()),
            "waits": 0,
        })
    };
    let script = format!(
        "(async () => {{ const {{ store }} = await import(document.querySelector('script[type=module]').src.replace('app.js', 'store.js')); {page} }})()"
    );
    let start = Instant::now();
    loop {
        let (shown, server) = (browser.run_async(&script), expected());
        if shown == server {
            for (name, least) in [("reservations", 10), ("sessions", 5), ("requests", 5)] {
                let count = server[name].as_array().unwrap().len();
                assert!(count >= least, "seed {seed}: {count} {name} are too few to compare");
            }
            break;
        }
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "seed {seed}: the page has {shown:#}\nthe server has {server:#}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    browser.check_console(&[]);
}
