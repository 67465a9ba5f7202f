//! What the handlers' descriptions cannot say: what holds for every call, which fields exclude each other, examples.

use serde_json::{Value, json};

use super::{examples, refusals};
use crate::http::{App, Repository};
use crate::wire::Code;
use crate::wire::limits::{NAME_CHARS_MAX, REASON_CHARS_MAX, TOKEN_SECONDS_MAX, WAIT_SECONDS_MAX};

/// The whole document.
pub fn finish(described: utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(described).expect("a document is plain data");
    document["info"]["description"] = introduction().into();
    document["components"]["parameters"] = shared_parameters();
    document["components"]["headers"] = json!({ "RequestId": {
        "description": "The request's id: the client's if it sent a sane one, else a new one.",
        "required": true,
        "schema": { "type": "string", "minLength": 1 },
        "example": "0198f0a4b5c67d8e9fa0b1c2d3e4f506",
    } });
    let refusal = |code: &Code| (code.as_str().to_owned(), json!({ "value": refusals::example(*code) }));
    let sent = Code::ALL.iter().filter(|code| **code != Code::MethodNotAllowed);
    document["components"]["examples"] = sent.map(refusal).collect();
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
    // A number that no key's version can reach is a version like any other that is not the key's.
    let version = &mut schemas["Reserve"]["properties"]["ifVersion"];
    version.as_object_mut().expect("a field is described").remove("format");
    // Clients know a kind for news they do not know; no server sends it.
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
        ("UnlockRequest", "reason", "maxLength", REASON_CHARS_MAX),
        ("Reject", "note", "maxLength", REASON_CHARS_MAX),
        ("Override", "reason", "maxLength", REASON_CHARS_MAX),
        ("CreateSession", "name", "maxLength", NAME_CHARS_MAX),
        ("CreateSession", "feature", "maxLength", NAME_CHARS_MAX),
        ("CreateSession", "ttlSeconds", "maximum", TOKEN_SECONDS_MAX as usize),
    ];
    for (schema, field, keyword, limit) in fields {
        let field = schemas[schema]["properties"][field].as_object_mut().expect("the field is described");
        field.insert(keyword.to_owned(), limit.into());
    }
}

/// The longest and shortest TTL, and the most keys, depend on the configuration.
pub fn tell_bounds(document: &mut Value, app: &App) {
    let of = |repo: &Repository| [repo.policy().file_ttl, repo.policy().name_ttl];
    let bounds: Vec<_> = app.repositories.values().flat_map(|repo| of(repo)).collect();
    let min = bounds.iter().map(|ttl| ttl.min).min();
    let max = bounds.iter().map(|ttl| ttl.max).max();
    document["components"]["schemas"]["Reserve"]["properties"]["filePaths"]["maxItems"] =
        app.limits().keys_per_reserve.into();
    for name in ["paths", "filePaths"] {
        document["components"]["schemas"]["Check"]["properties"][name]["maxItems"] = app.limits().keys_per_check.into();
    }
    for name in ["Reserve", "Renew"] {
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
        body["content"]["application/json"]["examples"] = examples::asked(&id);
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
                "description": "Each event; the fields are those of server-sent events.",
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
    if let Some((status, answer)) = examples::answered(&id) {
        operation["responses"][status]["content"]["application/json"]["examples"] = answer;
    }
}

/// Where an answer leads: the call that gave it, its status, a name, the call it leads to, and what to give that.
fn links() -> Vec<(&'static str, &'static str, &'static str, &'static str, Value)> {
    let session = json!({ "id": "$response.body#/sessionId" });
    let asked = json!({ "id": "$request.path.id", "reqId": "$response.body#/id" });
    let held = json!({ "id": "$response.body#/reservedBy", "reqId": "$response.body#/id" });
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
        ("askToUnlock", "201", "withdraw", "withdrawUnlockRequest", asked),
        ("askToUnlock", "201", "approve", "approveUnlockRequest", held.clone()),
        ("askToUnlock", "201", "reject", "rejectUnlockRequest", held),
    ]
}

/// A body whose fields are all optional may be left out. It is described as "that or null", and null is refused.
fn body_may_be_empty(body: &mut Value) {
    let schema = &mut body["content"]["application/json"]["schema"];
    let Some(choices) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let shape = choices.iter().find(|choice| choice["type"] != "null").expect("that or null").clone();
    *schema = shape;
    body["required"] = false.into();
}

/// Null is the same as absent, so one of the two fields is there and the other is not, or is null.
fn exactly_one(schema: &mut Value, one: &str, other: &str) {
    let kind = |field: &str| if field == "filePath" { "string" } else { "array" };
    let only = |one: &str, other: &str| json!({ "required": [one], "properties": { one: { "type": kind(one) }, other: { "type": "null" } } });
    schema["oneOf"] = json!([only(one, other), only(other, one)]);
}

fn shared_parameters() -> Value {
    json!({
        "repo": {
            "name": "repo", "in": "query", "required": false,
            "description": "The repository, for a token that is good for several; another one than the token's is refused.",
            "schema": { "type": "string" }, "example": "app",
        },
        "requestId": {
            "name": "x-request-id", "in": "header", "required": false,
            "description": "Comes back with the answer and is in the server's log, if it is 1 to 128 of A-Z, a-z, 0-9 and `-_.:/+=`; anything else is replaced.",
            "schema": { "type": "string" }, "example": "7b0f3c1e-5a5f-4d0c-8a5e-0d8f5f7f9a11",
        },
    })
}

fn introduction() -> String {
    let mut text = "File reservations for repositories that many worker sessions share. A session calls dibs on what it is \
        about to change; nobody else may commit or push a change to it until it lets go, its time runs out, or the session \
        ends.\n\n\
        JSON in, JSON out. Unknown fields of a request are ignored, null is the same as absent, and a wrong type is a 400 \
        that names the field. Every mutating call is safe to repeat. Every refusal has the shape of `ErrorBody`; a path that \
        does not exist answers 404, a method that a path does not take 405 with `Allow`.\n\n\
        Before anything else, requests are refused that call the server by a name it does not go by or that come from \
        a web page of another site (403), and those with a token in the URL (401).\n\n\
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
