//! What the descriptions at the handlers cannot express: what is the same for every call, which fields exclude each
//! other, the limits of the contract, examples.

use serde_json::{Value, json};

use super::{examples, refusals};
use crate::http::{App, Repository};
use crate::wire::Code;
use crate::wire::limits::{
    CLAIM_UPDATES_MAX, IDLE_SECONDS_MAX, NAME_CHARS_MAX, PORTS_MAX, PUSH_UPDATES_MAX, REASON_CHARS_MAX, REF_BYTES_MAX,
    TOKEN_SECONDS_MAX, WAIT_SECONDS_MAX,
};

/// Completes the document that was made from the handlers.
pub fn finish(handlers: utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(handlers).expect("a document is plain data");
    document["info"]["description"] = introduction().into();
    document["components"]["parameters"] = shared_parameters();
    document["components"]["headers"] = json!({ "RequestId": {
        "description": "The id of the request: the client's own if it sent a usable one, else a new one.",
        "required": true,
        "schema": { "type": "string", "minLength": 1 },
        "example": "0198f0a4b5c67d8e9fa0b1c2d3e4f506",
    } });
    let refusal = |code: &Code| (code.as_str().to_owned(), json!({ "value": refusals::example(*code) }));
    let codes = Code::ALL.iter().filter(|code| !refusals::OF_NO_CALL.contains(code));
    document["components"]["examples"] = codes.map(refusal).collect();
    for (_, item) in entries(&mut document["paths"]) {
        for (_, operation) in entries(item) {
            finish_operation(operation);
        }
    }
    let schemas = &mut document["components"]["schemas"];
    for name in ["Reserve", "Release", "Renew"] {
        exactly_one(&mut schemas[name], "filePath", "filePaths");
    }
    exactly_one(&mut schemas["Check"], "paths", "filePaths");
    contract_limits(schemas);
    // A number that no version can reach is valid; it is just not the version of the key.
    let version = &mut schemas["Reserve"]["properties"]["ifVersion"];
    version.as_object_mut().expect("a field is described").remove("format");
    // Clients have a kind for notices and events that they do not know. No server sends it.
    for (name, tag) in [("Notice", "kind"), ("EventKind", "event")] {
        let kinds = schemas[name]["oneOf"].as_array_mut().expect("it is one of several kinds");
        kinds.retain(|kind| kind["properties"][tag]["enum"] != json!(["unrecognized"]));
    }
    document
}

/// The fixed numbers of the contract. The derive macros take only literals, so they are set here.
fn contract_limits(schemas: &mut Value) {
    let fields = [
        ("Reserve", "reason", "maxLength", REASON_CHARS_MAX),
        ("Reserve", "waitSeconds", "maximum", WAIT_SECONDS_MAX as usize),
        ("Reserve", "idleSeconds", "maximum", IDLE_SECONDS_MAX as usize),
        ("Check", "idleSeconds", "maximum", IDLE_SECONDS_MAX as usize),
        ("UnlockRequest", "reason", "maxLength", REASON_CHARS_MAX),
        ("Reject", "note", "maxLength", REASON_CHARS_MAX),
        ("Override", "reason", "maxLength", REASON_CHARS_MAX),
        ("LockEntity", "reason", "maxLength", REASON_CHARS_MAX),
        ("RequestEntity", "reason", "maxLength", REASON_CHARS_MAX),
        ("AllocatePorts", "count", "maximum", PORTS_MAX as usize),
        ("AllocatePorts", "purpose", "maxLength", REASON_CHARS_MAX),
        ("CreateSession", "name", "maxLength", NAME_CHARS_MAX),
        ("CreateSession", "feature", "maxLength", NAME_CHARS_MAX),
        ("CreateSession", "ttlSeconds", "maximum", TOKEN_SECONDS_MAX as usize),
        ("AnnouncePush", "updates", "maxItems", PUSH_UPDATES_MAX),
        ("ClaimPush", "updates", "maxItems", CLAIM_UPDATES_MAX),
        ("RefUpdate", "ref", "maxLength", REF_BYTES_MAX),
    ];
    for (schema, field, keyword, limit) in fields {
        let field = schemas[schema]["properties"][field].as_object_mut().expect("the field is described");
        field.insert(keyword.to_owned(), limit.into());
    }
}

