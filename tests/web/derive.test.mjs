// What the views show, made from the state. Run with: node --test tests/web

import assert from "node:assert/strict";
import test from "node:test";

import { groupByDirectory, held, heldUp, historyFilter, hue, isSoon, listNames, monogram, nameOf, pauses, roots, sessionRows, tableRows, treeRows, withProblem } from "../../web/derive.js";
import { layout } from "../../web/graph.js";
import { cutKey, cutName, isNear, kindOf, sortText, splitPath, splitShown, splitWhole } from "../../web/keys.js";
import { initial, reduce } from "../../web/state.js";
import { clock, duration, exactly, left, roughly } from "../../web/time.js";
import { bars, mergeEvents, rowsOf, ticks } from "../../web/timeline.js";

const now = Date.UTC(2026, 0, 31, 9, 30, 0);
const time = (seconds) => new Date(now + seconds * 1000).toISOString();

let seq = 0;
const reserved = (key, session, more = {}) => ({ seq: ++seq, at: time(0), event: "reserved", reservationId: `r${seq}`, filePath: key, sessionId: session, mode: "exclusive", reason: null, reservedAt: time(0), expiresAt: time(60), ttlSeconds: 60, fence: seq, ...more });
const holding = (...pairs) => reduce(initial(), pairs.map(([key, session, more]) => reserved(key, session, more)));

test("keys are split into what is quiet and what is not", () => {
  assert.deepEqual(["src/a.rs", "db:slot", "deploy://api", "file:src/[id].ts", "a:b/c"].map(kindOf), ["path", "name", "uri", "path", "name"]);
  assert.deepEqual(splitPath("src/parser/**"), { dirs: ["src"], leaf: "parser/**" });
  assert.deepEqual(splitPath("src/**/*.rs"), { dirs: ["src"], leaf: "**/*.rs" });
  assert.deepEqual(splitPath("**"), { dirs: [], leaf: "**" });
  assert.deepEqual(splitPath("a"), { dirs: [], leaf: "a" });
  assert.deepEqual(splitShown("file:app/[id]/page.tsx"), ["app/", "[id]/page.tsx"]);
  assert.deepEqual(splitShown("contract:openapi/v1.yaml"), ["contract:", "openapi/v1.yaml"]);
  assert.deepEqual(splitShown("deploy://api-prod"), ["deploy://", "api-prod"]);
  assert.ok(sortText("src/z") < sortText("src-a/a"), "a directory stays together");
});

test("the tree folds directories with one entry, and counts closed ones", () => {
  const state = holding(["src/cli/args.rs", "bo"], ["src/cli/mod.rs", "bo", { mode: "shared" }], ["web/src/theme/**", "ana"], ["README.md", "ana"], ["db:slot", "cy"], ["src/cli/deep/er/a.rs", "bo"]);
  const { list, counts } = held(state, "", "all");
  assert.deepEqual(counts, { all: 6, path: 5, name: 1, uri: 0 });
  const shape = (rows) => rows.map((row) => `${" ".repeat(row.depth ?? 0)}${row.type === "dir" ? row.name : row.type === "group" ? `(${row.count})` : (row.text ?? row.one.key)}`);
  assert.deepEqual(shape(treeRows(list, new Set())), ["README.md", "src/cli/", " args.rs", " deep/er/a.rs", " mod.rs", "web/src/", " theme/**", "(1)", "db:slot"]);
  const closed = treeRows(list, new Set(["src/cli/"]));
  assert.deepEqual(shape(closed).slice(0, 3), ["README.md", "src/cli/", "web/src/"]);
  assert.deepEqual([closed[1].count, closed[1].shared, closed[1].holders], [3, 1, ["bo"]]);
});

test("the tree has every reservation once, whatever the paths", () => {
  const parts = ["a", "b", "a.rs", "**", "*.rs", "ä", "-", "a b"];
  const paths = [];
  for (const one of parts) for (const two of parts) for (const three of ["", ...parts]) paths.push([one, two, three].filter(Boolean).join("/"));
  const state = holding(...paths.map((path) => [path, "ana"]));
  const rows = treeRows(held(state, "", "all").list, new Set());
  assert.deepEqual(rows.filter((row) => row.type === "held").map((row) => row.one.key).sort(), [...paths].sort());
  for (const row of rows.filter((one) => one.type === "dir")) assert.ok(row.count > 0 && row.path.endsWith(row.name), row.path);
  assert.equal(new Set(rows.map((row) => row.id)).size, rows.length, "every row has an id of its own");
});

