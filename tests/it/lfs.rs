//! Git LFS locking: the four calls, who may do what, and how the protocol's traps are avoided.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::mint::{self, base64url};
use crate::support::lfs::{LfsClient, check, paths};
use crate::world::{Run, World, text, time, until};

const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;

fn client<'w>(world: &'w World, session: &str) -> LfsClient<'w> {
    LfsClient::new(world, &world.session(session).token)
}

/// Basic credentials, with padding as clients send it.
fn basic(user: &str, password: &str) -> String {
    let mut coded = base64url(format!("{user}:{password}").as_bytes()).replace('-', "+").replace('_', "/");
    while !coded.len().is_multiple_of(4) {
        coded.push('=');
    }
    format!("Basic {coded}")
}

#[test]
fn a_lock_is_a_reservation_and_a_reservation_is_a_lock() {
    let world = World::new();
    let ana = world.session_with("ana", json!({ "name": "Ana Ünal" }));
    let (of_ana, bo) = (LfsClient::new(&world, &ana.token), client(&world, "bo"));
    let lock = of_ana.lock("art/ä b.png");
    assert_eq!((&lock["path"], &lock["owner"]["name"]), (&json!("art/ä b.png"), &json!("Ana Ünal")));
    assert_eq!(world.held(), ["ana art/ä b.png"]);
    let held = &world.reservations()[0];
    assert_eq!(held["mode"], "exclusive");
    assert!(text(&lock["id"]).starts_with(text(&held["reservationId"])));

    world.session("bo").reserve(json!({ "filePath": "art/ä b.png" })).refused("RESOURCE_LOCKED");
    let refused = bo.create("art/ä b.png").expect(409);
    assert_eq!(refused["lock"], lock);
    assert!(text(&refused["message"]).contains("Ana Ünal (ana)"), "{refused}");

    ana.hold("by-name.txt");
    assert_eq!(bo.verified(), (vec![], vec!["art/ä b.png".into(), "by-name.txt".into()]));
    assert_eq!(of_ana.verified(), (vec!["art/ä b.png".into(), "by-name.txt".into()], vec![]));
    ana.hold("db:migration-slot");
    assert_eq!(bo.verified().1.len(), 2, "a name is no file");

    assert_eq!(of_ana.unlock(text(&lock["id"]), false).ok()["lock"], lock);
    of_ana.unlock(text(&lock["id"]), false).expect(404);
    bo.lock("art/ä b.png");
}

#[test]
fn locking_again_says_that_the_lock_is_there() {
    let world = World::new();
    let ana = client(&world, "ana");
    let lock = ana.lock("a");
    let again = ana.create("a").expect(409);
    assert!(text(&again["message"]).contains("lock already created"), "{again}");
    assert_eq!(again["lock"], lock);
}

#[test]
fn a_lock_lasts_a_week_after_its_owner_last_looked() {
    let world = World::new();
    let ana = client(&world, "ana");
    ana.lock("a");
    let end = || time(&world.reservations()[0]["expiresAt"]);
    let first = end();
    assert!((first - mint::now() * 1000 - WEEK_MS).abs() < 60_000, "{first}");
    client(&world, "bo").verified();
    assert_eq!(end(), first, "another session does not renew it");
    for look in [|ana: &LfsClient| drop(ana.verified()), |ana: &LfsClient| drop(ana.list("").ok())] {
        let before = end();
        until("a look renews the lock", || {
            look(&ana);
            (end() > before).then_some(())
        });
    }
}

#[test]
fn the_time_of_a_lock_can_be_configured() {
    let world = World::configured("[policy]\nlfs-ttl = 5\n");
    client(&world, "ana").lock("a");
    let end = time(&world.reservations()[0]["expiresAt"]);
    assert!((end - mint::now() * 1000) < 20_000);
    until("it ends", || world.held().is_empty().then_some(()));
}

