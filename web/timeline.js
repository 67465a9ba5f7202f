// Bars of who held what when, made from events. Pure.

import { parseTime } from "./time.js";

/**
 * The bars between two times. `events` are those of the history, in any order, complete back to `from`; `held` is what is
 * held now. A bar: {id, key, encoding, sessionId, sessionName, mode, reason, fence, from, to, end, by, why}; `from` is null when it
 * began before the events do, `end` is null while it is held.
 */
export function bars(events, held, from, to) {
  const found = new Map();
  for (const event of events) {
    if (event.event !== "reserved" && event.event !== "released") continue;
    const bar = found.get(event.reservationId) ?? blank(event);
    if (event.event === "reserved") Object.assign(bar, { from: parseTime(event.at), mode: event.mode, reason: event.reason, fence: event.fence });
    else Object.assign(bar, { to: parseTime(event.at), end: endOf(event.why), why: event.reason ?? null, by: event.by ?? null });
    bar.sessionName ??= event.sessionName ?? null;
    found.set(event.reservationId, bar);
  }
  for (const one of held) {
    if (found.has(one.id)) Object.assign(found.get(one.id), { mode: one.mode, reason: one.reason, fence: one.fence, from: one.since });
    else found.set(one.id, { ...blank({ reservationId: one.id, filePath: one.key, encoding: one.encoding, sessionId: one.sessionId }), from: one.since, mode: one.mode, reason: one.reason, fence: one.fence });
  }
  return [...found.values()].filter((bar) => (bar.from ?? from) < to && (bar.to ?? to) > from).sort((a, b) => (a.from ?? 0) - (b.from ?? 0));
}

const blank = (event) => ({ id: event.reservationId, key: event.filePath, encoding: event.encoding ?? null, sessionId: event.sessionId, sessionName: event.sessionName ?? null, mode: null, reason: null, fence: null, from: null, to: null, end: null, by: null, why: null });

/** How a bar ends: "released", "expired" or "overridden". */
function endOf(why) {
  return why === "expired" || why === "overridden" ? why : "released";
}

/**
 * Two lists of events as one, the latest first, each event once, and the oldest left out beyond `most`. `known` is such a list
 * already.
 */
export function mergeEvents(known, more, most) {
  const seqs = new Set(known.map((one) => one.seq));
  const fresh = more.filter((one) => !seqs.has(one.seq)).sort((a, b) => b.seq - a.seq);
  if (!fresh.length) return known;
  const all = [...fresh, ...known];
  // What happens now is newer than all that is known, so there is nothing to sort.
  if (known.length && fresh.at(-1).seq < known[0].seq) all.sort((a, b) => b.seq - a.seq);
  return all.length > most ? all.slice(0, most) : all;
}

/** Groups bars into rows: by key or by session. Bars that overlap get lanes. What is held now comes first. */
export function rowsOf(all, by) {
  const rows = new Map();
  for (const bar of all) {
    const name = by === "session" ? bar.sessionId : bar.key;
    if (!rows.has(name)) rows.set(name, { name, bars: [], lanes: 1, last: 0, isHeld: false });
    const row = rows.get(name);
    row.bars.push(bar);
    row.last = Math.max(row.last, bar.to ?? Infinity);
    row.isHeld ||= bar.to === null;
  }
  for (const row of rows.values()) {
    const ends = [];
    for (const bar of row.bars) {
      let lane = ends.findIndex((end) => end <= (bar.from ?? 0));
      if (lane < 0) lane = ends.length;
      ends[lane] = bar.to ?? Infinity;
      bar.lane = lane;
    }
    row.lanes = ends.length;
  }
  return [...rows.values()].sort((a, b) => Number(b.isHeld) - Number(a.isHeld) || b.last - a.last || (a.name < b.name ? -1 : 1));
}

/** Round times for the axis, at most `most` of them. */
export function ticks(from, to, most) {
  const steps = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((seconds) => seconds * 1000);
  const step = steps.find((one) => (to - from) / one <= most) ?? steps.at(-1);
  const shift = new Date(to).getTimezoneOffset() * 60_000;
  const found = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at < to; at += step) found.push(at);
  return found;
}