test("a filter finds paths, sessions and features", () => {
  let state = holding(["src/a.rs", "ana", { reason: "the Parser" }], ["docs/b.md", "bo"], ["feature:F-1:pause", "bo"]);
  state = reduce(state, [{ seq: ++seq, at: time(0), event: "opened", sessionId: "ana", name: "Ana María", feature: "F-1" }]);
  const found = (query) => held(state, query, "all").list.map((one) => one.key);
  assert.deepEqual(found("SRC"), ["src/a.rs"]);
  assert.deepEqual(found("parser"), ["src/a.rs"]);
  assert.deepEqual(found("session:bo md"), ["docs/b.md"]);
  assert.deepEqual(found("session:maría"), ["src/a.rs"]);
  assert.deepEqual(found("feature:f-1"), ["src/a.rs"]);
  assert.deepEqual(found("feature:F-1:pause"), ["feature:F-1:pause"]);
  assert.deepEqual(found("nothing"), []);
});

test("the table is sorted by the time that is left", () => {
  const state = holding(["a", "ana", { expiresAt: time(30) }], ["b", "ana", { expiresAt: time(10) }]);
  assert.deepEqual(tableRows(held(state, "", "all").list, "time").map((row) => row.one.key), ["b", "a"]);
  assert.deepEqual(tableRows(held(state, "", "all").list, "path").map((row) => row.one.key), ["a", "b"]);
});

test("soon is a share of the TTL and a few seconds", () => {
  const one = (ttl, left) => ({ ttl: ttl * 1000, expires: now + left * 1000 });
  assert.deepEqual([[60, 9], [60, 13], [300, 14], [300, 16], [5, 3], [60, -1]].map(([ttl, rest]) => isSoon(one(ttl, rest), now)), [true, false, true, false, false, true]);
});

const wait = (waiter, session, blocker, key = "k", kind = "holder") => ({ waiter, sessionId: session, keys: [key], since: time(-waiter), givesUpAt: time(60), blockedBy: [{ sessionId: blocker, key, kind }] });

test("root blockers hold up others and wait for none", () => {
  const waits = [wait(1, "bo", "ana"), wait(2, "jonas", "ana"), wait(3, "mira", "bo"), wait(4, "cy", "dee"), wait(5, "eli", "cy")];
  const state = reduce(initial(), [{ type: "waits", list: { waits }, asOf: 0 }]);
  const found = roots(state).map((root) => [root.id, root.behind.map((one) => `${one.id}${one.depth}`).join(" "), (now - root.since) / 1000]);
  assert.deepEqual(found.sort(), [["ana", "bo1 jonas1 mira2", 3], ["dee", "cy1 eli2", 5]]);
  assert.deepEqual([heldUp(state).get("ana"), heldUp(state).get("bo"), heldUp(state).get("mira")], [3, 1, undefined]);
});

test("the picture has those who could move on the right", () => {
  const waits = [wait(1, "bo", "ana"), wait(2, "jonas", "ana"), wait(3, "mira", "bo")].map((one) => ({ ...one, since: Date.parse(one.since) }));
  const { nodes, edges, columns, rows } = layout(waits);
  const at = Object.fromEntries(nodes.map((node) => [node.id, [node.column, node.row]]));
  assert.equal(columns, 3);
  assert.deepEqual([at.ana[0], at.bo[0], at.jonas[0], at.mira[0]], [2, 1, 0, 0]);
  assert.deepEqual([at.ana[1], rows], [0, 2]);
  assert.equal(edges.length, 3);
  assert.equal(new Set(nodes.map((node) => `${node.column} ${node.row}`)).size, nodes.length, "no two in one place");
  const circle = [wait(1, "a", "b"), wait(2, "b", "a")];
  assert.equal(layout(circle).nodes.length, 2, "a list that shows a circle for a moment is drawn too");
});

test("sessions: silent ones that hold something first, then mine", () => {
  const opened = (id, seen) => ({ sessionId: id, state: "active", name: id, feature: null, startedAt: time(-9999), lastSeenAt: time(-seen) });
  let state = reduce(initial(), [{ type: "sessions", list: { sessions: [opened("ana", 1), opened("mira", 1), opened("dee", 600), opened("idle", 600)] } }]);
  state = reduce(state, [reserved("a", "ana"), reserved("b", "dee")]);
  // Reserving was a sign of life; dee was last seen long before.
  state = reduce(state, [{ type: "live", data: { sessions: [{ sessionId: "dee", lastSeenAt: time(-600) }] } }]);
  assert.deepEqual(sessionRows(state, "mira", now).map((row) => `${row.session.id} ${row.state}`), ["dee silent", "mira alive", "ana alive", "idle silent"]);
});