#[test]
fn filters_find_at_most_one_lock() {
    let world = World::new();
    let (ana, bo) = (client(&world, "ana"), client(&world, "bo"));
    let [a, b] = ["a", "dir/b c"].map(|path| ana.lock(path));
    let found = |query: &str| bo.list(query).ok()["locks"].clone();
    assert_eq!(found("?path=dir%2Fb%20c&limit=1&refspec=refs%2Fheads%2Fmain"), json!([b]));
    assert_eq!(found("?path=dir%2Fb+c"), json!([b]));
    assert_eq!(found(&format!("?id={}", text(&a["id"]))), json!([a]));
    assert_eq!(found(&format!("?id={}&path=a", text(&a["id"]))), json!([a]));
    assert_eq!(found(&format!("?id={}&path=dir/b%20c", text(&a["id"]))), json!([]));
    for nothing in ["?path=nothing", "?path=../x", "?path=%00", "?id=42", "?id=res_1", "?path=dir"] {
        assert_eq!(found(nothing), json!([]), "{nothing}");
    }
    assert_eq!(found("?path=&id=&cursor=&limit=0").as_array().unwrap().len(), 2);
    for bad in ["?limit=x", "?cursor=x", "?cursor=p1"] {
        bo.list(bad).expect(400);
    }
}

#[test]
fn shared_paths_are_one_lock_and_the_callers_own_first() {
    let world = World::new();
    for session in ["ana", "bo"] {
        world.session(session).reserve(json!({ "filePath": "both", "mode": "shared" })).ok();
    }
    assert_eq!(client(&world, "ana").verified(), (vec!["both".into()], vec![]));
    assert_eq!(client(&world, "bo").verified(), (vec!["both".into()], vec![]));
    assert_eq!(client(&world, "cy").verified(), (vec![], vec!["both".into()]));
    let owner = |session: &str| {
        let found = client(&world, session).list("?path=both").ok()["locks"].clone();
        assert_eq!(found.as_array().unwrap().len(), 1);
        text(&found[0]["owner"]["name"]).to_owned()
    };
    assert_eq!([owner("ana"), owner("bo"), owner("cy")], ["ana", "bo", "ana"]);
}

#[test]
fn credentials_are_asked_for_once_and_refused_without_a_loop() {
    let world = World::new();
    let token = world.session("ana").token;
    let with = |authorization: &str| LfsClient { authorization: authorization.to_owned(), ..client(&world, "ana") };
    let first = with("").verify(json!({}));
    assert_eq!((first.status, first.header("lfs-authenticate")), (401, Some("Basic realm=\"git-dibs\"")));
    let expired = world.token(json!({ "sub": "ana", "exp": mint::now() - 3600 }));
    let wrong = ["Basic", "Basic !", "Basic Og==", "Bearer x", "Negotiate x", "Basic  "].map(str::to_owned);
    for refused in wrong.into_iter().chain([
        basic("ana", "x"),
        basic("ana", &expired),
        basic(&token, ""),
        format!("Bearer {expired}"),
    ]) {
        for _ in 0..2 {
            with(&refused).verify(json!({})).expect(403);
            with(&refused).create("a").expect(403);
            with(&refused).list("").expect(403);
            with(&refused).unlock("x", true).expect(403);
        }
    }
    for good in [
        basic("ana", &token),
        basic("", &token),
        format!("basic {}", &basic("x", &token)[6..]),
        format!("Bearer {token}"),
    ] {
        with(&good).verify(json!({})).ok();
    }
    // Only here: elsewhere a browser could send a password that it remembers.
    world.send("GET", "/api/reservations", &[("authorization", &basic("ana", &token))], b"").refused("UNAUTHENTICATED");
}

/// Clients that get no password from their user send the same call again; old ones without end, and all on one connection.
#[test]
fn a_client_that_gives_no_credentials_is_not_asked_without_end() {
    let world = World::new();
    let good = client(&world, "ana");
    let none = LfsClient { authorization: String::new(), ..client(&world, "ana") };
    let mut connection = world.connect();
    for _ in 0..2 {
        for _ in 0..3 {
            none.call_over(&mut connection, "POST", "/locks/verify", Some(json!({}))).expect(401);
        }
        let refused = none.call_over(&mut connection, "GET", "/locks", None);
        assert!(text(&refused.expect(403)["message"]).contains("git dibs install --lfs"));
        good.call_over(&mut connection, "GET", "/locks", None).ok();
    }
    none.verify(json!({})).expect(401);
}

