// Rows that do not jump: what a person points at stays where it is for a moment, and what moves is seen to move.

import { useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { store } from "./store.js";

/** Rows do not move under the pointer or the focus for this long after it moved, and no longer than this in all. */
const HOLD_MS = 1000;
const HOLD_MAX_MS = 3000;
/** How long a row that was released is seen to go. */
const LEAVE_MS = 180;
const MOVE_MS = 160;
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

let lastMove = -Infinity;

/** The pointer or the focus has moved in the list. */
export const moved = () => {
  lastMove = performance.now();
};

/**
 * The rows to draw for the rows of the state. While they are held, values change in place, and a row whose reservation has
 * ended is marked `isGone`. A change of `choice`, which is what the person chose to see, takes effect at once.
 */
export function useSteadyRows(fresh, choice) {
  const kept = useRef({ fresh, rows: fresh, byId: null, choice, closed: store.closed, heldSince: 0 });
  const [, redraw] = useState(0);
  const { current } = kept;
  const now = performance.now();
  if (current.choice !== choice || current.closed !== store.closed) {
    Object.assign(current, { fresh, rows: fresh, byId: null, choice, closed: store.closed, heldSince: 0 });
    return fresh;
  }
  const isHeld = now - lastMove < HOLD_MS && (!current.heldSince || now - current.heldSince < HOLD_MAX_MS);
  if (current.fresh === fresh && (isHeld || current.rows === fresh)) return current.rows;
  // With thousands of rows these maps are most of the work of a change, so each is made once.
  const before = current.byId ?? mapOf(current.fresh);
  const byId = current.fresh === fresh ? before : mapOf(fresh);
  if (current.fresh !== fresh) noteChange(before, fresh, now);
  current.byId = byId;
  if (isHeld) {
    const rows = current.rows.map((row) => byId.get(row.id) ?? (row.type === "held" ? { ...row, isGone: true } : row));
    Object.assign(current, { fresh, rows, heldSince: current.heldSince || now });
    return rows;
  }
  const leaving = current.fresh === fresh ? [] : current.rows.filter((row) => row.type === "held" && !row.isGone && !byId.has(row.id));
  const rows = leaving.length && mayAnimate() ? withLeaving(current.rows, fresh, byId) : fresh;
  Object.assign(current, { fresh, rows, heldSince: 0 });
  if (rows !== fresh) setTimeout(() => redraw((n) => n + 1), LEAVE_MS);
  return rows;
}

function mapOf(rows) {
  const map = new Map();
  for (const row of rows) map.set(row.id, row);
  return map;
}

/** The new rows, with those that go behind the row that they were behind. */
function withLeaving(old, fresh, byId) {
  const behind = new Map();
  let last = null;
  for (const row of old) {
    if (byId.has(row.id)) last = row.id;
    else if (row.type === "held" && !row.isGone) behind.set(last, [...(behind.get(last) ?? []), { ...row, isGone: true }]);
  }
  const rows = [...(behind.get(null) ?? [])];
  for (const row of fresh) {
    rows.push(row);
    if (behind.has(row.id)) rows.push(...behind.get(row.id));
  }
  return rows;
}

/** More changes than this at once, or another change within this time: nothing is animated, so that no frame is late. */
const CHANGES_MAX = 10;
const CALM_MS = 200;
let lastChange = -Infinity;
let isCalm = true;

/** Notes that the rows have changed. */
function noteChange(before, after, now) {
  let changes = before.size;
  for (const row of after) changes += before.has(row.id) ? -1 : 1;
  isCalm = changes <= CHANGES_MAX && now - lastChange > CALM_MS;
  lastChange = now;
}

/** Whether few enough rows change that each may be seen to. */
export const mayAnimate = () => isCalm && !STILL.matches;

/** Rows that have another place than before move there; not when the person chose to see something else. */
export function useMotion(rows, starts, choice) {
  const before = useRef({ rows: null, places: new Map(), choice });
  useLayoutEffect(() => {
    if (before.current.rows === rows) return;
    const places = before.current.choice === choice ? before.current.places : new Map();
    const visible = [...document.querySelectorAll("#rows tr[id]")];
    const isStill = !mayAnimate();
    const index = new Map(visible.map((element) => [element.id.slice(4), element]));
    const next = new Map();
    rows.forEach((row, n) => {
      const element = index.get(row.id);
      if (!element) return;
      next.set(row.id, starts[n]);
      const from = places.get(row.id);
      if (from === undefined || from === starts[n] || isStill || Math.abs(from - starts[n]) > innerHeight) return;
      element.animate([{ transform: `translateY(${from - starts[n]}px)` }, { transform: "none" }], { duration: MOVE_MS, easing: "ease-out" });
    });
    before.current = { rows, places: next, choice };
  });
}
