//! The error codes of each call. The tests compare every reply that they get with this list.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::IntoResponses;
use utoipa::openapi::header::Header;
use utoipa::openapi::schema::{AllOf, ObjectBuilder, Type};
use utoipa::openapi::{Content, Ref, RefOr, Response, ResponseBuilder};

use crate::key::{Key, KeyRules};
use crate::wire::Code::{self, *};

/// Codes of every call, from before the token is read: a malformed request, a wrong Host or Origin, a token in the URL, too
/// many connections.
const CONNECTION: &[Code] = &[InvalidRequest, Forbidden, Unavailable];
/// Codes that belong to no call: the method of a call that is described is allowed, and a URL or a head that is too large is
/// refused before it is known which call it is.
pub const OF_NO_CALL: [Code; 3] = [MethodNotAllowed, UriTooLong, HeadersTooLarge];
/// Codes of every call that needs a token.
const TOKEN: &[Code] = &[InvalidRequest, Unauthenticated, Forbidden, QuotaExceeded, Unavailable];
/// Every such call. Ending a session may be repeated, but not with a token from before it was opened again.
const ENDED: &[Code] = &[SessionEnded];
/// Codes of every call with a body.
const BODY: &[Code] = &[PayloadTooLarge, UnsupportedMediaType];
/// Codes of every call with keys.
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
    Look = TOKEN, ENDED;
    LookAtOne = TOKEN, ENDED, &[NotFound];
    Create = TOKEN, ENDED, BODY, &[TtlOutOfRange];
    /// A heartbeat, or release-all.
    Act = TOKEN, ENDED, BODY, &[NotFound];
    End = TOKEN, ENDED, BODY, &[NotFound];
    Reserve = TOKEN, ENDED, BODY, KEYS, &[
        TtlOutOfRange, NotFound, ResourceLocked, LockAcquisitionFailed, PossibleDeadlock, VersionMismatch, FeaturePaused,
    ];
    Release = TOKEN, ENDED, BODY, KEYS, &[NotFound, LockNotHeld];
    Renew = TOKEN, ENDED, BODY, KEYS, &[NotFound, TtlOutOfRange, LockNotHeld, LockTimeout];
    Check = TOKEN, ENDED, BODY, KEYS, &[TtlOutOfRange];
    /// A call with keys in its query.
    CheckQuery = TOKEN, ENDED, KEYS;
    LookAtEntity = TOKEN, ENDED, KEYS;
    LockEntity = TOKEN, ENDED, BODY, KEYS, &[TtlOutOfRange, NotFound, ResourceLocked, FeaturePaused];
    UnlockEntity = TOKEN, ENDED, BODY, KEYS, &[NotFound, LockNotHeld];
    AskEntity = TOKEN, ENDED, BODY, KEYS, &[NotFound];
    AnswerEntity = TOKEN, ENDED, BODY, KEYS, &[NotFound];
    WithdrawEntity = TOKEN, ENDED, KEYS, &[NotFound];
    AllocatePorts = TOKEN, ENDED, BODY, &[TtlOutOfRange, NotFound, FeaturePaused];
    FreePorts = TOKEN, ENDED, &[NotFound];
    AnnouncePush = TOKEN, ENDED, BODY, &[NotFound];
    /// Asking for an unlock.
    Ask = TOKEN, ENDED, BODY, KEYS, &[NotFound];
    /// Approving, which may hand the key over.
    Approve = TOKEN, ENDED, BODY, &[NotFound, OperationNotPermitted, ResourceLocked, PossibleDeadlock];
    Reject = TOKEN, ENDED, BODY, &[NotFound, OperationNotPermitted];
    Withdraw = TOKEN, ENDED, &[NotFound, OperationNotPermitted];
    /// Overriding a reservation.
    Override = TOKEN, BODY, &[NotFound];
    /// Metrics, if they need a token.
    Metrics = TOKEN, ENDED;
    LoginCode = TOKEN, ENDED, BODY;
    /// Signing in, with a code or a token in the body.
    SignIn = CONNECTION, ENDED, BODY, &[Unauthenticated, QuotaExceeded];
    Login = CONNECTION, &[Unauthenticated];
    /// Calls without a token, including a server that is not ready.
    NoToken = CONNECTION;
    NoSuchFile = CONNECTION, &[NotFound];
}

/// One response for each status, with its codes and their examples.
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

/// An example of an error with this code.
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
        InvalidPath => json!({ "error": bad_key("../a") }),
        InvalidKey => json!({ "error": bad_key("db:Users!") }),
        TtlOutOfRange => {
            json!({ "error": "ttlSeconds is 301; it must be 1 to 300", "field": "ttlSeconds", "min": 1, "max": 300 })
        }
        Unauthenticated => {
            json!({ "error": "this call needs a token; send it as Authorization: Bearer <token>" })
        }
        Forbidden => json!({ "error": "this token acts for another session" }),
        LockNotHeld => json!({
            "error": "\"src/a.rs\" is held by Bo (bo), not by this session", "reservedBy": "bo", "reservedByName": "Bo",
        }),
        OperationNotPermitted => json!({ "error": bad_key("foo:bar") }),
        NotFound => json!({ "error": "there is no such reservation, or it has ended" }),
        MethodNotAllowed => json!({ "error": "this path does not support this method; see the Allow header" }),
        PayloadTooLarge => json!({ "error": "the body is larger than the 65536 bytes that this call accepts" }),
        UriTooLong => json!({ "error": "the URL is too long; send long lists in the body of a POST" }),
        HeadersTooLarge => {
            json!({ "error": "the head of the request is too large; send fewer and shorter headers" })
        }
        UnsupportedMediaType => {
            json!({ "error": "the body must be JSON; send it with Content-Type: application/json" })
        }
        ResourceLocked => blocked("File already reserved"),
        LockAcquisitionFailed => blocked("the wait timed out; another session still holds it"),
        PossibleDeadlock => json!({
            "error": "deadlock: ana, bo would wait for each other; release a key first",
            "cycle": [
                { "session": "ana", "holds": "src/b.rs", "wants": "src/a.rs" },
                { "session": "bo", "holds": "src/a.rs", "wants": "src/b.rs" },
            ],
        }),
        VersionMismatch => json!({
            "error": "\"src/a.rs\" is at version 4 now; read it again before changing it", "field": "src/a.rs", "version": 4,
        }),
        SessionEnded => {
            json!({ "error": "session ana has ended (completed); its token is no longer valid. A token issued after the end opens it again", "state": "completed" })
        }
        LockTimeout => json!({ "error": "the reservation of \"src/a.rs\" has expired; reserve it again" }),
        FeaturePaused => json!({
            "error": "feature F-1 is paused by Bo (bo) (release night); wait until the pause ends", "reservedBy": "bo",
            "reservedByName": "Bo", "reason": "release night", "expiresAt": "2026-01-31T10:00:00.000Z",
        }),
        QuotaExceeded => json!({
            "error": "the limit of 1000 waiting requests of one session is reached; release something, or ask an admin for a higher limit",
            "limit": 1000,
        }),
        Unavailable => json!({ "error": "the server is stopping; try again in a moment" }),
        Unrecognized => json!({ "error": "never sent" }),
    };
    body["code"] = code.as_str().into();
    body
}

/// The sentence for a text that is not a key.
fn bad_key(text: &str) -> String {
    Key::parse(text, &KeyRules::default()).expect_err("this is not a key").to_string()
}