/// Clients replace the bytes that are not UTF-8, so such a lock would protect no file.
#[test]
fn a_name_that_lost_its_bytes_on_the_way_is_refused() {
    let world = World::new();
    let refused = client(&world, "ana").create("a\u{fffd}b").expect(400);
    assert!(text(&refused["message"]).contains("git dibs reserve"), "{refused}");
}

#[test]
fn a_refusal_names_a_path_as_git_does() {
    let world = World::new();
    let (ana, bo) = (client(&world, "ana"), client(&world, "bo"));
    for path in ["app/[id].ts", "cafe\u{301}", "हिन्दी"] {
        let lock = ana.lock(path);
        for refused in [bo.create(path).expect(409), bo.unlock(text(&lock["id"]), true).expect(403)] {
            assert!(text(&refused["message"]).starts_with(&format!("\"{path}\" is locked by ana")), "{refused}");
        }
    }
}

#[test]
fn who_locks_is_the_session_of_the_token_and_never_a_name() {
    let world = World::new();
    let named = |id: &str| LfsClient::new(&world, &world.session_with(id, json!({ "name": "same" })).token);
    let (one, two) = (named("one"), named("two"));
    let lock = one.lock("a");
    assert_eq!(two.verified(), (vec![], vec!["a".into()]));
    two.unlock(text(&lock["id"]), false).expect(403);

    let reader = LfsClient::new(&world, &world.reader());
    assert_eq!(reader.verified(), (vec![], vec!["a".into()]));
    reader.create("b").expect(403);
    reader.unlock(text(&lock["id"]), true).expect(403);

    let ops = LfsClient::new(&world, &world.admin());
    assert_eq!(ops.verified(), (vec![], vec!["a".into()]));
    let own = ops.lock("b");
    assert_eq!(ops.verified(), (vec!["b".into()], vec!["a".into()]));
    ops.unlock(text(&own["id"]), false).ok();

    let worker = LfsClient::new(&world, &world.token(json!({ "sub": "farm", "scope": "worker", "sid": "w1" })));
    worker.lock("c");
    assert_eq!(world.held(), ["one a", "w1 c"]);
    let odd = LfsClient::new(&world, &world.token(json!({ "sub": "ops@example.com", "scope": "admin" })));
    odd.create("d").expect(403);
    odd.verify(json!({})).ok();

    one.call("POST", "/locks", Some(json!({ "path": "e" }))).expect(201);
    world.session("one").end();
    let ended = one.verify(json!({}));
    assert_eq!(ended.status, 410, "{ended}");
}

#[test]
fn another_sessions_lock_is_removed_by_an_admin_only_and_not_in_secret() {
    let world = World::new();
    let (ana, bo, ops) = (client(&world, "ana"), client(&world, "bo"), LfsClient::new(&world, &world.admin()));
    let lock = ana.lock("a");
    let id = text(&lock["id"]);
    for force in [false, true] {
        let refused = bo.unlock(id, force).expect(403);
        assert!(text(&refused["message"]).contains("ana"), "{refused}");
    }
    ops.unlock(id, false).expect(403);
    assert_eq!(ops.unlock(id, true).ok()["lock"], lock);
    told_and_recorded(&world, "Ops");
}

#[test]
fn with_lfs_force_anyone_every_session_may_remove_a_lock() {
    let world = World::configured("[policy]\nlfs-force = \"anyone\"\n");
    let (ana, bo) = (client(&world, "ana"), client(&world, "bo"));
    let lock = ana.lock("a");
    bo.unlock(text(&lock["id"]), false).expect(403);
    LfsClient::new(&world, &world.reader()).unlock(text(&lock["id"]), true).expect(403);
    bo.unlock(text(&lock["id"]), true).ok();
    told_and_recorded(&world, "bo");
}

/// The holder of `a` is told who removed its lock, and so is the history.
fn told_and_recorded(world: &World, by: &str) {
    assert_eq!(world.held(), Vec::<String>::new());
    let beat = world.session("ana").post("heartbeat", json!({})).ok();
    let notice = &beat["notices"][0];
    assert!(notice.to_string().contains(by) && notice.to_string().contains("git lfs unlock --force"), "{beat}");
    let history = world.get("/api/history?path=a", &world.reader()).ok();
    assert!(history["events"][0].to_string().contains("git lfs unlock --force"), "{history}");
}

