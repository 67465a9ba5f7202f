//! What each call may refuse, by code. The tests hold every answer they get against it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::IntoResponses;
use utoipa::openapi::header::Header;
use utoipa::openapi::schema::{AllOf, ObjectBuilder, Type};
use utoipa::openapi::{Content, Ref, RefOr, Response, ResponseBuilder};

use crate::wire::Code::{self, *};

/// Every call, before anybody looks at a token: the wrong Host or Origin, a token in the URL, too many connections.
const GATE: &[Code] = &[InvalidRequest, Forbidden, Unavailable];
/// Every call that needs a token.
const TOKEN: &[Code] = &[InvalidRequest, Unauthenticated, Forbidden, QuotaExceeded, Unavailable];
/// Every such call but ending a session, which may be repeated.
const LIFE: &[Code] = &[SessionEnded];
/// Every call that takes a body.
const BODY: &[Code] = &[PayloadTooLarge, UnsupportedMediaType];
/// Every call that names keys.
const KEYS: &[Code] = &[InvalidPath, InvalidKey, OperationNotPermitted];

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $($codes:expr),+;)*) => {
        $(
            $(#[$doc])*
            pub struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    let groups: &[&[Code]] = &[$($codes),+];
                    responses(&groups.concat())
                }
            }
        )*
    };
}

refusals! {
    /// Looking at what belongs to everybody.
    Look = TOKEN, LIFE;
    /// Looking at one session.
    LookAtOne = TOKEN, LIFE, &[NotFound];
    /// Making a session.
    Create = TOKEN, LIFE, BODY, &[TtlOutOfRange];
    /// A heartbeat, or releasing everything.
    Act = TOKEN, LIFE, BODY, &[NotFound];
    /// Ending a session.
    End = TOKEN, BODY, &[NotFound];
    /// Reserving.
    Reserve = TOKEN, LIFE, BODY, KEYS, &[
        TtlOutOfRange, NotFound, ResourceLocked, LockAcquisitionFailed, PossibleDeadlock, VersionMismatch, FeaturePaused,
    ];
    /// Releasing.
    Release = TOKEN, LIFE, BODY, KEYS, &[NotFound, LockNotHeld];
    /// Renewing.
    Renew = TOKEN, LIFE, BODY, KEYS, &[NotFound, TtlOutOfRange, LockNotHeld, LockTimeout];
    /// Checking.
    Check = TOKEN, LIFE, BODY, KEYS;
    /// Naming keys in a query.
    CheckQuery = TOKEN, LIFE, KEYS;
    /// Asking a holder to let go.
    Ask = TOKEN, LIFE, BODY, KEYS, &[NotFound];
    /// Approving, which may hand over.
    Approve = TOKEN, LIFE, BODY, &[NotFound, OperationNotPermitted, ResourceLocked, PossibleDeadlock];
    /// Rejecting.
    Reject = TOKEN, LIFE, BODY, &[NotFound, OperationNotPermitted];
    /// Withdrawing.
    Withdraw = TOKEN, LIFE, &[NotFound, OperationNotPermitted];
    /// Taking a reservation away.
    TakeAway = TOKEN, BODY, &[NotFound];
    /// Numbers, where others than this machine could ask for them.
    Metrics = GATE, &[Unauthenticated];
    /// What needs no token; where a server that is not ready says so, that is among it.
    Anybody = GATE;
    /// Nothing there.
    NoSuchFile = GATE, &[NotFound];
}

/// One response for each status, with its codes and an example of each.
fn responses(codes: &[Code]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status = BTreeMap::<u16, Vec<Code>>::new();
    for code in Code::ALL.iter().filter(|code| codes.contains(code)) {
        by_status.entry(code.status()).or_default().push(*code);
    }
    by_status.into_iter().map(|(status, codes)| (status.to_string(), RefOr::T(response(status, &codes)))).collect()
}

fn response(status: u16, codes: &[Code]) -> Response {
    let lines: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}", code.meaning())).collect();
    let words =
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes.iter().map(|code| code.as_str())));
    let mut schema = AllOf::new();
    schema.items.push(Ref::from_schema_name("ErrorBody").into());
    schema.items.push(ObjectBuilder::new().property("code", words).into());
    let mut content = Content::new(Some(RefOr::T(schema.into())));
    for code in codes {
        let example = Ref::new(format!("#/components/examples/{code}"));
        content.examples.insert(code.as_str().to_owned(), RefOr::Ref(example));
    }
    let response = ResponseBuilder::new().description(lines.join("\n\n")).content("application/json", content);
    let header = |about: &str, kind: Type| {
        let schema = ObjectBuilder::new().schema_type(kind);
        let mut header = Header::new(schema);
        header.description = Some(about.to_owned());
        header
    };
    match status {
        401 => response.header("www-authenticate", header("`Bearer`.", Type::String)),
        409 | 429 | 503 => response.header("retry-after", header("Seconds to wait, at least 1.", Type::Integer)),
        _ => response,
    }
    .build()
}

