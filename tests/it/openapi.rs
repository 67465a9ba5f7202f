//! The published document, and the page that shows it.

use std::collections::BTreeSet;

use git_dibs::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::document::{Document, FILE};
use crate::http::Response;
use crate::world::{World, text};

/// The document as it is checked in. `UPDATE_OPENAPI=1` writes it anew, so that a changed call is a readable diff, and the
/// types of the clients with it.
#[test]
fn the_served_document_is_the_one_checked_in() {
    let world = World::new();
    let served = file(&world, "/openapi.json").ok();
    let shown = format!("{}\n", serde_json::to_string_pretty(&served).unwrap());
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(FILE, &shown).unwrap();
        let generate = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/generate");
        assert!(std::process::Command::new(generate).status().unwrap().success());
    }
    let checked_in = std::fs::read_to_string(FILE).unwrap();
    let same = checked_in == shown;
    assert!(same, "the document changed; look at it with UPDATE_OPENAPI=1 cargo test --test it openapi");
    assert_eq!(served["openapi"], "3.1.0");
}

#[test]
fn everything_is_described_and_every_reference_resolves() {
    let document = Document::checked_in();
    let mut names = BTreeSet::new();
    let mut codes = BTreeSet::new();
    for (method, path, call) in document.calls() {
        let id = text(&call["operationId"]);
        assert!(names.insert(id.to_owned()), "{id} is there twice");
        assert!(text(&call["summary"]).ends_with('.'), "{id} has a sentence");
        let tag = &call["tags"][0];
        assert!(list(&document.json["tags"]).iter().any(|known| known["name"] == *tag), "{id} has a known tag");
        let parameters: Vec<Value> = list(&call["parameters"]).iter().map(|one| document.resolve(one)).collect();
        for parameter in &parameters {
            let about = format!("{id}: {parameter}");
            assert!(parameter.get("description").is_some() && parameter.get("example").is_some(), "{about}");
            assert_eq!(parameter["in"] == "path", parameter["required"] == true, "{about}");
        }
        let in_path =
            parameters.iter().filter(|one| one["in"] == "path").map(|one| format!("{{{}}}", text(&one["name"])));
        let in_template: Vec<_> = path.split('/').filter(|part| part.starts_with('{')).map(str::to_owned).collect();
        assert_eq!(in_path.collect::<Vec<_>>(), in_template, "{method} {path}");
        if let Some(body) = call.get("requestBody") {
            assert!(
                !object(&body["content"]["application/json"]["examples"]).is_empty(),
                "{id} has an example to send"
            );
        }
        for (status, answer) in object(&call["responses"]) {
            assert!(!text(&answer["description"]).is_empty(), "{id} {status}");
            assert!(answer["headers"].get("x-request-id").is_some(), "{id} {status}");
            for (kind, content) in answer.get("content").map(object).into_iter().flatten() {
                assert!(content.get("schema").is_some() || content.get("itemSchema").is_some(), "{id} {status} {kind}");
                let has_example = content["examples"].as_object().is_some_and(|all| !all.is_empty());
                assert!(has_example || call["tags"][0] == "Documents", "{id} {status} has an example");
            }
            let refusals = document.codes(call, status);
            assert_eq!(refusals.is_empty(), status.as_str() < "400", "{id} {status}");
            codes.extend(refusals);
        }
    }
    // The method of a call that is described is allowed, and the others are refused before the call is known.
    let all: BTreeSet<String> = wire::Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    let missing: Vec<_> = all.difference(&codes).collect();
    assert_eq!(missing, ["HEADERS_TOO_LARGE", "METHOD_NOT_ALLOWED", "URI_TOO_LONG"]);
    references(&document.json, &mut |reference| {
        assert!(document.json.pointer(&reference[1..]).is_some(), "{reference} leads nowhere");
    });
    let mut used = BTreeSet::new();
    references(&document.json, &mut |reference| {
        used.insert(reference.to_owned());
    });
    for name in object(&document.json["components"]["schemas"]).keys() {
        assert!(used.contains(&format!("#/components/schemas/{name}")), "nobody needs the shape {name}");
    }
}