#[test]
fn an_id_is_good_in_its_own_repository_only() {
    let (world, data) = World::of_two(["one", "two"]);
    let secret = crate::world::secret_in(&data);
    let token = |repo: &str| mint::hs256(&mint::claims(json!({ "sub": "ana", "repo": repo })), &secret);
    let at = |repo: &str| LfsClient::new(&world, &token(repo)).at(&format!("/lfs/{repo}"));
    let (one, two) = (at("one"), at("two"));
    let [first, second] = [&one, &two].map(|client| client.lock("a"));
    // The same record number in both: only the random part differs.
    let fence = |lock: &Value| text(&lock["id"]).rsplit('_').next().unwrap().to_owned();
    assert_eq!(fence(&first), fence(&second));
    two.unlock(text(&first["id"]), true).expect(404);
    assert_eq!(two.list(&format!("?id={}", text(&first["id"]))).ok()["locks"], json!([]));
    assert_eq!([&one, &two].map(LfsClient::verified), [(vec!["a".into()], vec![]), (vec!["a".into()], vec![])]);

    let elsewhere = LfsClient::new(&world, &token("one")).at("/lfs/two");
    elsewhere.verify(json!({})).expect(403);
    LfsClient::new(&world, &token("one")).at("/lfs/nothing").verify(json!({})).expect(403);
    assert_eq!(LfsClient::new(&world, &token("one")).verified().0, ["a"], "the token names the repository");
    let admin = mint::hs256(&mint::claims(json!({ "sub": "ops", "scope": "admin" })), &secret);
    LfsClient::new(&world, &admin).verify(json!({})).expect(400);
    LfsClient::new(&world, &admin).at("/lfs/two").verify(json!({})).ok();
}

#[test]
fn a_repository_may_be_called_like_a_part_of_the_protocol() {
    let (world, data) = World::of_two(["locks", "b c"]);
    let secret = crate::world::secret_in(&data);
    let admin = mint::hs256(&mint::claims(json!({ "sub": "ops", "scope": "admin" })), &secret);
    for base in ["/lfs/locks", "/lfs/b%20c"] {
        let ops = LfsClient::new(&world, &admin).at(base);
        let lock = ops.lock("a");
        ops.unlock(text(&lock["id"]), false).ok();
        ops.verify(json!({})).ok();
    }
}