/// Sets the bounds that depend on the configuration: TTLs, and keys per call.
pub fn set_bounds(document: &mut Value, app: &App) {
    let of = |repo: &Repository| [repo.policy().file_ttl, repo.policy().name_ttl];
    let bounds: Vec<_> = app.repositories.open().flat_map(|repo| of(&repo)).collect();
    // A node that leads nothing says nothing about them.
    if bounds.is_empty() {
        return;
    }
    let min = bounds.iter().map(|ttl| ttl.min).min();
    let max = bounds.iter().map(|ttl| ttl.max).max();
    document["components"]["schemas"]["Reserve"]["properties"]["filePaths"]["maxItems"] =
        app.limits().keys_per_reserve.into();
    for name in ["paths", "filePaths", "blobs"] {
        document["components"]["schemas"]["Check"]["properties"][name]["maxItems"] = app.limits().keys_per_check.into();
    }
    let names = app.repositories.open().map(|repo| repo.policy().name_ttl);
    for name in ["AllocatePorts", "LockEntity"] {
        let field = &mut document["components"]["schemas"][name]["properties"]["ttlSeconds"];
        field["minimum"] = names.clone().map(|ttl| ttl.min).max().into();
        field["maximum"] = names.clone().map(|ttl| ttl.max).min().into();
    }
    for name in ["Reserve", "Renew", "Check"] {
        let field = &mut document["components"]["schemas"][name]["properties"]["ttlSeconds"];
        (field["minimum"], field["maximum"]) = (min.into(), max.into());
    }
}

fn finish_operation(operation: &mut Value) {
    let id = operation["operationId"].as_str().expect("every call has a name").to_owned();
    let has_token = operation.get("security").is_none();
    let parameters = operation.as_object_mut().expect("a call is an object").entry("parameters");
    let parameters = parameters.or_insert_with(|| json!([])).as_array_mut().expect("a list");
    if has_token {
        parameters.push(json!({ "$ref": "#/components/parameters/repo" }));
    }
    parameters.push(json!({ "$ref": "#/components/parameters/requestId" }));
    for (_, response) in entries(&mut operation["responses"]) {
        response["headers"]["x-request-id"] = json!({ "$ref": "#/components/headers/RequestId" });
    }
    if let Some(body) = operation.get_mut("requestBody") {
        body_may_be_empty(body);
        body["content"]["application/json"]["examples"] = examples::requests(&id);
    }
    for (_, status, name, to, parameters) in links().into_iter().filter(|(from, ..)| *from == id) {
        operation["responses"][status]["links"][name] = json!({ "operationId": to, "parameters": parameters });
    }
    for (kind, content) in operation.pointer_mut("/responses/200/content").into_iter().flat_map(entries) {
        if kind == "text/event-stream" {
            let data =
                ["Event", "Reset", "Notices"].map(|name| json!({ "$ref": format!("#/components/schemas/{name}") }));
            content["schema"] = json!({
                "type": "object",
                "description": "One event, with the fields of server-sent events.",
                "required": ["event", "data"],
                "properties": {
                    "id": { "type": "string", "pattern": "^[0-9]+$" },
                    "event": { "type": "string" },
                    "data": { "type": "string", "contentMediaType": "application/json", "contentSchema": { "oneOf": data } },
                },
            });
        }
        if let Some(text) = examples::text(&id) {
            content["examples"] = json!({ "text": { "value": text } });
        }
    }
    if let Some((status, answer)) = examples::answers(&id) {
        operation["responses"][status]["content"]["application/json"]["examples"] = answer;
    }
}

