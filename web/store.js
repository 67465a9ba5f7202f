// What the page shows right now: the state of the server, and what the person chose. One place, one way to change it.

import { initial, reduce } from "./state.js";

export const store = {
  data: initial(),
  // "loading", "live", "reconnecting" or "out" (no one is signed in).
  connection: "loading",
  // When the connection was lost, and when everything was reloaded.
  lostAt: 0,
  reloadedAt: 0,
  // Who is signed in: the answer of GET /api/login.
  login: null,
  // Why the person has to sign in: a refusal of the server, or null.
  signInProblem: null,
  // The choice between two logins, when a link would replace one: {signedInAs, signsInAs, stay, change}, or null.
  otherLogin: null,
  repo: null,
  // The session that the person acts for, or null.
  me: null,
  // The server's time minus the browser's, in milliseconds.
  offset: 0,
  // The server's time of the last tick, in milliseconds.
  now: Date.now(),
  // The address: the view, and its parameters.
  route: { view: "now", params: new URLSearchParams() },
  // Paths of closed directories.
  closed: new Set(),
  // The row that has the focus of the keyboard.
  focus: null,
  // The dialog that is open: {kind, …}.
  dialog: null,
  // What the server said to the last action: {at, sentence}.
  problem: null,
  refusals: { list: [], dropped: 0 },
};

const listeners = new Set();
let isScheduled = false;

/** Calls a function after every change. Changes within one frame are one. */
export function subscribe(listener) {
  listeners.add(listener);
}

function notify() {
  if (isScheduled) return;
  isScheduled = true;
  // A tab in the background gets no frames, and still shows its count in the title.
  const run = () => {
    if (!isScheduled) return;
    isScheduled = false;
    listeners.forEach((listener) => listener());
  };
  if (document.hidden) setTimeout(run, 200);
  else requestAnimationFrame(run);
}

/** Changes what the person chose, or what is known about the connection. */
export function set(change) {
  Object.assign(store, change);
  notify();
}

let pending = [];
let timer = 0;

/** Applies actions to the state. Events that arrive together are applied together. */
export function dispatch(...actions) {
  pending.push(...actions);
  if (timer) return;
  timer = setTimeout(flush, BATCH_MS);
}

/** Applies what is pending now. */
export function flush() {
  clearTimeout(timer);
  timer = 0;
  const actions = pending;
  pending = [];
  if (!actions.length) return;
  const before = store.data;
  store.data = reduce(store.data, actions);
  watchers.forEach((watcher) => watcher(before, store.data, actions));
  notify();
}

/** At most twenty renders a second, however many events arrive. */
const BATCH_MS = 50;

const watchers = new Set();

/** Calls a function with the states before and after, and the actions, whenever actions were applied. Returns how to stop. */
export function watch(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** The server's time now, in milliseconds. */
export const serverNow = () => Date.now() + store.offset;

export const isAdmin = () => store.login?.scope === "admin" && store.login.mayChange;

/** Whether the person may act for the session `me`. */
export const mayAct = () => Boolean(store.me) && Boolean(store.login?.mayChange) && store.connection === "live";

export const mayOverride = () => isAdmin() && store.connection === "live";