/// An example that parses as its type and is written back unchanged has the right fields and no others.
#[test]
fn examples_match_their_schemas() {
    let document = Document::checked_in();
    let mut seen = 0;
    let mut check = |content: &Value| {
        let Some(schema) = content["schema"]["$ref"].as_str() else { return };
        let name = schema.rsplit('/').next().unwrap();
        for (which, example) in content.get("examples").map(object).into_iter().flatten() {
            read_and_write_back(name, which, &document.resolve(example)["value"]);
            seen += 1;
        }
    };
    for (_, _, call) in document.calls() {
        check(&call["requestBody"]["content"]["application/json"]);
        for answer in object(&call["responses"]).values() {
            check(&answer["content"]["application/json"]);
        }
    }
    for (code, example) in object(&document.json["components"]["examples"]) {
        same::<wire::ErrorBody>(code, &example["value"]);
        assert_eq!(example["value"]["code"], **code);
        seen += 1;
    }
    assert!(seen > 50, "only {seen} examples were seen");
    let follow = document.call("GET", "/api/events").unwrap();
    let stream = text(&follow["responses"]["200"]["content"]["text/event-stream"]["examples"]["text"]["value"]);
    let data = stream.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    same::<wire::Event>("an event", &serde_json::from_str(data).unwrap());
}

fn read_and_write_back(name: &str, which: &str, example: &Value) {
    let check = match (name, which) {
        ("ReserveReply", _) => same::<wire::ReserveReply>,
        ("RenewReply", _) => same::<wire::RenewReply>,
        ("AnnouncePush", _) => same::<wire::AnnouncePush>,
        ("Approve", _) => same::<wire::Approve>,
        ("Check", _) => same::<wire::Check>,
        ("CheckReply", _) => same::<wire::CheckReply>,
        ("ClaimPush", _) => same::<wire::ClaimPush>,
        ("ClaimReply", _) => same::<wire::ClaimReply>,
        ("CreateSession", _) => same::<wire::CreateSession>,
        ("EndSession", _) => same::<wire::EndSession>,
        ("Ended", _) => same::<wire::Ended>,
        ("Health", _) => same::<wire::Health>,
        ("Held", _) => same::<wire::Held>,
        ("HistoryReply", _) => same::<wire::HistoryReply>,
        ("Heartbeat", _) => same::<wire::Heartbeat>,
        ("EmptyBody", _) => same::<wire::EmptyBody>,
        ("Override", _) => same::<wire::Override>,
        ("PushAnnounced", _) => same::<wire::PushAnnounced>,
        ("Reject", _) => same::<wire::Reject>,
        ("Release", _) => same::<wire::Release>,
        ("Released", _) => same::<wire::Released>,
        ("ReleasedAll", _) => same::<wire::ReleasedAll>,
        ("Renew", _) => same::<wire::Renew>,
        ("ReservationList", _) => same::<wire::ReservationList>,
        ("Reserve", _) => same::<wire::Reserve>,
        ("SessionCreated", _) => same::<wire::SessionCreated>,
        ("SessionInfo", _) => same::<wire::SessionInfo>,
        ("SessionList", _) => same::<wire::SessionList>,
        ("Stats", _) => same::<wire::Stats>,
        ("UnlockRequest", _) => same::<wire::UnlockRequest>,
        ("UnlockRequestInfo", _) => same::<wire::UnlockRequestInfo>,
        ("UnlockRequests", _) => same::<wire::UnlockRequests>,
        _ => panic!("no type is known for {name}; add it here"),
    };
    check(&format!("{name} {which}"), example);
}

#[track_caller]
fn same<T: Serialize + DeserializeOwned>(about: &str, example: &Value) {
    let read: T = serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{about}: {error}"));
    assert_eq!(serde_json::to_value(&read).unwrap(), *example, "{about}");
}

