//! The server answers plain requests on a short way of its own. A header that it does not know makes it take the long way; both
//! give the same reply.

use serde_json::{Value, json};

use crate::http::{Response, request};
use crate::mint;
use crate::world::World;

/// A header that is ignored on the long way, and not known on the short one.
const UNKNOWN: (&str, &str) = ("x-other", "1");

/// The parts of a reply that differ from request to request.
const CHANGING: [&str; 6] = ["reservationId", "reservationIds", "reservedAt", "expiresAt", "fence", "version"];

fn without_changes(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if CHANGING.contains(&&**name) {
                    *value = Value::Null;
                }
                without_changes(value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(without_changes),
        _ => {}
    }
}

/// What both ways must agree on: the status, the names of the headers with the values that do not change, and the body.
fn comparable(response: &Response) -> (u16, Vec<(String, String)>, Value) {
    let mut body = response.json();
    without_changes(&mut body);
    let mut headers: Vec<(String, String)> = response.headers.clone();
    for (name, value) in &mut headers {
        if ["date", "x-request-id", "content-length", "retry-after"].contains(&&**name) {
            value.clear();
        }
    }
    headers.sort();
    (response.status, headers, body)
}

#[test]
fn the_short_way_gives_the_reply_of_the_long_way() {
    let world = World::new();
    let (bo, ended) = (world.session("bo"), world.session("ended"));
    bo.hold("held.rs");
    bo.hold("held/**");
    ended.end();
    let ana = world.session("ana");
    ana.hold("own.rs");
    let expired = world.token(json!({ "sub": "ana", "exp": mint::now() - 10 }));
    let tokens = [&*ana.token, &*expired, &*world.reader(), &*world.admin(), "no token", ""];
    let bodies = [
        r#"{"filePath":"own.rs"}"#,
        r#"{"filePath":"own.rs","reason":"a \u00e4 \" reason","ttlSeconds":100}"#,
        r#"{"filePath":"held.rs"}"#,
        r#"{"filePath":"held/**/x*.rs"}"#,
        r#"{"filePaths":["own.rs","held.rs"]}"#,
        r#"{"filePaths":[]}"#,
        r#"{"filePath":"held.rs","waitSeconds":1}"#,
        r#"{"filePath":"../up"}"#,
        r#"{"filePath":"own.rs","ttlSeconds":-1}"#,
        r#"{"filePath":7}"#,
        r#"{"filePath":"#,
        "[]",
        "{}",
        "",
    ];
    let calls = ["files/reserve", "files/renew", "files/release", "heartbeat", "files/release/", "files/nothing"];
    let ask = |session: &str, call: &str, token: &str, body: &str, more: &[(&str, &str)]| {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("authorization", &*bearer), ("content-type", "application/json")];
        headers.extend(more);
        let mut connection = world.connect();
        let path = format!("/api/sessions/{session}/{call}");
        let response = connection.call("POST", &path, &headers, body.as_bytes()).unwrap();
        // What a call has changed is put back, so that the next one finds the same.
        ana.hold("own.rs");
        response
    };
    let mut statuses = std::collections::BTreeSet::new();
    let mut compare = |session: &str, call: &str, token: &str, body: &str, more: &[(&str, &str)]| {
        let short = ask(session, call, token, body, more);
        let long = ask(session, call, token, body, &[more, &[UNKNOWN]].concat());
        statuses.insert(short.status);
        assert_eq!(comparable(&short), comparable(&long), "{session} {call} {body} {more:?}");
        (short, long)
    };
    for call in calls {
        for body in bodies {
            compare("ana", call, &ana.token, body, &[]);
        }
        for token in tokens {
            compare("ana", call, token, bodies[0], &[]);
        }
        for session in ["bo", "ended", "an%61", "no body", "..", ""] {
            compare(session, call, &ana.token, bodies[0], &[]);
        }
        compare("ended", call, &ended.token, bodies[0], &[]);
        for more in [("content-type", "text/plain"), ("origin", "http://evil.example"), ("cookie", "a=b")] {
            compare("ana", call, &ana.token, bodies[0], &[more]);
        }
        let (short, long) = compare("ana", call, &ana.token, bodies[0], &[("x-request-id", "job-7/a")]);
        assert_eq!([&short, &long].map(|response| response.header("x-request-id")), [Some("job-7/a"); 2]);
        let (short, long) = compare("ana", call, &ana.token, bodies[0], &[("x-request-id", "<b>")]);
        assert!(
            [&short, &long].iter().all(|response| response.header("x-request-id").is_some_and(|id| id.len() == 32))
        );
    }
    assert_eq!(statuses.into_iter().collect::<Vec<_>>(), [200, 400, 401, 403, 404, 409, 410]);
}

#[test]
fn a_connection_changes_from_the_short_way_to_the_long_one() {
    let world = World::new();
    let ana = world.session("ana");
    let bearer = format!("Bearer {}", ana.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let mut connection = world.connect();
    let reserve = |key: &str| {
        let body = json!({ "filePath": key }).to_string();
        request("POST", &ana.url("files/reserve"), &headers, body.as_bytes())
    };
    for key in ["a", "b", "c"] {
        connection.send(&reserve(key)).unwrap();
        assert_eq!(connection.receive(false).unwrap().ok()["filePath"], key);
    }
    // Two at once, and the second one in pieces.
    let (first, second) = (reserve("d"), reserve("e"));
    connection.send(&[&first, &second[..40]].concat()).unwrap();
    assert_eq!(connection.receive(false).unwrap().ok()["filePath"], "d");
    connection.send(&second[40..]).unwrap();
    assert_eq!(connection.receive(false).unwrap().ok()["filePath"], "e");
    let list = connection.call("GET", &ana.url("reserved-files"), &headers[..1], b"").unwrap().ok();
    assert_eq!(list["reservations"].as_array().map_or(0, Vec::len), 5, "{list}");
}