#[test]
fn awkward_names_are_kept_or_refused_with_a_reason() {
    let world = World::new();
    let ana = client(&world, "ana");
    let good = [
        " a",
        "-rf",
        "--",
        "a b",
        "q\"uo'te",
        "[id].png",
        "a*b?.txt",
        "{a,b}",
        "db:x",
        "file:y",
        "ü/日本語.txt",
        "o\u{308}",
        "%41",
        "a&b=c+d#e",
        "~",
        "$HOME",
        "res_1",
    ];
    for name in good {
        assert_eq!(ana.lock(name)["path"], json!(name), "{name}");
        let query = format!("?path={}", percent(name));
        let found = ana.list(&query).ok()["locks"].clone();
        assert_eq!(paths(&found), [name], "{query}");
    }
    assert_eq!(ana.lock("./x//y")["path"], "x/y");
    for bad in [
        "",
        ".",
        "..",
        "../x",
        "a/../b",
        "/abs",
        "C:\\x",
        "a\\b",
        "dir/",
        "a\nb",
        "a\0b",
        "a\u{7f}",
        ".git/config",
        "x/.GIT/y",
        "a ",
    ] {
        let refused = ana.create(bad);
        assert_eq!(refused.status, 400, "{bad:?}: {refused}");
    }
    ana.create(&"x".repeat(5000)).expect(400);
    assert_eq!(ana.verified().0.len(), good.len() + 1);
    for lock in ana.list("").ok()["locks"].as_array().unwrap() {
        ana.unlock(text(&lock["id"]), false).ok();
    }
    assert_eq!(world.held(), Vec::<String>::new());
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn bodies_that_are_no_requests_are_refused_in_the_protocols_words() {
    let world = World::new();
    let ana = client(&world, "ana");
    for body in [json!({}), json!({ "path": 7 }), json!([]), json!({ "path": null })] {
        ana.call("POST", "/locks", Some(body)).expect(400);
    }
    ana.call("POST", "/locks/verify", Some(json!({ "limit": "x" }))).expect(400);
    ana.call("POST", "/locks/verify", Some(json!({ "cursor": "x" }))).expect(400);
    ana.call("POST", "/locks/verify", None).ok();
    ana.call("POST", "/locks/x/unlock", Some(json!({ "force": "x" }))).expect(400);
    ana.call("POST", "/locks", Some(json!({ "path": "x".repeat(100_000) }))).expect(413);
    ana.call("DELETE", "/locks", None).expect(405);
    ana.call("GET", "/locks/verify", None).expect(405);
    let plain = [("authorization", &*ana.authorization), ("content-type", "text/plain")];
    let response = world.connect().call("POST", "/lfs/locks", &plain, b"{\"path\":\"a\"}").unwrap();
    check("POST", "/locks", &response);
    assert_eq!(response.status, 415);
}

/// Old clients switch their check off for good when a verification is answered with 404 or 501.
#[test]
fn a_verification_is_never_answered_with_404_or_501() {
    let world = World::new();
    let ana = client(&world, "ana");
    for base in ["", "/lfs/repo/info/lfs", "/lfs/wrong", "/repo.git/info/lfs", "/lfs/a/b", "/api"] {
        let ana = LfsClient::new(&world, &world.session("ana").token).at(base);
        let refused = ana.verify(json!({}));
        assert!(matches!(refused.status, 403 | 503), "{base}: {refused}");
    }
    ana.verify(json!({})).ok();
    ana.at("/lfs/repo").verify(json!({})).ok();
}

#[test]
fn a_server_that_starts_or_stops_refuses_a_verification() {
    let mut world = World::new();
    world.keep_address();
    let token = world.session("ana").token;
    for _ in 0..3 {
        let address = world.tcp();
        let (mut seen, asked) = (Vec::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let ask = || {
                let mut statuses = Vec::new();
                while let Ok(mut connection) = crate::http::Connection::open(&address) {
                    let headers =
                        [("authorization", &*format!("Bearer {token}")), ("content-type", "application/json")];
                    if let Ok(response) = connection.call("POST", "/lfs/locks/verify", &headers, b"{}") {
                        check("POST", "/locks/verify", &response);
                        statuses.push(response.status);
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                statuses
            };
            let askers: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            until("verifications arrive", || (asked.load(Ordering::Relaxed) > 50).then_some(()));
            world.signal(libc::SIGTERM);
            askers.into_iter().for_each(|asker| seen.extend(asker.join().unwrap()));
        });
        assert!(seen.iter().all(|status| matches!(status, 200 | 503)), "{seen:?}");
        world.wait();
        world.start();
    }
}

#[test]
fn pages_survive_what_is_removed_between_them() {
    let world = World::new();
    let (ana, bo) = (client(&world, "ana"), client(&world, "bo"));
    let names: Vec<String> = (0..10_000).map(|number| format!("dir{}/file{number}", number % 7)).collect();
    world.session("ana").reserve(json!({ "filePaths": names[..9_990], "ttlSeconds": 300 })).ok();
    names[9_990..].iter().for_each(|name| drop(ana.lock(name)));

    let all = bo.verify(json!({ "limit": 0 })).ok();
    assert_eq!((paths(&all["theirs"]), all.get("next_cursor")), (names.clone(), None), "one page");

    let (mut seen, mut removed, mut cursor, mut pages) = (Vec::new(), Vec::new(), Value::Null, 0);
    loop {
        let page = bo.verify(json!({ "cursor": cursor, "limit": 97 })).ok();
        seen.extend(paths(&page["theirs"]));
        pages += 1;
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
        // The last lock of this page, which the cursor points at, and some that are still to come.
        let ahead = (seen.len() + removed.len() + 50).min(names.len() - 1);
        for name in [seen.last().unwrap().clone(), names[ahead].clone()] {
            if world.session("ana").release(&name)["released"] == true && !seen.contains(&name) {
                removed.push(name);
            }
        }
    }
    assert!(pages > 90 && removed.len() > 50, "{pages} pages, {} removed", removed.len());
    let expected: Vec<&String> = names.iter().filter(|name| !removed.contains(name)).collect();
    assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "each of the others exactly once");

    let list = bo.list("?limit=3").ok();
    let next = bo.list(&format!("?limit=3&cursor={}", percent(text(&list["next_cursor"])))).ok();
    assert_eq!(paths(&list["locks"]).len() + paths(&next["locks"]).len(), 6);
    assert_ne!(list["locks"][2], next["locks"][0]);
}

/// The reference server grants the same lock twice in most of such races.
#[test]
fn eight_clients_race_three_hundred_times_and_one_wins_each() {
    let world = World::new();
    let clients: Vec<LfsClient> = (0..8).map(|number| client(&world, &format!("s{number}"))).collect();
    let wins: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let race = |number: usize| {
            let client = &clients[number];
            let mut connection = world.connect();
            let mut won = Vec::new();
            for round in 0..300 {
                let body = json!({ "path": format!("race/{round}") });
                match client.call_over(&mut connection, "POST", "/locks", Some(body)).status {
                    201 => won.push(round),
                    409 => {}
                    other => panic!("{other}"),
                }
            }
            won
        };
        let racers: Vec<_> = (0..8).map(|number| scope.spawn(move || race(number))).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    let mut all: Vec<usize> = wins.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..300).collect::<Vec<_>>(), "exactly one winner each: {wins:?}");
    for (number, won) in wins.iter().enumerate() {
        assert_eq!(clients[number].verified().0.len(), won.len());
    }
}