test("bars begin and end with events, and lanes keep them apart", () => {
  const events = [
    { event: "released", at: time(-10), reservationId: "1", filePath: "a", sessionId: "ana", why: "expired" },
    { event: "reserved", at: time(-60), reservationId: "1", filePath: "a", sessionId: "ana", mode: "shared", reason: "x", fence: 7 },
    { event: "reserved", at: time(-30), reservationId: "2", filePath: "a", sessionId: "bo", mode: "shared", reason: null, fence: 8 },
    { event: "released", at: time(-50), reservationId: "0", filePath: "b", sessionId: "bo", why: "overridden", by: "ops", reason: "stuck" },
  ];
  const all = bars(events, [], now - 100_000, now);
  assert.deepEqual(all.map((bar) => [bar.id, bar.end]), [["0", "overridden"], ["1", "expired"], ["2", null]]);
  const rows = rowsOf(all, "path");
  assert.deepEqual(rows.map((row) => [row.name, row.lanes, row.isHeld]), [["a", 2, true], ["b", 1, false]]);
  assert.equal(bars(events, [], now - 5000, now).length, 1, "only what was held then");
  assert.ok(ticks(now - 1_800_000, now, 7).length >= 5);
});

test("text for people", () => {
  assert.deepEqual([duration(0), duration(61_000), duration(3_725_000), duration(-5)], ["0:00", "1:01", "1:02:05", "0:00"]);
  assert.deepEqual([left(now + 1, now), left(now, now), left(now - 9, now)], ["0:01", "due", "due"]);
  assert.deepEqual([roughly(4000), roughly(130_000), roughly(90_000_000)], ["4 s", "2 min", "1 d"]);
  assert.equal(exactly(442_000), "7 min 22 s");
  assert.match(clock(now, now, true), /^\d\d:\d\d:\d\d$/);
  assert.deepEqual(["ana", "Ana María", "日本", "", "😀x", "<b>"].map(monogram), ["An", "AM".replace("M", "m"), "日本", "?", "X", "B"]);
  assert.ok(new Set(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"].map(hue)).size > 3);
  assert.deepEqual([listNames([]), listNames(["A"]), listNames(["A", "B"]), listNames(["A", "B", "C"]), listNames(["A", "B", "C", "D"], 3)], ["", "A", "A and B", "A, B and 1 other", "A, B, C and 1 other"]);
});

test("a directory is cut before the name of its file", () => {
  assert.deepEqual([splitWhole("cli/args.rs"), splitWhole("args.rs"), splitWhole("parser/**"), splitWhole("src/")], [["cli/", "args.rs"], ["", "args.rs"], ["", "parser/**"], ["", "src/"]]);
  assert.deepEqual([cutKey("src/parser/lexer.rs", 30), cutKey("src/parser/lexer.rs", 14), cutKey("a/very-long-name.rs", 8)], ["src/parser/lexer.rs", "src/p…lexer.rs", "very-lo…"]);
  assert.deepEqual([cutName("Bartholomew", 6), cutName("Bo", 6)], ["Barth…", "Bo"]);
});

test("what the server refused is a row under the one that caused it", () => {
  const rows = treeRows(holding(["a", "ana"], ["b", "bo"]).order, new Set());
  const [first] = rows;
  assert.deepEqual(withProblem(rows, { at: first.id, sentence: "no" }).map((row) => row.type), ["held", "problem", "held"]);
  assert.equal(withProblem(rows, { at: "gone", sentence: "no" }), rows);
  assert.equal(withProblem(rows, null), rows);
});

test("the counts of hot spots add up", () => {
  const between = (key) => ["ana", key].map((sessionId) => ({ sessionId, sessionName: null }));
  const path = (key, conflicts, waits = 0) => ({ key, conflicts, waits, averageWaitSeconds: waits ? 4 : 0, byStep: [1, conflicts - 1], between: between(key) });
  const groups = groupByDirectory([path("src/a.rs", 5, 2), path("src/b.rs", 3), path("top", 4), path("db:slot", 1), path("src/parser/**", 1)]);
  assert.deepEqual(groups.map((group) => [group.name, group.conflicts, group.waits]), [["src/", 9, 2], ["top", 4, 0], ["db:slot", 1, 0]]);
  assert.deepEqual(groups[0].byStep, [3, 6]);
  assert.deepEqual(groups[0].between.map((one) => one.sessionId), ["ana", "src/a.rs", "src/b.rs", "src/parser/**"]);
  for (const group of groups.filter((one) => one.files.length)) assert.equal(group.files.reduce((sum, one) => sum + one.conflicts, 0), group.conflicts);
});

test("a directory counts the paths that are not listed, too", () => {
  const path = { key: "src/a.rs", conflicts: 5, waits: 0, averageWaitSeconds: 0, byStep: [2, 3], between: [] };
  const directories = [{ directory: "docs", conflicts: 9 }, { directory: "src", conflicts: 7 }, { directory: ".", conflicts: 4 }];
  const groups = groupByDirectory([path], directories);
  assert.deepEqual(groups.map((group) => [group.name, group.conflicts, group.files.length, group.byStep]), [["docs/", 9, 0, [0, 0]], ["src/", 7, 1, [2, 3]]]);
});

test("the field of the history names a path, or a session by its name", () => {
  const opened = { seq: ++seq, at: time(0), event: "opened", sessionId: "s-1", name: "Bo", feature: null };
  const state = reduce(initial(), [opened]);
  assert.deepEqual(historyFilter(state, " src/** "), { path: "src/**", session: "" });
  assert.deepEqual(historyFilter(state, "session:bo"), { path: "", session: "s-1" });
  assert.deepEqual(historyFilter(state, "session:gone"), { path: "", session: "gone" });
});

test("a session that is not listed any more keeps the name that its request has", () => {
  const request = { id: "q", reservationId: "r", filePath: "a", reservedBy: "ana", reservedByName: "Ana", requestedBy: "bo", requestedByName: "Bo", reason: "x", requestedAt: time(0), status: "approved", respondedAt: time(1), handedOver: true };
  const state = reduce(initial(), [{ type: "requests", list: { requests: [request] } }]);
  assert.deepEqual([nameOf(state, "bo"), nameOf(state, "ana"), nameOf(state, "cy")], ["Bo", "Ana", "cy"]);
  assert.equal(state.requests.get("q").handedOver, true, "as a page says that saw it happen");
  assert.equal(state.sessions.size, 0, "it is no active session");
  assert.equal(nameOf(reduce(state, [{ type: "forget", now }]), "bo"), "Bo");
});

test("a pause has the key that ends it", () => {
  assert.deepEqual(pauses(holding(["feature:F-1:pause", "ana"])).map((one) => [one.feature, one.key]), [["F-1", "feature:F-1:pause"]]);
});

test("an arrow goes around the sessions in its way, and a session has one label", () => {
  // Leaf waits for kim and for the root behind kim, and kim is on its row.
  const waits = [wait(3, "kim", "root"), wait(2, "leaf", "kim")].map((one) => ({ ...one, since: Date.parse(one.since) }));
  waits[1].blockedBy.push({ sessionId: "root", key: "k", kind: "holder" });
  const { edges } = layout(waits);
  const found = Object.fromEntries(edges.map((edge) => [`${edge.from} ${edge.to}`, [edge.passes, edge.hasLabel]]));
  assert.deepEqual(found, { "leaf kim": [false, true], "leaf root": [true, false], "kim root": [false, true] });
});

test("events of several pages and of the stream are one list with a bound", () => {
  const events = (...seqs) => seqs.map((one) => ({ seq: one }));
  const seqs = (list) => list.map((one) => one.seq);
  const known = events(5, 4, 3);
  assert.deepEqual(seqs(mergeEvents(known, events(6, 7), 10)), [7, 6, 5, 4, 3], "what happens now");
  assert.deepEqual(seqs(mergeEvents(known, events(2, 1), 10)), [5, 4, 3, 2, 1], "an older page");
  assert.deepEqual(seqs(mergeEvents(events(9, 5), events(7, 5, 3), 10)), [9, 7, 5, 3], "a page with what is known");
  assert.deepEqual(seqs(mergeEvents(known, events(6, 7), 3)), [7, 6, 5], "the oldest are left out");
  assert.equal(mergeEvents(known, events(4, 5), 10), known, "nothing new");
  assert.deepEqual(mergeEvents([], [], 10), []);
});

test("keys are near if one is the directory of the other", () => {
  for (const [a, b] of [["src/a.rs", "src/a.rs"], ["src/**", "src/lib/a.rs"], ["src/lib/", "src/**"], ["file:src/[a].rs", "src/**"], ["db:slot", "db:slot"]]) {
    assert.ok(isNear(a, b) && isNear(b, a), `${a} ${b}`);
  }
  for (const [a, b] of [["src/a.rs", "src/b.rs"], ["src/**", "src-old/a.rs"], ["src/a", "src/a.rs"], ["db:slot", "db:slots"]]) {
    assert.ok(!isNear(a, b) && !isNear(b, a), `${a} ${b}`);
  }
});
