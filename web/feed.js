// Keeps the state up to date: lists when the page opens, then events, resumed where they broke off.

import { Refusal, address, get, sessionOf, whoAmI } from "./api.js";
import { parseTime } from "./time.js";
import { ENDED_KEPT } from "./state.js";
import { dispatch, flush, serverNow, set, store, watch } from "./store.js";
import { followEvents, startWorker } from "./stream.js";

/** Every kind of event that the state knows. */
const EVENTS = ["opened", "reopened", "ended", "reserved", "amended", "released", "queued", "seated", "left", "unlockRequested", "unlockAnswered", "counted", "committed", "bound", "restored", "live"];

const PAGE = 1000;
/** Pauses between attempts to connect, in milliseconds. */
const RETRY_MS = [500, 1000, 2000, 4000];
/** How long after a change to ask who waits for whom, in milliseconds: changes often come together. */
const WAITS_MS = 300;

let stopStream = () => {};
let attempt = 0;
let generation = 0;

/** Loads everything and follows the events. Called again, it starts over. */
export async function connect() {
  generation += 1;
  const own = generation;
  stopStream();
  startWorker();
  try {
    await load(own);
    if (own === generation) follow(own);
  } catch (error) {
    if (own === generation) lost(error, connect);
  }
}

export function disconnect() {
  generation += 1;
  stopStream();
}

async function load(own) {
  const isFirst = store.data.seq === 0 && store.connection !== "reconnecting";
  const [first, sessions, requests, waits] = await Promise.all([
    get("api/reservations", { limit: PAGE }),
    get("api/sessions", { limit: PAGE, state: "active" }),
    get("api/unlock-requests", { limit: PAGE }),
    readWaits(),
  ]);
  if (own !== generation) return;
  setClock(first.serverTime);
  dispatch({ type: "reset" }, { type: "sessions", list: sessions });
  dispatch({ type: "reservations", list: first, isFirst: true }, { type: "requests", list: requests }, { type: "waits", list: waits, asOf: first.seq });
  // The rest of a long list follows; the first page is shown meanwhile.
  flush();
  if (isFirst) set({ connection: "live" });
  // Only now the time of the server is known.
  const ended = { endedSince: new Date(serverNow() - ENDED_KEPT).toISOString() };
  await Promise.all([
    rest("api/reservations", first.nextCursor, own, (list) => dispatch({ type: "reservations", list, isFirst: false })),
    rest("api/sessions", sessions.nextCursor, own, (list) => dispatch({ type: "sessions", list }), { state: "active" }),
    get("api/sessions", { limit: PAGE, ...ended }).then((list) => own === generation && dispatch({ type: "sessions", list })),
  ]);
  flush();
}

async function rest(path, cursor, own, use, query = {}) {
  while (cursor && own === generation) {
    const list = await get(path, { limit: PAGE, cursor, ...query });
    if (own !== generation) return;
    use(list);
    cursor = list.nextCursor;
  }
}

/** A server that does not list waits yet has none to show. */
async function readWaits() {
  try {
    return await get("api/waits");
  } catch (refusal) {
    if (refusal.status === 404) return { waits: [] };
    throw refusal;
  }
}

function follow(own) {
  stopStream();
  const isOld = () => own !== generation;
  stopStream = followEvents(address("api/events", { live: 1 }), EVENTS, store.data.seq, {
    open() {
      if (isOld()) return;
      attempt = 0;
      if (store.connection === "reconnecting") refreshTimes(own);
      set({ connection: "live" });
    },
    lost() {
      if (!isOld()) lost(null, () => resume(own));
    },
    reset() {
      if (isOld()) return;
      set({ reloadedAt: serverNow() });
      connect();
    },
    event(name, text) {
      if (isOld()) return;
      const data = JSON.parse(text);
      if (name === "live") setClock(data.serverTime);
      dispatch(name === "live" ? { type: "live", data } : data);
    },
  });
}

