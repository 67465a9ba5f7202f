// The page's state: lists and events in, state out. Run with: node --test tests/web

import assert from "node:assert/strict";
import test from "node:test";

import { initial, reduce } from "../../web/state.js";

const at = (second) => new Date(Date.UTC(2026, 0, 31, 9, 30, second)).toISOString();

let seq = 0;
const reserved = (id, key, session, more = {}) => ({ seq: ++seq, at: at(0), event: "reserved", reservationId: id, filePath: key, sessionId: session, mode: "exclusive", reason: null, reservedAt: at(0), expiresAt: at(60), ttlSeconds: 60, fence: seq, ...more });
const released = (id, key, session) => ({ seq: ++seq, at: at(1), event: "released", reservationId: id, filePath: key, sessionId: session, why: "released" });
const keys = (state) => state.order.map((one) => one.key);

test("reservations come and go, and stay in the order of their keys", () => {
  const events = [reserved("1", "src/b.rs", "ana"), reserved("2", "src-old/a.rs", "ana"), reserved("3", "src/a.rs", "bo"), reserved("4", "db:slot", "bo")];
  const state = reduce(initial(), events);
  assert.deepEqual(keys(state), ["src/a.rs", "src/b.rs", "src-old/a.rs", "db:slot"]);
  assert.equal(state.sessions.get("ana").held, 2);
  assert.equal(state.seq, seq);
  const next = reduce(state, [released("1", "src/b.rs", "ana"), released("unknown", "x", "ana")]);
  assert.deepEqual(keys(next), ["src/a.rs", "src-old/a.rs", "db:slot"]);
  assert.equal(next.sessions.get("ana").held, 1);
  assert.deepEqual(keys(state), ["src/a.rs", "src/b.rs", "src-old/a.rs", "db:slot"], "the old state is as it was");
});

test("an event that is applied twice changes nothing the second time", () => {
  const event = reserved("1", "a", "ana");
  const once = reduce(initial(), [event]);
  const twice = reduce(once, [event]);
  assert.deepEqual([...twice.reservations], [...once.reservations]);
  assert.deepEqual(twice.order, once.order);
  assert.equal(twice.sessions.get("ana").held, 1);
});

test("what an action does not touch is shared with the state before", () => {
  const state = reduce(initial(), [reserved("1", "a", "ana")]);
  const next = reduce(state, [{ type: "live", data: { reservations: [], sessions: [{ sessionId: "ana", lastSeenAt: at(9) }] } }]);
  assert.equal(next.reservations, state.reservations);
  assert.equal(next.order, state.order);
  assert.notEqual(next.sessions, state.sessions);
});

test("a long list is sorted like single events", () => {
  const list = Array.from({ length: 500 }, (_, n) => reserved(`r${n}`, `dir${n % 7}/file${(n * 37) % 500}`, `s${n % 5}`, { sessionName: `S${n % 5}` }));
  const fromList = reduce(initial(), [{ type: "reservations", list: { reservations: list, seq: 900 }, isFirst: true }]);
  const fromEvents = reduce(initial(), list);
  assert.deepEqual(keys(fromList), keys(fromEvents));
  assert.equal(fromList.seq, 900);
  assert.equal(fromList.sessions.get("s3").name, "S3");
  assert.equal(fromList.sessions.get("s3").held, 100);
});

test("a renewal moves a deadline and nothing else", () => {
  const state = reduce(initial(), [reserved("1", "a", "ana")]);
  const next = reduce(state, [{ type: "live", data: { reservations: [{ reservationId: "1", expiresAt: at(50) }, { reservationId: "gone", expiresAt: at(50) }] } }]);
  assert.equal(next.reservations.get("1").expires, Date.parse(at(50)));
  assert.equal(next.order[0], next.reservations.get("1"));
  assert.equal(next.reservations.size, 1);
});