/// Links from a reply to a further call: the call, its status, the name of the link, the further call, its parameters.
fn links() -> Vec<(&'static str, &'static str, &'static str, &'static str, Value)> {
    let session = json!({ "id": "$response.body#/sessionId" });
    let asker_link = json!({ "id": "$request.path.id", "reqId": "$response.body#/id" });
    let holder_link = json!({ "id": "$response.body#/reservedBy", "reqId": "$response.body#/id" });
    vec![
        ("createSession", "201", "look", "getSession", session.clone()),
        ("createSession", "201", "reserve", "reserve", session.clone()),
        ("createSession", "201", "end", "endSession", session),
        ("reserve", "200", "holds", "listReservedFiles", json!({ "id": "$request.path.id" })),
        ("reserve", "200", "takeAway", "takeAway", json!({ "reservationId": "$response.body#/reservationId" })),
        (
            "listReservations",
            "200",
            "first",
            "takeAway",
            json!({ "reservationId": "$response.body#/reservations/0/reservationId" }),
        ),
        ("askToUnlock", "201", "withdraw", "withdrawUnlockRequest", asker_link),
        ("askToUnlock", "201", "approve", "approveUnlockRequest", holder_link.clone()),
        ("askToUnlock", "201", "reject", "rejectUnlockRequest", holder_link),
    ]
}

/// A body whose fields are all optional may be left out. utoipa describes it as "the body or null", but null is refused.
fn body_may_be_empty(body: &mut Value) {
    let schema = &mut body["content"]["application/json"]["schema"];
    let Some(choices) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let shape = choices.iter().find(|choice| choice["type"] != "null").expect("the body or null").clone();
    *schema = shape;
    body["required"] = false.into();
}

/// Exactly one of the two fields is required. The other is absent or null, which is the same.
fn exactly_one(schema: &mut Value, one: &str, other: &str) {
    let kind = |field: &str| if field == "filePath" { "string" } else { "array" };
    let only = |one: &str, other: &str| json!({ "required": [one], "properties": { one: { "type": kind(one) }, other: { "type": "null" } } });
    schema["oneOf"] = json!([only(one, other), only(other, one)]);
}

fn shared_parameters() -> Value {
    json!({
        "repo": {
            "name": "repo", "in": "query", "required": false,
            "description": "The repository, for a token that is for several. A repository that the token is not for is refused.",
            "schema": { "type": "string" }, "example": "app",
        },
        "requestId": {
            "name": "x-request-id", "in": "header", "required": false,
            "description": "The reply and the log of the server repeat it, if it is 1 to 128 of A-Z, a-z, 0-9 and `-_.:/+=`. Any other value is replaced.",
            "schema": { "type": "string" }, "example": "7b0f3c1e-5a5f-4d0c-8a5e-0d8f5f7f9a11",
        },
    })
}

fn introduction() -> String {
    let mut text = "File reservations for repositories that many worker sessions share. A session reserves what it is \
        about to change. No other session can commit or push a change to it until the session releases it, the \
        reservation expires, or the session ends.\n\n\
        JSON in, JSON out. Unknown fields of a request are ignored, null is the same as absent, and a wrong type is a 400 \
        that names the field. Every mutating call is safe to repeat. Every error has the shape of `ErrorBody`. An unknown \
        path is a 404, a method that a path does not support a 405 with `Allow`, a URL that is too long a 414, a head that \
        is too large a 431.\n\n\
        Requests with a `Host` that the server does not accept, or from a web page of another site, are refused with 403, \
        requests with a token in the URL with 401.\n\n\
        | status | code | meaning |\n|---|---|---|\n"
        .to_owned();
    for code in Code::ALL {
        text += &format!("| {} | `{code}` | {} |\n", code.status(), code.meaning());
    }
    text
}

fn entries(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}