#[test]
fn a_lock_that_was_granted_survives_a_kill_in_the_middle_of_a_race() {
    let mut world = World::new();
    world.keep_address();
    let tokens: Vec<String> = (0..4).map(|number| world.session(&format!("s{number}")).token).collect();
    let (address, count) = (world.tcp(), AtomicUsize::new(0));
    let race = |number: usize| {
        let mut won = Vec::new();
        let headers = [("authorization", &*format!("Bearer {}", tokens[number])), ("content-type", "application/json")];
        let Ok(mut connection) = crate::http::Connection::open(&address) else { return won };
        for round in 0.. {
            let path = format!("race/{round}");
            let body = json!({ "path": path }).to_string();
            match connection.call("POST", "/lfs/locks", &headers, body.as_bytes()) {
                Ok(response) if response.status == 201 => won.push((number, path)),
                Ok(_) => {}
                Err(_) => return won,
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
        won
    };
    let (race, server) = (&race, &world);
    let granted: Vec<(usize, String)> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..4).map(|number| scope.spawn(move || race(number))).collect();
        until("the race is on", || (count.load(Ordering::Relaxed) > 100).then_some(()));
        server.signal(libc::SIGKILL);
        racers.into_iter().flat_map(|racer| racer.join().unwrap()).collect()
    });
    world.kill();
    world.start();
    let held = world.held();
    assert!(!granted.is_empty());
    for (number, path) in granted {
        assert!(held.contains(&format!("s{number} {path}")), "{path} of s{number} is gone");
    }
}