/** Connects again where the stream broke off, unless the person has signed out meanwhile. */
async function resume(own) {
  if (own !== generation) return;
  flush();
  try {
    const login = await whoAmI();
    if (own !== generation) return;
    if (!login) return signedOut();
    set({ login, me: sessionOf(login) });
    follow(own);
  } catch (error) {
    lost(error, () => resume(own));
  }
}

/**
 * Asks for all deadlines, signs of life and waits again. The stream tells of those that change while it is open: renewals
 * that it missed are no events, and a server that was started again has given every reservation its whole time.
 */
async function refreshTimes(own) {
  const use = (list) => dispatch({ type: "live", data: list });
  try {
    const [first, sessions] = await Promise.all([get("api/reservations", { limit: PAGE }), get("api/sessions", { limit: PAGE, state: "active" })]);
    if (own !== generation) return;
    setClock(first.serverTime);
    use(first);
    use(sessions);
    refreshWaits();
    await rest("api/reservations", first.nextCursor, own, use);
    await rest("api/sessions", sessions.nextCursor, own, use, { state: "active" });
  } catch {
    // The connection is lost again, and this is done when it is back.
  }
}

// A page that the browser had put aside has left its stream.
addEventListener("pageshow", ({ persisted }) => persisted && store.login && connect());

/** Asks again who is signed in: another tab of this browser may have changed it. */
export async function refreshLogin() {
  if (!store.login) return;
  const login = await whoAmI().catch(() => undefined);
  if (login === undefined || !store.login) return;
  if (!login) return signedOut();
  const isOther = JSON.stringify(login.repositories) !== JSON.stringify(store.login.repositories);
  set({ login, me: sessionOf(login) });
  if (isOther) location.reload();
}

function signedOut() {
  disconnect();
  const isExpired = store.login && parseTime(store.login.expiresAt) <= serverNow();
  set({ connection: "out", login: null, signInProblem: isExpired ? new Refusal(401, { code: "UNAUTHENTICATED", error: "the token has expired" }) : null });
}

/** Shows that there is no connection, and tries again after a moment. */
function lost(error, again) {
  if (error instanceof Refusal && error.status === 401) return signedOut();
  if (error && !(error instanceof Refusal)) console.error(error);
  if (store.connection !== "reconnecting") set({ connection: "reconnecting", lostAt: serverNow() });
  const own = generation;
  const pause = RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)];
  attempt += 1;
  setTimeout(() => own === generation && again(), pause);
}

function setClock(serverTime) {
  if (serverTime) set({ offset: parseTime(serverTime) - Date.now(), now: parseTime(serverTime) });
}

// ---- what no event tells ----

let waitsTimer = 0;

/** Who waits for whom is asked for again after changes, while a session waits. */
watch((before, after) => {
  if (after.queueChanges === before.queueChanges || waitsTimer) return;
  if (!after.waits.size && !before.waits.size) return;
  waitsTimer = setTimeout(refreshWaits, WAITS_MS);
});

async function refreshWaits() {
  const [own, asOf] = [generation, store.data.seq];
  try {
    const list = await readWaits();
    if (own === generation) dispatch({ type: "waits", list, asOf });
  } catch {
    // The stream notices a lost connection.
  } finally {
    waitsTimer = 0;
  }
}

const DUE_MS = 2000;
const DUE_SESSIONS = 5;
let dueAsked = 0;

/** Called every second: what is due has been renewed, or is about to be released. */
export async function refreshDue() {
  const now = serverNow();
  if (store.connection !== "live" || now - dueAsked < DUE_MS) return;
  const sessions = new Set();
  for (const one of store.data.order) if (one.expires <= now && sessions.size < DUE_SESSIONS) sessions.add(one.sessionId);
  if (!sessions.size) return;
  dueAsked = now;
  const own = generation;
  for (const session of sessions) {
    const list = await get("api/reservations", { session, limit: PAGE }).catch(() => null);
    if (list && own === generation) dispatch({ type: "refreshed", list });
  }
}

/** The refused attempts of the last hour. */
export async function readRefusals() {
  const answer = await get("api/refusals").catch(() => null);
  if (answer) set({ refusals: { list: answer.refusals, dropped: answer.dropped ?? 0 } });
}
