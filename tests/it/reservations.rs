//! The list of reservations, and the override by an admin.

use serde_json::{Value, json};

use crate::world::{World, text, time};

#[test]
fn reserved_files_are_what_the_session_holds() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    assert_eq!(ana.get("reserved-files").ok(), json!({ "reservations": [] }));
    let first = ana.reserve(json!({ "filePath": "a", "mode": "shared", "reason": "why" })).ok();
    let second = ana.hold("db:schema:slot");
    bo.hold("b");
    let list = ana.get("reserved-files").ok();
    let list = list["reservations"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    for (listed, granted) in list.iter().zip([first, second]) {
        for field in ["reservationId", "filePath", "reservedAt", "expiresAt", "mode", "fence", "reason"] {
            assert_eq!(listed[field], granted[field], "{field}");
        }
    }
    assert_eq!(world.get("/api/sessions/bo/reserved-files", &world.reader()).ok()["reservations"][0]["filePath"], "b");
    world.get("/api/sessions/nobody/reserved-files", &world.reader()).refused("NOT_FOUND");
}

#[test]
fn all_reservations_are_listed_page_by_page() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    let keys: Vec<String> = (0..25).map(|n| format!("src/{n:02}.rs")).collect();
    ana.reserve(json!({ "filePaths": keys })).ok();
    bo.reserve(json!({ "filePaths": ["src/b", "lib/c", "file:src/[id].ts", "db:schema:slot"] })).ok();
    let reader = world.reader();
    let list = |query: &str| world.get(&format!("/api/reservations?{query}"), &reader);
    let names = |page: &Value| -> Vec<String> {
        page["reservations"].as_array().unwrap().iter().map(|one| text(&one["filePath"]).to_owned()).collect()
    };

    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = list(&format!("limit=7{cursor}")).ok();
        assert!(names(&page).len() <= 7);
        seen.extend(names(&page));
        match page.get("nextCursor") {
            Some(next) => cursor = format!("&cursor={}", text(next)),
            None => break,
        }
        // A reservation made meanwhile is listed last; a released one is missing.
        if seen.len() == 7 {
            ana.release("src/20.rs");
            bo.hold("late");
        }
    }
    let mut expected: Vec<_> = keys.into_iter().filter(|key| key != "src/20.rs").collect();
    expected.extend(["src/b", "lib/c", "file:src/[id].ts", "db:schema:slot", "late"].map(str::to_owned));
    assert_eq!(seen, expected);

    let all = list("").ok();
    let one = &all["reservations"][0];
    assert_eq!((&one["sessionId"], &one["sessionName"]), (&json!("ana"), &json!("Ana")));
    assert!(all["reservations"][24]["sessionName"].is_null());
    assert!(time(&one["expiresAt"]) > time(&one["reservedAt"]) && one["fence"].is_u64() && one["mode"] == "exclusive");
    assert_eq!(names(&list("prefix=src/0").ok()).len(), 10);
    assert_eq!(names(&list("prefix=lib/").ok()), ["lib/c"]);
    assert_eq!(names(&list("prefix=db:").ok()), ["db:schema:slot"]);
    assert_eq!(names(&list("prefix=nothing").ok()), [""; 0]);
    assert_eq!(names(&list("session=bo").ok()), ["src/b", "lib/c", "file:src/[id].ts", "db:schema:slot", "late"]);
    let page = list("session=bo&limit=2").ok();
    let next = list(&format!("session=bo&limit=2&cursor={}", text(&page["nextCursor"]))).ok();
    assert_eq!(names(&next), ["file:src/[id].ts", "db:schema:slot"]);
    assert_eq!(names(&list("session=nobody").ok()), [""; 0]);
    assert_eq!(names(&list("session=bo&prefix=src/b").ok()), ["src/b"]);
    for bad in ["limit=0", "limit=1001", "limit=x", "limit=-1", "cursor=x", "cursor=-1"] {
        list(bad).refused("INVALID_REQUEST");
    }
    list("limit=1000").ok();
}