/// Makes a repository whose HEAD has this many files in `many/`.
fn with_files(world: &World, count: usize) {
    let mut script = String::from("commit refs/heads/main\ncommitter B <b@x> 1 +0000\ndata 1\nm\n");
    for number in 0..count {
        script += &format!("M 100644 inline many/{number:06}\ndata 0\n\n");
    }
    std::fs::write(world.path("script"), script).unwrap();
    let output = world.command("sh", "repo").args(["-c", "git fast-import --quiet <../script"]).run();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn directories_are_the_tracked_files_that_they_cover() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), client(&world, "bo"));
    ana.hold("many/");
    assert_eq!(bo.verified(), (vec![], vec![]), "there is no commit yet");
    with_files(&world, 30);
    let (_, theirs) = bo.verified();
    assert_eq!((theirs.len(), &*theirs[0], &*theirs[29]), (30, "many/000000", "many/000029"));
    ana.hold("many/000007");
    ana.hold("other");
    assert_eq!(bo.verified().1[..2], ["many/000007", "other"], "paths that are reserved by name come first");
    assert_eq!(bo.verified().1.len(), 31, "one lock for each path");
    let found = bo.list("?path=many/000003").ok()["locks"][0].clone();
    assert_eq!(bo.list(&format!("?id={}", text(&found["id"]))).ok()["locks"], json!([found]));
    for caller in [&bo, &client(&world, "ana"), &LfsClient::new(&world, &world.admin())] {
        let refused = caller.unlock(text(&found["id"]), true).expect(403);
        assert!(text(&refused["message"]).contains("many/**"), "{refused}");
    }
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = bo.verify(json!({ "cursor": cursor, "limit": 4 })).ok();
        seen.extend(paths(&page["theirs"]));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, bo.verified().1);
    ana.reserve(json!({ "filePath": "many/", "mode": "shared" })).ok();
    world.session("cy").reserve(json!({ "filePath": "many/00000*", "mode": "shared" })).expect(409);
    ana.release("many/000007");
    world.session("cy").reserve(json!({ "filePath": "many/00000*", "mode": "shared" })).ok();
    let (ours, theirs) = client(&world, "cy").verified();
    assert_eq!((ours.len(), theirs.len()), (10, 21), "its own come first, and each path once");
}

/// More is enforced by our hooks only, and the list says so.
#[test]
fn a_list_ends_at_a_hundred_thousand_locks_and_says_what_it_lacks() {
    let world = World::new();
    with_files(&world, 100_010);
    let (ana, bo) = (world.session("ana"), client(&world, "bo"));
    ana.reserve(json!({ "filePaths": ["many/", "zzz"], "ttlSeconds": 300 })).ok();
    let first = bo.verify(json!({})).ok();
    assert_eq!((paths(&first["theirs"])[0].as_str(), &first["dibs_unlisted"]), ("zzz", &json!(1)));
    let (_, theirs) = bo.verified();
    assert_eq!((theirs.len(), theirs.last().map(String::as_str)), (100_000, Some("many/099998")));
    bo.create("many/100009").expect(409);
}

/// Patterns of one session that cover the same files: each file is one lock, and all of them fit.
#[test]
fn files_that_a_session_holds_twice_take_one_place_in_the_list() {
    let world = World::new();
    with_files(&world, 60_000);
    let (ana, bo) = (world.session("ana"), client(&world, "bo"));
    ["many/", "many/0*"].into_iter().for_each(|held| drop(ana.hold(held)));
    let (_, theirs) = bo.verified();
    assert_eq!((theirs.len(), bo.verify(json!({})).ok().get("dibs_unlisted")), (60_000, None));
}

#[test]
fn locks_count_in_the_limits_of_reservations() {
    let world = World::configured("[limits]\nreservations-per-session = 2\n");
    let ana = client(&world, "ana");
    ["a", "b"].into_iter().for_each(|path| drop(ana.lock(path)));
    let refused = ana.create("c").expect(429);
    assert!(text(&refused["message"]).contains('2'), "{refused}");
}

#[test]
fn what_the_server_does_not_store_is_refused_or_sent_on() {
    let world = World::new();
    let ana = client(&world, "ana");
    let refused = ana.call("POST", "/objects/batch", Some(json!({ "operation": "download" })));
    assert_eq!(refused.status, 501);
    let world = World::configured("[lfs]\nforward = \"http://127.0.0.1:9/store/{repo}/\"\n");
    let headers = [("content-type", "application/vnd.git-lfs+json")];
    for (base, expected) in [("/lfs", "repo"), ("/lfs/repo", "repo")] {
        let target = format!("{base}/objects/batch?x=1");
        let response = world.connect().call("POST", &target, &headers, b"{}").unwrap();
        let place = format!("http://127.0.0.1:9/store/{expected}/objects/batch?x=1");
        assert_eq!((response.status, response.header("location")), (307, Some(&*place)), "{response}");
    }
}