#[test]
fn limits_in_the_document_are_those_of_the_server() {
    let mut world = World::not_started();
    world.git_init("repo");
    std::fs::write(world.path("dibs.toml"), "[policy]\nfile-ttl = { default = 60, min = 5, max = 40000 }").unwrap();
    world.args(&["--config", world.path("dibs.toml").to_str().unwrap()]);
    world.start();
    let served = world.get("/openapi.json", "").ok();
    let field = |name: &str, field: &str| served["components"]["schemas"][name]["properties"][field].clone();
    for name in ["Reserve", "Renew"] {
        let ttl = field(name, "ttlSeconds");
        assert_eq!((&ttl["minimum"], &ttl["maximum"]), (&json!(1), &json!(40_000)), "{name}");
    }
    let ana = world.session("ana");
    let most = field("Reserve", "filePaths")["maxItems"].as_u64().unwrap() as usize;
    assert_eq!(most, wire::limits::RESERVE_KEYS_MAX);
    for (name, body) in [
        ("waitSeconds", json!({ "filePath": "a", "waitSeconds": field("Reserve", "waitSeconds")["maximum"] })),
        ("ttlSeconds", json!({ "filePath": "a", "ttlSeconds": field("Reserve", "ttlSeconds")["maximum"] })),
        (
            "reason",
            json!({ "filePath": "a", "reason": "ü".repeat(field("Reserve", "reason")["maxLength"].as_u64().unwrap() as usize) }),
        ),
    ] {
        ana.reserve(body.clone()).ok();
        let mut more = body;
        more[name] = match &more[name] {
            Value::String(text) => format!("{text}ü").into(),
            number => (number.as_u64().unwrap() + 1).into(),
        };
        assert_eq!(ana.reserve(more).expect(400)["field"], name);
    }
    let name_max = field("CreateSession", "name")["maxLength"].as_u64().unwrap() as usize;
    let create = |body: Value| world.post("/api/sessions", &world.admin(), body);
    create(json!({ "name": "n".repeat(name_max) })).expect(201);
    create(json!({ "name": "n".repeat(name_max + 1) })).refused("INVALID_REQUEST");
    let ttl_max = field("CreateSession", "ttlSeconds")["maximum"].as_u64().unwrap();
    create(json!({ "ttlSeconds": ttl_max })).expect(201);
    create(json!({ "ttlSeconds": ttl_max + 1 })).refused("TTL_OUT_OF_RANGE");
}

/// A file of the page, without a token.
fn file(world: &World, target: &str) -> Response {
    let answer = world.connect().call("GET", target, &[], b"").unwrap();
    assert!(answer.header("x-request-id").is_some());
    answer
}

#[test]
fn the_page_loads_nothing_from_other_sites() {
    let world = World::new();
    let front = file(&world, "/");
    assert_eq!((front.status, front.header("location")), (307, Some("/docs")));
    let page = file(&world, "/docs");
    let html = String::from_utf8(page.body.clone()).unwrap();
    let names =
        list(&Document::checked_in().call("GET", "/docs/page.js").unwrap()["parameters"])[0]["schema"]["enum"].clone();
    let mut size = 0;
    for (target, kind) in [("/docs", "text/html"), ("/docs/page.js", "text/javascript"), ("/docs/page.css", "text/css")]
    {
        let part = file(&world, target);
        assert_eq!(part.status, 200, "{target}");
        assert_eq!(part.header("content-type"), Some(&*format!("{kind}; charset=utf-8")));
        assert_eq!(part.header("x-content-type-options"), Some("nosniff"));
        let policy = part.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        let content = String::from_utf8(part.body.clone()).unwrap();
        assert!(!content.contains("://") && !content.contains("innerHTML") && !content.contains("eval("), "{target}");
        size += content.len();
        if let Some(name) = target.strip_prefix("/docs/") {
            assert!(html.contains(&format!("\"{target}\"")) && list(&names).contains(&json!(name)), "{target}");
        }
    }
    assert_eq!(list(&names).len(), 2);
    // Inline scripts and styles would be refused by the page's own policy.
    assert!(!html.contains("<style") && !html.contains("style=") && html.matches("<script").count() == 1, "{html}");
    assert!(size < 50_000, "{size} bytes");
    world.get("/docs/other.js", "").refused("NOT_FOUND");
    world.get("/docs/..%2fmod.rs", "").refused("NOT_FOUND");
}

#[test]
fn an_unknown_session_state_is_refused() {
    let world = World::new();
    world.session("ana").hold("a");
    let reader = world.reader();
    let listed = |state: &str| world.get(&format!("/api/sessions?state={state}"), &reader);
    assert_eq!(list(&listed("active").ok()["sessions"]).len(), 1);
    assert_eq!(list(&listed("lost").ok()["sessions"]).len(), 0);
    assert_eq!(listed("asleep").refused("INVALID_REQUEST")["field"], "state");
}

fn references(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                found(reference);
            }
            fields.values().for_each(|inner| references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

#[track_caller]
fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("not an object: {value}"))
}
