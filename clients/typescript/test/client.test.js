// The client against a real server. Started by tests/it/clients.rs, with the server's address and tokens in the environment:
// DIBS_URL, DIBS_TOKEN (session ana), BO_TOKEN (session bo), PAUSED_TOKEN (session carl of feature F), ADMIN_TOKEN.

import assert from "node:assert/strict";
import test from "node:test";

import {
  ConflictError,
  DeadlockError,
  DibsClient,
  DibsError,
  PausedError,
  SessionEndedError,
  UnreachableError,
} from "../index.js";
import { backoff } from "../lib/time.js";

const url = process.env.DIBS_URL;
const ana = DibsClient.fromEnv();
const bo = new DibsClient({ url, token: process.env.BO_TOKEN });

/** What is held, as `session key`. */
async function held() {
  const { reservations } = await ana.reservations();
  return reservations.map((one) => `${one.sessionId} ${one.filePath}`);
}

/** Looks until there is something to see. */
async function until(what, look) {
  for (let n = 0; n < 1200; n += 1) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited in vain until ${what}`);
}

const waiters = async () => (await ana.call("GET", "/api/stats")).waiters;

/** Removes a reservation as an admin does. */
async function override(id) {
  const admin = new DibsClient({ url, token: process.env.ADMIN_TOKEN, session: "ops" });
  await admin.call("DELETE", `/api/reservations/${id}`, { reason: "release night" });
}

test.afterEach(async () => {
  await ana.releaseAll();
  await bo.releaseAll();
});

test("the session is read from the token", () => {
  assert.equal(ana.session, "ana");
  assert.throws(() => new DibsClient({ url, token: "nonsense" }), TypeError);
  assert.throws(() => new DibsClient({ url, token: process.env.ADMIN_TOKEN }), TypeError);
  assert.equal(new DibsClient({ url, token: () => "x", session: "ana" }).session, "ana");
});

test("withReservation holds the keys while the work runs, and releases them however it ends", async () => {
  const result = await ana.withReservation(["src/a.ts", "docs/**"], async (reservation, signal) => {
    assert.deepEqual(await held(), ["ana src/a.ts", "ana docs/**"]);
    assert.ok(reservation.fence > 0 && !signal.aborted);
    return 42;
  });
  assert.equal(result, 42);
  assert.deepEqual(await held(), []);
  const failing = ana.withReservation("src/a.ts", () => Promise.reject(new RangeError("work failed")));
  await assert.rejects(failing, RangeError);
  assert.deepEqual(await held(), []);
});

test("a conflict is typed: who, what, until when", async () => {
  await ana.reserve("src/**", { reason: "parser" });
  const error = await bo.reserve(["README", "src/a.ts"]).catch((error) => error);
  assert.ok(error instanceof ConflictError && error instanceof DibsError);
  assert.deepEqual([error.code, error.status, error.reservedBy], ["RESOURCE_LOCKED", 409, "ana"]);
  const [conflict] = error.conflicts;
  assert.deepEqual([conflict.filePath, conflict.key, conflict.reason], ["src/a.ts", "src/**", "parser"]);
  assert.ok(error.retryAfterMs >= 1000);
  assert.deepEqual((await bo.check(["README", "src/a.ts"])).clear, ["README"]);
});

test("what is held is renewed in the background", async () => {
  const reservation = await ana.reserve("a", { ttlSeconds: 2 });
  const first = Date.parse(reservation.reservations[0].expiresAt);
  await until("it is renewed past its time", async () => {
    const { reservations } = await ana.reservations({ session: "ana" });
    return reservations.some((one) => Date.parse(one.expiresAt) > first + 2500);
  });
  await reservation.release();
  await reservation.release();
  assert.deepEqual(await held(), []);
});

test("work is told when its reservation is lost", async () => {
  const reason = await ana.withReservation(
    "a",
    async (reservation, signal) => {
      await override(reservation.reservations[0].reservationId);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return signal.reason;
    },
    { ttlSeconds: 1 },
  );
  assert.ok(reason instanceof SessionEndedError, String(reason));
});

test("a holder that cannot be reached learns that its reservation ran out", async () => {
  let isCut = false;
  const hang = (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const network = (where, init) => (isCut ? hang(init.signal) : fetch(where, init));
  const far = new DibsClient({ url, token: process.env.DIBS_TOKEN, fetch: network });
  const reservation = await far.reserve("a", { ttlSeconds: 1 });
  isCut = true;
  await until("another session has it", () => bo.reserve("a").catch(() => undefined));
  assert.ok(reservation.lost.aborted);
  const { reason } = reservation.lost;
  assert.ok(reason instanceof SessionEndedError && reason.code === "LOCK_TIMEOUT", String(reason));
  // What is lost is not released: another session has it.
  await reservation.release();
  assert.deepEqual(await held(), ["bo a"]);
});

test("a renewal that a proxy answered is tried again, and a refusal ends the reservation with its code", async () => {
  let failures = 0;
  const answer = (where, init) => {
    if (!String(where).includes("/renew") || failures === 2) return fetch(where, init);
    failures += 1;
    return Promise.resolve(new Response("<html>", { status: 502 }));
  };
  const far = new DibsClient({ url, token: process.env.DIBS_TOKEN, fetch: answer });
  const reservation = await far.reserve("a", { ttlSeconds: 5 });
  const first = reservation.reservations[0].expiresAt;
  await until("it is renewed", () => reservation.reservations[0].expiresAt > first);
  assert.equal(failures, 2);
  await far.releaseAll();
  await until("it is lost", () => reservation.lost.aborted);
  assert.ok(reservation.lost.reason.code, String(reservation.lost.reason));
});

test("a release that failed can be repeated", async () => {
  let isCut = true;
  const network = (where, init) => {
    const fails = isCut && String(where).includes("/release");
    return fails ? Promise.reject(new TypeError("fetch failed")) : fetch(where, init);
  };
  const reservation = await new DibsClient({ url, token: process.env.DIBS_TOKEN, fetch: network }).reserve("a");
  await assert.rejects(reservation.release(), UnreachableError);
  assert.deepEqual(await held(), ["ana a"]);
  isCut = false;
  await Promise.all([reservation.release(), reservation.release()]);
  assert.deepEqual(await held(), []);
});

test("acquireWithRetry does not give up before its time", async () => {
  const reservation = await ana.reserve("a");
  for (const options of [{ timeoutMs: 900 }, { timeoutMs: 1500, maxRetries: 0 }]) {
    let last = 0;
    const network = (where, init) => {
      last = performance.now();
      return fetch(where, init);
    };
    const client = new DibsClient({ url, token: process.env.BO_TOKEN, fetch: network });
    const begin = performance.now();
    await assert.rejects(client.acquireWithRetry("a", "exclusive", options), ConflictError);
    // The last attempt is at the end; timers are exact to a few milliseconds.
    assert.ok(last >= begin + options.timeoutMs - 20, `${last - begin}`);
  }
  await reservation.release();
});

test("a wait is granted in turn, and leaves the queue when it is aborted", async () => {
  const reservation = await ana.reserve("a");
  const controller = new AbortController();
  const aborted = bo.reserve("a", { waitSeconds: 60, signal: controller.signal });
  await until("it waits", async () => (await waiters()) === 1);
  controller.abort(new RangeError("no longer needed"));
  await assert.rejects(aborted, RangeError);
  await until("it has left the queue", async () => (await waiters()) === 0);
  const waiting = bo.reserve("a", { waitSeconds: 60 });
  await until("it waits", async () => (await waiters()) === 1);
  await reservation.release();
  await waiting;
  assert.deepEqual(await held(), ["bo a"]);
});

test("acquireWithRetry uses the queue while there is time", async () => {
  const reservation = await ana.reserve("deploy://api-prod");
  const waiting = bo.acquireWithRetry("deploy://api-prod", "exclusive", { timeoutMs: 60_000 });
  await until("it waits", async () => (await waiters()) === 1);
  await reservation.release();
  assert.deepEqual((await waiting).paths, ["deploy://api-prod"]);
});

test("acquireWithRetry gives up after its retries, or after its time", async () => {
  await ana.reserve("a");
  await assert.rejects(bo.acquireWithRetry("a", "exclusive", { maxRetries: 2 }), ConflictError);
  await assert.rejects(bo.acquireWithRetry("a", "exclusive", { timeoutMs: 1500 }), ConflictError);
  const once = { maxRetries: 0, timeoutMs: 1500 };
  const late = await bo.acquireWithRetry("a", "exclusive", once).catch((error) => error);
  assert.equal(late.code, "LOCK_ACQUISITION_FAILED");
  await assert.rejects(bo.acquireWithRetry("../x"), (error) => error.code === "INVALID_PATH");
  const controller = new AbortController();
  const aborted = bo.acquireWithRetry("a", "exclusive", { maxRetries: 1000, signal: controller.signal });
  controller.abort(new RangeError("stop"));
  await assert.rejects(aborted, RangeError);
});

test("collaborative holders hold beside each other, and versions count releases", async () => {
  const first = await ana.acquireWithRetry("env:notes", "collaborative");
  const second = await bo.acquireWithRetry("env:notes", "collaborative");
  assert.equal(first.version, second.version);
  await first.release();
  await second.release();
  assert.ok((await ana.acquireWithRetry("env:notes")).version > first.version);
});

test("retries wait where no queue can: the server is away, and comes back", async () => {
  let refused = 0;
  const away = (...args) => {
    refused += 1;
    return refused <= 2 ? Promise.reject(new TypeError("fetch failed")) : fetch(...args);
  };
  const client = new DibsClient({ url, token: process.env.BO_TOKEN, fetch: away });
  await client.acquireWithRetry("a", "exclusive", { maxRetries: 3 });
  assert.equal(refused, 3);
  const gone = new DibsClient({ url: "http://127.0.0.1:9", token: process.env.BO_TOKEN });
  await assert.rejects(gone.acquireWithRetry("a", "exclusive", { maxRetries: 1 }), UnreachableError);
});

test("pauses double up to a second, a quarter longer or shorter", () => {
  const bounds = [[75, 125], [150, 250], [300, 500], [600, 1000], [750, 1250], [750, 1250]];
  for (const [n, [least, most]] of bounds.entries()) {
    assert.equal(backoff(n + 1, () => 0), least);
    assert.equal(backoff(n + 1, () => 1), most);
  }
});

test("a wait that would never end is refused with the cycle", async () => {
  await ana.reserve("a");
  await bo.reserve("b");
  const waiting = ana.reserve("b", { waitSeconds: 60 });
  await until("it waits", async () => (await waiters()) === 1);
  const error = await bo.reserve("a", { waitSeconds: 60 }).catch((error) => error);
  assert.ok(error instanceof DeadlockError && error.cycle.length === 2, String(error));
  await bo.releaseAll();
  await waiting;
});

test("a paused feature and an ended session are errors of their own", async () => {
  const carl = new DibsClient({ url, token: process.env.PAUSED_TOKEN });
  const pause = await ana.reserve("feature:F:pause", { reason: "freeze" });
  await assert.rejects(carl.reserve("a"), PausedError);
  await pause.release();
  await carl.reserve("a");
  assert.equal((await carl.end("completed")).releasedCount, 1);
  await assert.rejects(carl.reserve("a"), SessionEndedError);
});

test("unlock requests go both ways, and notices arrive", async () => {
  const notices = [];
  const told = new DibsClient({ url, token: process.env.DIBS_TOKEN, onNotices: (some) => notices.push(...some) });
  await told.reserve("a");
  const request = await bo.requestUnlock("a", "hot fix");
  assert.equal((await told.unlockRequests()).incoming[0].id, request.id);
  assert.equal(notices[0].kind, "unlockRequested");
  assert.equal((await told.reject(request.id, { note: "an hour more" })).status, "rejected");
  const again = await bo.requestUnlock("a", "please");
  assert.equal((await bo.withdraw(again.id)).status, "withdrawn");
  const last = await bo.requestUnlock("a", "now?");
  await told.approve(last.id, { handOver: true });
  assert.deepEqual(await held(), ["bo a"]);
});

test("an answer that is not one of a git-dibs server is an error, and no token follows a redirect", async () => {
  const answers = (status, text) => () => Promise.resolve(new Response(text, { status }));
  const client = (fetch) => new DibsClient({ url, token: process.env.BO_TOKEN, fetch });
  await assert.rejects(client(answers(200, "<html>")).heartbeat(), /no answer of a git-dibs server/);
  await assert.rejects(client(answers(502, "{}")).heartbeat(), (error) => error.status === 502);
  let redirect;
  await client((_, init) => { redirect = init.redirect; return answers(200, "{}")(); }).heartbeat();
  assert.equal(redirect, "error");
});