/// Regression: a file whose name looks like a pattern was not found under its own directory.
#[test]
fn a_prefix_matches_the_path_and_not_its_written_form() {
    let world = World::new();
    let ana = world.session("ana");
    ana.reserve(json!({ "filePaths": ["src/a.ts", "file:src/[id].ts", "file:db:odd"] })).ok();
    let count = |prefix: &str| {
        let page = world.get(&format!("/api/reservations?prefix={prefix}"), &ana.token).ok();
        page["reservations"].as_array().unwrap().len()
    };
    assert_eq!((count("src/"), count("src/["), count("file:")), (2, 1, 2));
}

#[test]
fn an_admin_overrides_a_reservation_with_a_reason() {
    let world = World::new();
    let (ana, admin) = (world.session("ana"), world.admin());
    let held = ana.hold("a");
    ana.hold("b");
    let target = format!("/api/reservations/{}", text(&held["reservationId"]));
    for body in [json!({}), json!({ "reason": "" }), json!({ "reason": "  " }), json!({ "reason": 7 })] {
        let refusal = world.delete(&target, &admin, body).refused("INVALID_REQUEST");
        assert_eq!(refusal["field"], "reason");
    }
    world.call("DELETE", &target, &admin, None).refused("INVALID_REQUEST");
    assert_eq!(world.held().len(), 2);

    let done = world.delete(&target, &admin, json!({ "reason": "release night" })).ok();
    assert_eq!((&done["ok"], &done["released"]), (&json!(true), &json!(true)));
    assert_eq!(world.held(), ["ana b"]);
    // Like every change it can be repeated; who did not get the reply asks again.
    let again = world.delete(&target, &admin, json!({ "reason": "release night" })).ok();
    assert_eq!(again, json!({ "ok": true, "released": false, "releasedCount": 0 }));
    for unknown in ["/api/reservations/res_00000000000000000000000000000000", "/api/reservations/x"] {
        world.delete(unknown, &admin, json!({ "reason": "x" })).refused("NOT_FOUND");
    }
    let notices = ana.post("heartbeat", json!({})).ok()["notices"].clone();
    assert_eq!(notices.as_array().unwrap().len(), 1, "{notices}");
    assert_eq!((&notices[0]["why"], &notices[0]["reason"]), (&json!("overridden"), &json!("release night")));
    ana.post("files/renew", json!({ "filePath": "a" })).refused("LOCK_NOT_HELD");
    ana.hold("a");
}

#[test]
fn whether_anything_is_held_is_told_to_every_token() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session_with("bo", json!({ "feature": "F-1" })));
    let held = |token: &str, query: &str| world.get(&format!("/api/held{query}"), token).ok();
    let answer = |own: bool, others: bool, paused: bool| json!({ "own": own, "others": others, "paused": paused });
    for token in [&ana.token, &world.reader(), &world.admin()] {
        assert_eq!(held(token, ""), answer(false, false, false));
    }
    ana.hold("src/**");
    assert_eq!(held(&ana.token, ""), answer(true, false, false));
    assert_eq!(held(&bo.token, ""), answer(false, true, false));
    assert_eq!(held(&world.reader(), ""), answer(false, true, false), "a caller without a session holds nothing");
    assert_eq!(held(&world.reader(), "?session=ana"), answer(true, false, false));
    assert_eq!(held(&world.reader(), "?session=unknown"), answer(false, true, false));
    ana.hold("feature:F-1:pause");
    let paused = held(&bo.token, "");
    assert_eq!((&paused["others"], &paused["paused"]), (&json!(true), &json!(true)));
    assert_eq!(paused["notices"][0]["kind"], "paused");
    ana.end();
    assert_eq!(held(&bo.token, ""), answer(false, false, false));
    world.get("/api/held?session=a/b", &bo.token).refused("INVALID_REQUEST");
    world.get("/api/held", "").refused("UNAUTHENTICATED");
    world.get("/api/held", &ana.token).refused("SESSION_ENDED");
}
