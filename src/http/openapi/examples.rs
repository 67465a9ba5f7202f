//! Examples of the request and reply bodies of every call.

use serde_json::{Value, json};

/// Examples of the body of a request, by name.
pub fn requests(call: &str) -> Value {
    let one = json!({ "filePath": "src/services/user-service.ts" });
    let many = json!({ "filePaths": ["src/a.rs", "src/b.rs"] });
    let named = |examples: &[(&str, &Value)]| -> Value {
        examples.iter().map(|(name, value)| ((*name).to_owned(), json!({ "value": value }))).collect()
    };
    let update = json!({
        "ref": "refs/heads/main", "old": "5716ca5987cbf97d6bb54920bea6adde242d87e6",
        "new": "257cc5642cb1a054f08cc83f2d943e56fd3ebe99",
    });
    match call {
        "createSession" => {
            named(&[("session", &json!({ "sessionId": "ana", "name": "Ana", "feature": "F-1", "ttlSeconds": 3600 }))])
        }
        "endSession" => named(&[("failed", &json!({ "state": "failed" }))]),
        "reserve" => named(&[
            ("one", &json!({ "filePath": "src/services/user-service.ts", "ttlSeconds": 120 })),
            (
                "several",
                &json!({ "filePaths": ["src/a.rs", "src/b/", "db:migration-slot"], "reason": "splitting the parser" }),
            ),
            ("whileSession", &json!({ "filePath": "src/c.rs", "whileSession": true, "idleSeconds": 3600 })),
            ("waiting", &json!({ "filePath": "src/**/*.rs", "mode": "shared", "waitSeconds": 30 })),
        ]),
        "release" => named(&[("one", &one), ("several", &many)]),
        "renew" => named(&[
            ("one", &json!({ "filePath": "src/services/user-service.ts", "ttlSeconds": 120 })),
            ("several", &many),
        ]),
        "checkConflicts" | "checkConflictsAsNobody" => {
            named(&[("paths", &json!({ "paths": ["src/a.rs", "src/b.rs"] }))])
        }
        "lockEntity" => named(&[("lock", &json!({ "agentId": "ana", "agentName": "Ana", "reason": "a deployment" }))]),
        "unlockEntity" | "approveEntityRequest" | "rejectEntityRequest" => {
            named(&[("holder", &json!({ "agentId": "ana" }))])
        }
        "askToUnlockEntity" => {
            named(&[("request", &json!({ "requestedBy": "bo", "reason": "a fix that cannot wait" }))])
        }
        "allocatePorts" => named(&[("four", &json!({ "count": 4, "purpose": "the development stack" }))]),
        "announcePush" => named(&[("push", &json!({ "updates": [update] }))]),
        "claimPush" => {
            named(&[("push", &json!({ "updates": [update], "check": { "paths": ["src/a.rs"], "intent": "change" } }))])
        }
        "askToUnlock" => named(&[("request", &json!({ "filePath": "src/a.rs", "reason": "a fix that cannot wait" }))]),
        "approveUnlockRequest" => named(&[("handOver", &json!({ "handOver": true }))]),
        "rejectUnlockRequest" => named(&[("note", &json!({ "note": "done in ten minutes" }))]),
        "signIn" => named(&[("code", &json!({ "code": "3d8a40b7c1f04c5e9b7a6d1f20e4c8aa" }))]),
        "takeAway" => named(&[("reason", &json!({ "reason": "its holder is gone" }))]),
        _ => named(&[("nothing", &json!({}))]),
    }
}

/// The beginning of a reply in plain text.
pub fn text(call: &str) -> Option<&'static str> {
    match call {
        "followEvents" => Some(
            "id: 42\nevent: reserved\ndata: {\"seq\":42,\"at\":\"2026-01-31T09:30:00.250Z\",\"event\":\"reserved\",\
            \"reservationId\":\"res_0198f0a4b5c67d8e9fa0b1c2d3e4f506\",\"filePath\":\"src/a.rs\",\"sessionId\":\"ana\",\
            \"mode\":\"exclusive\",\"reason\":null,\"reservedAt\":\"2026-01-31T09:30:00.250Z\",\
            \"expiresAt\":\"2026-01-31T09:32:00.250Z\",\"ttlSeconds\":120,\"fence\":42}\n\n",
        ),
        "getMetrics" => Some("# TYPE dibs_reservations gauge\ndibs_reservations{repo=\"app\"} 1\n"),
        _ => None,
    }
}

