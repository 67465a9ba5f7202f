// What a person can do about a reservation, and how a dialog is opened.

import { asksFor, waitsOf } from "./derive.js";
import { whyNot } from "./parts.js";
import { set, store } from "./store.js";

/** Opens a dialog: {kind, …}; see dialogs.js. */
export const openDialog = (dialog) => set({ dialog, problem: null });

/** The session that a wait is behind, for sentences. */
export function blockerOf(id) {
  const wait = waitsOf(store.data, id)[0];
  return wait?.blockedBy[0] ?? null;
}

/** How a row's padlock can be opened: [name, what it does] for each way. */
export function waysToOpen(one) {
  const ways = [];
  if (whyNot()) return ways;
  if (one.sessionId === store.me) ways.push(["Release", "release"]);
  else if (store.me && !asksFor(store.data, one).some((request) => request.by === store.me)) ways.push(["Ask…", "ask"]);
  if (store.login.scope === "admin" && one.sessionId !== store.me) ways.push(["Override…", "override"]);
  return ways;
}