/// What a refusal with this code looks like.
pub fn example(code: Code) -> Value {
    let conflict = json!({
        "filePath": "src/a.rs", "key": "src/**", "reservedBy": "bo", "reservedByName": "Bo", "mode": "exclusive",
        "reason": "splitting the parser", "expiresAt": "2026-01-31T09:31:00.250Z",
        "heldBy": { "sessionId": "bo", "reservedAt": "2026-01-31T09:30:00.250Z" }, "example": "src/a.rs", "queueLength": 0,
    });
    let blocked = |sentence: &str| {
        json!({
            "error": sentence, "reservedBy": "bo", "reservedByName": "Bo", "expiresAt": "2026-01-31T09:31:00.250Z",
            "conflicts": [conflict], "reserved": [],
        })
    };
    let mut body = match code {
        InvalidRequest => json!({
            "error": "The field ttlSeconds is wrong: invalid type: string \"60\", expected a whole number.",
            "field": "ttlSeconds",
        }),
        InvalidPath => json!({ "error": "\"../a\" is not a path that can be reserved: it leaves the repository." }),
        InvalidKey => json!({ "error": "\"db:Users!\" is not a key: db: takes lower-case identifiers." }),
        TtlOutOfRange => {
            json!({ "error": "ttlSeconds is 301, and must be 1 to 300", "field": "ttlSeconds", "min": 1, "max": 300 })
        }
        Unauthenticated => {
            json!({ "error": "this call needs a token; send it as Authorization: Bearer <token>" })
        }
        Forbidden => json!({ "error": "this token acts for another session" }),
        LockNotHeld => json!({
            "error": "\"src/a.rs\" is held by Bo (bo), not by this session", "reservedBy": "bo", "reservedByName": "Bo",
        }),
        OperationNotPermitted => json!({
            "error": "\"foo:bar\" cannot be reserved: there is no namespace \"foo\"; a file that really has this name is written \"file:foo:bar\".",
        }),
        NotFound => json!({ "error": "there is nothing of this name in this repository" }),
        MethodNotAllowed => json!({ "error": "this path does not take this method; see the Allow header" }),
        PayloadTooLarge => json!({ "error": "the body is larger than the 65536 bytes this call takes" }),
        UnsupportedMediaType => {
            json!({ "error": "the body must be JSON; send it with Content-Type: application/json" })
        }
        ResourceLocked => blocked("File already reserved"),
        LockAcquisitionFailed => blocked("waited, and it is still reserved by somebody else"),
        PossibleDeadlock => json!({
            "error": "waiting would never end: ana, bo wait for each other in a circle; release something first",
            "cycle": [
                { "session": "ana", "holds": "src/b.rs", "wants": "src/a.rs" },
                { "session": "bo", "holds": "src/a.rs", "wants": "src/b.rs" },
            ],
        }),
        VersionMismatch => json!({
            "error": "\"src/a.rs\" is at version 4 by now; look at it again before changing it", "field": "src/a.rs", "version": 4,
        }),
        SessionEnded => {
            json!({ "error": "session ana has ended (completed); its token is dead", "state": "completed" })
        }
        LockTimeout => json!({ "error": "the reservation of \"src/a.rs\" ran out in the meantime; reserve it again" }),
        FeaturePaused => json!({
            "error": "feature F-1 is paused by Bo (bo) (release night); wait until that is over", "reservedBy": "bo",
            "reservedByName": "Bo", "reason": "release night", "expiresAt": "2026-01-31T10:00:00.000Z",
        }),
        QuotaExceeded => json!({
            "error": "the limit of 1000 waiting requests of one session is reached; release something or ask for a higher one",
            "limit": 1000,
        }),
        Unavailable => json!({ "error": "the server is stopping; ask again in a moment" }),
        Unrecognized => json!({ "error": "never sent" }),
    };
    body["code"] = code.as_str().into();
    body
}