/// The status of a successful reply, and examples of its body, by name.
pub fn answers(call: &str) -> Option<(&'static str, Value)> {
    let reserved = |key: &str| {
        json!({
            "reservationId": "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506", "filePath": key, "sessionId": "ana",
            "mode": "exclusive", "reason": "splitting the parser", "reservedAt": "2026-01-31T09:30:00.250Z",
            "expiresAt": "2026-01-31T09:32:00.250Z", "ttlSeconds": 120, "fence": 42, "version": 3,
        })
    };
    let renewed = json!({
        "reservationId": "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506", "filePath": "src/a.rs", "sessionId": "ana",
        "expiresAt": "2026-01-31T09:32:00.250Z", "ttlSeconds": 120, "fence": 42, "version": 3,
    });
    let listed = json!({
        "reservationId": "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506", "filePath": "src/**", "sessionId": "bo",
        "sessionName": "Bo", "mode": "exclusive", "reason": null, "reservedAt": "2026-01-31T09:30:00.250Z",
        "expiresAt": "2026-01-31T10:00:00.250Z", "ttlSeconds": 1800, "whileSession": true, "fence": 41, "version": 0,
    });
    let session = json!({
        "sessionId": "ana", "state": "active", "name": "Ana", "feature": "F-1", "startedAt": "2026-01-31T09:00:00.000Z",
        "lastSeenAt": "2026-01-31T09:30:00.250Z", "heldCount": 1, "waitingFor": ["src/a.rs"],
    });
    let request = |status: &str, is_answered: bool| {
        json!({
            "id": "0d0e9c7e-54ea-4cf6-9d3b-4dd7a7f8b6b1", "reservationId": "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506",
            "filePath": "src/a.rs", "reservedBy": "bo", "reservedByName": "Bo", "requestedBy": "ana", "requestedByName": "Ana",
            "reason": "a fix that cannot wait", "requestedAt": "2026-01-31T09:30:00.250Z", "status": status,
            "respondedAt": is_answered.then_some("2026-01-31T09:30:10.000Z"), "respondedBy": is_answered.then_some("bo"),
        })
    };
    let notice = json!({
        "kind": "unlockRequested", "requestId": "0d0e9c7e-54ea-4cf6-9d3b-4dd7a7f8b6b1",
        "reservationId": "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506", "filePath": "src/a.rs", "requestedBy": "bo",
        "requestedByName": "Bo", "reason": "a fix that cannot wait", "requestedAt": "2026-01-31T09:30:00.250Z",
    });
    let login = json!({
        "scope": "session", "subject": "ana", "sessionId": "ana", "name": "Ana", "repositories": ["app"],
        "expiresAt": "2026-02-01T09:30:00.000Z", "mayChange": true, "version": env!("CARGO_PKG_VERSION"),
    });
    let health = |status: &str| json!({ "status": status, "version": env!("CARGO_PKG_VERSION"), "now": "2026-01-31T09:30:00.000Z" });
    let (status, name, value) = match call {
        "createSession" => {
            ("201", "session", json!({ "sessionId": "ana", "token": "<JWT>", "expiresAt": "2026-02-01T09:30:00.000Z" }))
        }
        "listSessions" => ("200", "page", json!({ "sessions": [session], "nextCursor": "1000" })),
        "getSession" => ("200", "session", session),
        "heartbeat" => {
            ("200", "alive", json!({ "renewedCount": 1, "expiresAt": "2026-01-31T09:31:00.250Z", "notices": [notice] }))
        }
        "endSession" => {
            ("200", "ended", json!({ "state": "failed", "releasedCount": 1, "releasedPaths": ["src/a.rs"] }))
        }
        "reserve" => {
            let several = json!({
                "reservations": [reserved("src/a.rs")], "reserved": ["src/a.rs"], "conflicts": [],
            });
            let both = json!({ "one": { "value": reserved("src/services/user-service.ts") }, "several": { "value": several } });
            return Some(("200", both));
        }
        "renew" => {
            let several = json!({ "expiresAt": "2026-01-31T09:32:00.250Z", "reservations": [renewed] });
            return Some(("200", json!({ "one": { "value": renewed }, "several": { "value": several } })));
        }
        "release" | "takeAway" => ("200", "released", json!({ "ok": true, "released": true, "releasedCount": 1 })),
        "releaseAll" => ("200", "released", json!({ "releasedCount": 1, "releasedPaths": ["src/a.rs"] })),
        "checkConflicts" | "checkConflictsByQuery" | "checkConflictsAsNobody" => {
            let conflict = json!({
                "filePath": "src/a.rs", "key": "src/a.rs", "reservedBy": "bo", "reservedByName": "Bo",
                "mode": "exclusive", "reason": null, "expiresAt": "2026-01-31T09:31:00.250Z",
                "heldBy": { "sessionId": "bo", "reservedAt": "2026-01-31T09:30:00.250Z" }, "queueLength": 0,
            });
            (
                "200",
                "conflict",
                json!({ "conflicts": [conflict], "clear": ["src/b.rs"], "held": [], "serverTime": "2026-01-31T09:30:10.000Z" }),
            )
        }
        "isAnythingHeld" => ("200", "others", json!({ "own": false, "others": true, "paused": false })),
        "listReservedFiles" | "listReservations" => ("200", "held", json!({ "reservations": [listed] })),
        "getHistory" => {
            let event = json!({
                "seq": 42, "at": "2026-01-31T09:30:00.250Z", "event": "reserved", "sessionId": "ana", "sessionName": "Ana",
                "filePath": "src/a.rs", "mode": "exclusive", "reason": "splitting the parser", "ttlSeconds": 120,
                "reservedAt": "2026-01-31T09:30:00.250Z", "expiresAt": "2026-01-31T09:32:00.250Z", "fence": 42,
                "reservationId": "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506",
            });
            ("200", "page", json!({ "events": [event], "nextCursor": "42" }))
        }
        "getEntity"
        | "lockEntity"
        | "unlockEntity"
        | "listEntityRequests"
        | "askToUnlockEntity"
        | "approveEntityRequest"
        | "rejectEntityRequest"
        | "withdrawEntityRequest" => {
            let request = json!({
                "id": "0d0e9c7e-54ea-4cf6-9d3b-4dd7a7f8b6b1", "requestedBy": "bo", "requestedByName": "Bo",
                "reason": "a fix that cannot wait", "requestedAt": "2026-01-31T09:30:00.250Z", "status": "pending",
                "respondedAt": null, "respondedBy": null,
            });
            let lock = json!({
                "lockedBy": "ana", "lockedByName": "Ana", "lockedAt": "2026-01-31T09:30:00.250Z", "reason": null,
                "expiresAt": "2026-01-31T10:00:00.250Z", "reservationId": "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506",
                "fence": 42, "ttlSeconds": 1800, "version": 0,
            });
            let status = if call == "askToUnlockEntity" { "201" } else { "200" };
            (status, "locked", json!({ "lock": lock, "requests": [request] }))
        }
        "allocatePorts" | "listPorts" => (
            "200",
            "ports",
            json!({
                "ports": [20004, 20005, 20006, 20007], "expiresAt": "2026-01-31T10:00:00.250Z",
                "ttlSeconds": 1800, "version": 0,
                "env": {
                    "API_PORT": "20007", "COMPOSE_PROJECT_NAME": "dibs-ana-5f4c1a90", "DB_PORT": "20004",
                    "REALTIME_PORT": "20006", "REST_PORT": "20005",
                },
            }),
        ),
        "freePorts" => ("200", "freed", json!({ "ok": true, "released": true, "releasedCount": 4 })),
        "getReservationHistory" => (
            "200",
            "states",
            json!({
                "reservationId": "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506", "filePath": "src/a.rs", "sessionId": "ana",
                "states": [
                    { "state": "Waiting", "at": "2026-01-31T09:30:00.250Z", "seq": 40 },
                    { "state": "Acquired", "at": "2026-01-31T09:30:10.000Z", "seq": 42 },
                    { "state": "Released", "at": "2026-01-31T09:31:00.000Z", "seq": 43, "why": "released" },
                ],
            }),
        ),
        "announcePush" => ("200", "announced", json!({ "expiresAt": "2026-01-31T09:31:00.250Z" })),
        "claimPush" => (
            "200",
            "announced",
            json!({
                "sessionId": "ana", "name": "Ana", "check": { "conflicts": [], "clear": ["src/a.rs"], "held": ["src/a.rs"] },
            }),
        ),
        "createLoginCode" => (
            "201",
            "code",
            json!({ "code": "3d8a40b7c1f04c5e9b7a6d1f20e4c8aa", "expiresAt": "2026-01-31T09:31:00.000Z" }),
        ),
        "signIn" => {
            let mut signed_in = login;
            signed_in["changeSecret"] = "90c1f04c5e9b7a6d1f20e4c8aa3d8a40".into();
            ("200", "session", signed_in)
        }
        "getLogin" => ("200", "session", json!({ "login": login })),
        "signOut" => ("200", "done", json!({})),
        "listWaits" => {
            let blocker = json!({ "sessionId": "ana", "sessionName": "Ana", "key": "src/**", "kind": "holder" });
            let wait = json!({
                "waiter": 43, "sessionId": "bo", "sessionName": "Bo", "keys": ["src/a.rs"], "since": "2026-01-31T09:30:00.250Z",
                "givesUpAt": "2026-01-31T09:31:00.250Z", "blockedBy": [blocker],
            });
            let root = json!({
                "sessionId": "ana", "sessionName": "Ana", "blocks": 1, "longestWaitSince": "2026-01-31T09:30:00.250Z",
            });
            ("200", "waits", json!({ "waits": [wait], "roots": [root], "moreWaits": 0 }))
        }
        "listRefusals" => {
            let refusal = json!({
                "at": "2026-01-31T09:30:00.250Z", "firstAt": "2026-01-31T09:29:00.250Z", "count": 3,
                "sessionId": "bo", "sessionName": "Bo", "code": "RESOURCE_LOCKED",
                "keys": ["src/a.rs"], "blockers": [{ "sessionId": "ana", "sessionName": "Ana", "key": "src/**" }],
            });
            ("200", "refusals", json!({ "refusals": [refusal], "dropped": 0 }))
        }
        "listHotspots" => {
            let hot = json!({
                "window": "hour", "since": "2026-01-31T08:30:00.000Z", "stepSeconds": 600,
                "paths": [{
                    "key": "src/a.rs", "conflicts": 26, "waits": 4, "averageWaitSeconds": 12.5,
                    "byStep": [0, 0, 4, 9, 12, 0, 1],
                    "between": [
                        { "sessionId": "ana", "sessionName": "Ana" }, { "sessionId": "bo", "sessionName": "Bo" },
                    ],
                }],
                "directories": [{ "directory": "src", "conflicts": 26 }],
                "sessions": [{ "sessionId": "bo", "sessionName": "Bo", "expired": 2 }], "totalConflicts": 26,
            });
            ("200", "hour", hot)
        }
        "getStats" => (
            "200",
            "figures",
            json!({
                "totalLocks": 5, "activeLocks": 1, "expiredLocks": 1, "conflictsDetected": 1, "averageHoldTime": 12.5,
                "waiters": 0, "sessions": 2,
            }),
        ),
        "healthz" => ("200", "ok", health("ok")),
        "readyz" => ("200", "ready", health("ready")),
        "askToUnlock" => ("201", "request", request("pending", false)),
        "listUnlockRequests" => ("200", "asked", json!({ "incoming": [], "outgoing": [request("pending", false)] })),
        "listAllUnlockRequests" => ("200", "asked", json!({ "requests": [request("pending", false)] })),
        "approveUnlockRequest" => ("200", "approved", request("approved", true)),
        "rejectUnlockRequest" => ("200", "rejected", request("rejected", true)),
        "withdrawUnlockRequest" => ("200", "withdrawn", request("withdrawn", true)),
        "getDocument" => ("200", "beginning", json!({ "openapi": "3.1.0" })),
        _ => return None,
    };
    Some((status, json!({ name: { "value": value } })))
}