test("an amended reservation never ends earlier than before", () => {
  const state = reduce(initial(), [reserved("1", "a", "ana", { ttlSeconds: 60, expiresAt: at(59) })]);
  const amend = (ttl) => ({ seq: ++seq, at: at(1), event: "amended", reservationId: "1", filePath: "a", sessionId: "ana", mode: "shared", reason: "why", ttlSeconds: ttl });
  const shorter = reduce(state, [amend(10)]).reservations.get("1");
  assert.deepEqual([shorter.mode, shorter.reason, shorter.expires], ["shared", "why", Date.parse(at(59))]);
  assert.equal(reduce(state, [amend(600)]).reservations.get("1").expires, Date.parse(at(1)) + 600_000);
});

test("waits come from events, and from the list where it is newer", () => {
  const queued = { seq: 70, at: at(2), event: "queued", sessionId: "bo", filePaths: ["a"], mode: "exclusive", reason: null };
  let state = reduce(initial(), [queued, { ...queued, seq: 75, sessionId: "cy" }]);
  const listed = { waiter: 70, sessionId: "bo", sessionName: "Bo", keys: ["a"], since: at(2), givesUpAt: at(30), blockedBy: [{ sessionId: "ana", key: "a", kind: "holder" }] };
  state = reduce(state, [{ type: "waits", list: { waits: [listed] }, asOf: 72 }]);
  assert.deepEqual([...state.waits.keys()].sort(), [70, 75], "75 was queued after the list was made");
  assert.equal(state.waits.get(70).blockedBy[0].sessionId, "ana");
  assert.equal(state.sessions.get("bo").name, "Bo");
  state = reduce(state, [{ seq: 80, at: at(3), event: "seated", sessionId: "bo", waiter: 70 }, { seq: 81, at: at(3), event: "left", sessionId: "cy", waiter: 75, why: "timedOut" }]);
  assert.equal(state.waits.size, 0);
});

test("an unlock request is asked, answered and handed over", () => {
  let state = reduce(initial(), [reserved("1", "a", "ana")]);
  state = reduce(state, [{ seq: ++seq, at: at(2), event: "unlockRequested", requestId: "q", reservationId: "1", filePath: "a", requestedBy: "bo", reason: "a fix" }]);
  assert.deepEqual([state.requests.get("q").holder, state.requests.get("q").status], ["ana", "pending"]);
  state = reduce(state, [
    { seq: ++seq, at: at(3), event: "unlockAnswered", requestId: "q", status: "approved", respondedBy: "ana", handedOver: true },
    released("1", "a", "ana"),
    reserved("2", "a", "bo", { at: at(3) }),
  ]);
  const request = state.requests.get("q");
  assert.deepEqual([request.status, request.answeredBy, request.handedOver, request.holder], ["approved", "ana", true, "ana"]);
  assert.deepEqual(state.order.map((one) => one.sessionId), ["bo"]);
});

test("sessions open, end, open again, and are forgotten an hour after their end", () => {
  let state = reduce(initial(), [{ seq: ++seq, at: at(0), event: "opened", sessionId: "ana", name: "Ana", feature: "F" }]);
  state = reduce(state, [{ seq: ++seq, at: at(5), event: "ended", sessionId: "ana", state: "lost" }]);
  assert.deepEqual([state.sessions.get("ana").state, state.sessions.get("ana").ended], ["lost", Date.parse(at(5))]);
  assert.equal(reduce(state, [{ type: "forget", now: Date.parse(at(5)) + 3_600_001 }]).sessions.size, 0);
  state = reduce(state, [{ seq: ++seq, at: at(9), event: "reopened", sessionId: "ana", name: "Ana", feature: null }]);
  assert.deepEqual([state.sessions.get("ana").state, state.sessions.get("ana").feature], ["active", null]);
});

test("a reset forgets everything, and unknown events nothing", () => {
  const state = reduce(initial(), [reserved("1", "a", "ana"), { seq: ++seq, at: at(1), event: "painted", colour: "blue" }]);
  assert.equal(state.seq, seq);
  assert.deepEqual(reduce(state, [{ type: "reset" }]), initial());
});
