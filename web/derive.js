// What the views show, made from the state. Pure, like state.js.

import { kindOf, pausedFeature, shown, splitPath, splitShown } from "./keys.js";

/** A session that says nothing for this long, and does not wait, is silent; in milliseconds. */
export const SILENT_AFTER = 120_000;

/** A reservation expires soon when this little of it is left: a share of its TTL, and milliseconds. */
const SOON_SHARE = 0.2;
const SOON_MS = 15_000;

/** The share of its TTL that is left, from 0 to 1. */
export function shareLeft(one, now) {
  return one.ttl > 0 ? Math.min(1, Math.max(0, (one.expires - now) / one.ttl)) : 0;
}

export function isSoon(one, now) {
  return one.expires - now <= SOON_MS && shareLeft(one, now) <= SOON_SHARE;
}

/** The name of a session; its id if it has none. */
export function nameOf(state, id) {
  return state.sessions.get(id)?.name ?? state.names.get(id) ?? id;
}

/** "You", or the name. */
export function whoIs(state, id, me) {
  return id === me ? "You" : nameOf(state, id);
}

/** Two letters that stand for a session. */
export function monogram(name) {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const letters = words.length > 1 ? [...words[0]][0] + [...words[1]][0] : [...(words[0] ?? "?")].slice(0, 2).join("");
  const [first, ...rest] = [...letters];
  return first.toUpperCase() + rest.join("").toLowerCase();
}

/** One of six hues, always the same for the same id. */
export function hue(id) {
  let hash = 2166136261;
  for (const unit of id) hash = Math.imul(hash ^ unit.codePointAt(0), 16777619);
  return ((hash >>> 8) % 6) + 1;
}

/** "alive", "silent", "paused", "lost" or another way to end. */
export function sessionState(state, session, now, paused) {
  if (session.state !== "active") return session.state;
  if (session.feature && paused.some((pause) => pause.feature === session.feature && pause.sessionId !== session.id)) return "paused";
  // A session that only pauses a feature has nothing to say.
  if (paused.some((pause) => pause.sessionId === session.id)) return "alive";
  const waits = waitsOf(state, session.id).length > 0;
  return !waits && session.seen > 0 && now - session.seen > SILENT_AFTER ? "silent" : "alive";
}

export function isSilent(state, id, now) {
  const session = state.sessions.get(id);
  return Boolean(session) && sessionState(state, session, now, pauses(state)) === "silent";
}

/** The features that are paused now. */
export const pauses = memo((state) => [state.order], (state) => {
  const found = [];
  for (const one of state.order) {
    const feature = one.kind === "name" && pausedFeature(one.key);
    if (feature) found.push({ feature, key: one.key, encoding: one.encoding, reservationId: one.id, sessionId: one.sessionId, reason: one.reason, since: one.since, expires: one.expires });
  }
  return found;
});

// ---- waits ----

const waitIndex = memo((state) => [state.waits], (state) => {
  const bySession = new Map();
  for (const wait of state.waits.values()) push(bySession, wait.sessionId, wait);
  return bySession;
});

export function waitsOf(state, id) {
  return waitIndex(state).get(id) ?? [];
}

/** For each key that is held, the waits that are blocked by its holder through it: "session key" to waits. */
const blockIndex = memo((state) => [state.waits], (state) => {
  const byHolder = new Map();
  const sorted = [...state.waits.values()].sort((a, b) => a.since - b.since);
  for (const wait of sorted) {
    for (const { sessionId, key, kind } of wait.blockedBy) if (kind !== "waiter") push(byHolder, `${sessionId} ${key}`, wait);
  }
  return byHolder;
});

/** The waits behind a reservation, the longest first. */
export function waitsBehind(state, one) {
  return blockIndex(state).get(`${one.sessionId} ${one.key}`) ?? [];
}

/**
 * The sessions that hold up others, and wait for none themselves: a person who wants to help begins with them. Each with the
 * sessions behind it, nearest first, and since when the longest of them waits.
 */
export const roots = memo((state) => [state.waits], (state) => {
  const blockers = new Map();
  const behind = new Map();
  for (const wait of state.waits.values()) {
    for (const { sessionId } of wait.blockedBy) {
      if (sessionId === wait.sessionId) continue;
      add(blockers, wait.sessionId, sessionId);
      add(behind, sessionId, wait.sessionId);
    }
  }
  const found = [];
  for (const id of behind.keys()) {
    if (blockers.has(id)) continue;
    const seen = new Set([id]);
    const line = [];
    let ring = [id];
    for (let depth = 1; ring.length; depth += 1) {
      const next = [];
      for (const one of ring) {
        for (const waiter of behind.get(one) ?? []) {
          if (seen.has(waiter)) continue;
          seen.add(waiter);
          next.push(waiter);
          line.push({ id: waiter, depth });
        }
      }
      ring = next;
    }
    const since = Math.min(...line.flatMap(({ id: waiter }) => waitsOf(state, waiter).map((wait) => wait.since)));
    found.push({ id, behind: line, since });
  }
  return found;
});

/** Roots in the order to look at them: the longest wait first, silent ones first on a tie. */
export function sortedRoots(state, now) {
  const silent = (root) => (isSilent(state, root.id, now) ? 0 : 1);
  return [...roots(state)].sort((a, b) => Math.floor(a.since / 1000) - Math.floor(b.since / 1000) || silent(a) - silent(b) || (a.id < b.id ? -1 : 1));
}

/** How many sessions wait behind each session, directly or not. */
export const heldUp = memo((state) => [state.waits], (state) => {
  const behind = new Map();
  for (const wait of state.waits.values()) for (const { sessionId } of wait.blockedBy) add(behind, sessionId, wait.sessionId);
  const counts = new Map();
  for (const id of behind.keys()) {
    const seen = new Set();
    const rest = [id];
    while (rest.length) {
      for (const waiter of behind.get(rest.pop()) ?? []) {
        if (waiter === id || seen.has(waiter)) continue;
        seen.add(waiter);
        rest.push(waiter);
      }
    }
    counts.set(id, seen.size);
  }
  return counts;
});

// ---- unlock requests ----

const pendingIndex = memo((state) => [state.requests], (state) => {
  const byReservation = new Map();
  for (const one of state.requests.values()) if (one.status === "pending") push(byReservation, one.reservationId, one);
  return byReservation;
});

/** The open requests for a reservation. */
export function asksFor(state, one) {
  return pendingIndex(state).get(one.id) ?? [];
}

/** The holder of what a request is for. */
export function holderOf(state, request) {
  return request.holder ?? state.reservations.get(request.reservationId)?.sessionId ?? null;
}

/** Unlock requests in the four groups of their view, for the session `me`, which may be null. */
export function requestGroups(state, me) {
  const groups = { incoming: [], outgoing: [], others: [], answeredIn: [], answeredOut: [], answeredOthers: [] };
  for (const one of state.requests.values()) {
    const holder = holderOf(state, one);
    const isOpen = one.status === "pending";
    if (me && holder === me) groups[isOpen ? "incoming" : "answeredIn"].push(one);
    else if (me && one.by === me) groups[isOpen ? "outgoing" : "answeredOut"].push(one);
    else groups[isOpen ? "others" : "answeredOthers"].push(one);
  }
  for (const name of ["incoming", "outgoing", "others"]) groups[name].sort((a, b) => a.at - b.at);
  for (const name of ["answeredIn", "answeredOut", "answeredOthers"]) groups[name].sort((a, b) => b.answeredAt - a.answeredAt);
  return groups;
}

// ---- what is held ----

/** What a person typed: words, session:…, feature:… and kind:…. */
export function parseFilter(text) {
  const filter = { words: [], session: null, feature: null, kind: null };
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const kind = /^kind:(path|name|uri)s?$/i.exec(word);
    if (kind) filter.kind = kind[1].toLowerCase();
    if (kind) continue;
    const found = /^(session|feature):(.+)$/i.exec(word);
    // "feature:F:pause" is a key.
    if (found && !/^feature:.*:/i.test(word)) filter[found[1].toLowerCase()] = found[2].toLowerCase();
    else filter.words.push(word.toLowerCase());
  }
  return filter;
}

export function matches(state, one, filter) {
  const session = state.sessions.get(one.sessionId);
  if (filter.kind && one.kind !== filter.kind) return false;
  if (filter.session && !(one.sessionId.toLowerCase().includes(filter.session) || (session?.name ?? "").toLowerCase().includes(filter.session))) return false;
  if (filter.feature && (session?.feature ?? "").toLowerCase() !== filter.feature) return false;
  if (!filter.words.length) return true;
  const text = `${one.key}\n${one.reason ?? ""}`.toLowerCase();
  return filter.words.every((word) => text.includes(word));
}

/** The reservations that pass, in the order of their keys, and how many there are of each kind before the kind is chosen. */
export const held = memo(
  (state, query, kind) => [state.order, query ? state.sessions : null, query, kind],
  (state, query, kind) => {
    const filter = parseFilter(query);
    const isAll = !filter.words.length && !filter.session && !filter.feature && !filter.kind;
    const passed = isAll ? state.order : state.order.filter((one) => matches(state, one, filter));
    const counts = { all: passed.length, path: 0, name: 0, uri: 0 };
    for (const one of passed) counts[one.kind] += 1;
    return { list: kind === "all" ? passed : passed.filter((one) => one.kind === kind), counts };
  },
);

/** Rows of the tree: directories, reservations and one heading. `closed` has the paths of closed directories. */
export const treeRows = memo(
  (list, closed) => [list, closed],
  (list, closed) => {
    const rows = [];
    const split = list.findIndex((one) => one.kind !== "path");
    const paths = split < 0 ? list.length : split;
    addRange(rows, list, 0, paths, 0, 0, closed);
    if (split >= 0) {
      rows.push({ type: "group", id: "names", count: list.length - split });
      for (let n = split; n < list.length; n += 1) rows.push({ type: "held", id: list[n].id, one: list[n], depth: 0, text: null });
    }
    return rows;
  },
);

/** The rows of list[low..high], whose first `level` directories are the same. */
function addRange(rows, list, low, high, level, depth, closed) {
  let at = low;
  while (at < high) {
    const { dirs } = list[at];
    if (dirs.length <= level) {
      rows.push({ type: "held", id: list[at].id, one: list[at], depth, text: list[at].leaf });
      at += 1;
      continue;
    }
    let end = at + 1;
    while (end < high && list[end].dirs[level] === dirs[level] && list[end].dirs.length > level) end += 1;
    // A directory whose only entry is a directory is shown with it, in one row.
    let inner = level + 1;
    while (list[at].dirs.length > inner && list[end - 1].dirs.length > inner && sameDirectory(list, at, end, inner)) inner += 1;
    // Below the top, a directory for one reservation alone is not worth a row.
    if (level > 0 && end - at === 1) {
      rows.push({ type: "held", id: list[at].id, one: list[at], depth, text: [...dirs.slice(level), list[at].leaf].join("/") });
      at = end;
      continue;
    }
    const path = `${dirs.slice(0, inner).join("/")}/`;
    const isOpen = !closed.has(path);
    const row = { type: "dir", id: `dir ${path}`, path, name: `${dirs.slice(level, inner).join("/")}/`, depth, isOpen, count: end - at };
    rows.push(isOpen ? row : { ...row, ...totals(list, at, end) });
    if (isOpen) addRange(rows, list, at, end, inner, depth + 1, closed);
    at = end;
  }
}

function sameDirectory(list, low, high, level) {
  const name = list[low].dirs[level];
  for (let n = low; n < high; n += 1) if (list[n].dirs[level] !== name) return false;
  return true;
}

/** What a closed directory says about what is in it. */
function totals(list, low, high) {
  const holders = new Set();
  let [shared, next] = [0, Infinity];
  for (let n = low; n < high; n += 1) {
    holders.add(list[n].sessionId);
    if (list[n].mode === "shared") shared += 1;
    next = Math.min(next, list[n].expires);
  }
  return { holders: [...holders], shared, next, members: () => list.slice(low, high) };
}

/** Rows of the table. `sort` is "time" or "path". */
export const tableRows = memo(
  (list, sort) => [list, sort],
  (list, sort) => {
    const sorted = sort === "time" ? [...list].sort((a, b) => a.expires - b.expires || (a.sortText < b.sortText ? -1 : 1)) : list;
    return sorted.map((one) => ({ type: "held", id: one.id, one, depth: 0, text: null }));
  },
);

/** The rows, with what the server said to the last action under the row that caused it. */
export const withProblem = memo(
  (rows, problem) => [rows, problem],
  (rows, problem) => {
    const at = problem ? rows.findIndex((row) => row.type === "held" && row.id === problem.at) : -1;
    return at < 0 ? rows : [...rows.slice(0, at + 1), { type: "problem", id: `problem ${problem.at}`, sentence: problem.sentence }, ...rows.slice(at + 1)];
  },
);

/** What expires first: a few reservations, and how many more the next holder has. */
export function expiring(state, now, count) {
  const first = [];
  for (const one of state.order) {
    if (first.length < count || one.expires < first[count - 1].expires) {
      const at = first.findIndex((other) => one.expires < other.expires);
      first.splice(at < 0 ? first.length : at, 0, one);
      if (first.length > count) first.pop();
    }
  }
  return first;
}

// ---- hot spots ----

/**
 * Hot paths by directory, the highest counts first. The sums of directories come from the server, which knows more paths than
 * it lists; what competes for a directory, and when, is known of the listed ones.
 */
export function groupByDirectory(paths, directories = []) {
  const groups = new Map();
  const group = (name, isDirectory, steps) => {
    if (!groups.has(name)) groups.set(name, { name, isDirectory, conflicts: 0, waits: 0, waited: 0, byStep: new Array(steps).fill(0), between: [], files: [] });
    return groups.get(name);
  };
  for (const one of paths) {
    const dirs = kindOf(one.key) === "path" ? splitPath(shown(one.key)).dirs : [];
    const own = group(dirs.length ? `${dirs.join("/")}/` : one.key, dirs.length > 0, one.byStep.length);
    own.conflicts += one.conflicts;
    one.byStep.forEach((count, n) => (own.byStep[n] += count));
    for (const session of one.between) if (!own.between.some((known) => known.sessionId === session.sessionId)) own.between.push(session);
    own.waits += one.waits;
    own.waited += one.averageWaitSeconds * one.waits;
    if (dirs.length) own.files.push(one);
  }
  for (const { directory, conflicts } of directories.filter((one) => one.directory !== ".")) {
    const own = group(`${directory}/`, true, paths[0]?.byStep.length ?? 0);
    own.conflicts = Math.max(own.conflicts, conflicts);
  }
  const sorted = [...groups.values()].sort((a, b) => b.conflicts - a.conflicts || (a.name < b.name ? -1 : 1));
  for (const one of sorted) one.files.sort((a, b) => b.conflicts - a.conflicts);
  return sorted;
}

// ---- history ----

/** What the field of the history names: a path, or a session by "session:" with its name or id. */
export function historyFilter(state, text) {
  const found = /^session:(.+)$/i.exec(text.trim());
  if (!found) return { path: text.trim(), session: "" };
  const wanted = found[1].trim();
  if (state.sessions.has(wanted)) return { path: "", session: wanted };
  const named = [...state.sessions.values()].filter((one) => (one.name ?? "").toLowerCase() === wanted.toLowerCase());
  named.sort((a, b) => b.started - a.started);
  return { path: "", session: named[0]?.id ?? wanted };
}

// ---- sessions ----

/** Active sessions: silent ones that hold something first, then mine, then by how many they hold up. */
export function sessionRows(state, me, now) {
  const up = heldUp(state);
  const paused = pauses(state);
  const all = [...state.sessions.values()].filter((session) => session.state === "active");
  const rows = all.map((session) => ({ session, state: sessionState(state, session, now, paused), up: up.get(session.id) ?? 0 }));
  const rank = (row) => (row.state === "silent" && row.session.held > 0 ? 0 : row.session.id === me ? 1 : 2);
  const byName = (a, b) => (nameOf(state, a.session.id) < nameOf(state, b.session.id) ? -1 : 1);
  return rows.sort((a, b) => rank(a) - rank(b) || b.up - a.up || b.session.held - a.session.held || byName(a, b));
}

/** What each session holds, in the order of the keys. */
export const heldBy = memo((state) => [state.order], (state) => {
  const bySession = new Map();
  for (const one of state.order) push(bySession, one.sessionId, one);
  return bySession;
});

export function endedSessions(state, now) {
  const ended = [...state.sessions.values()].filter((one) => one.state !== "active" && one.ended > now - 3600_000);
  return ended.sort((a, b) => b.ended - a.ended);
}

/** "Ana", "Ana and Bo", "Ana, Bo and 3 others". */
export function listNames(names, most = 2) {
  if (names.length <= 1) return names[0] ?? "";
  if (names.length <= most) return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  const rest = names.length - most;
  return `${names.slice(0, most).join(", ")} and ${rest} ${rest === 1 ? "other" : "others"}`;
}

/** The last part of a key, for places with little room. */
export function shortKey(key) {
  return splitShown(key)[1] || shown(key);
}

// ---- helpers ----

function push(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

function add(map, key, value) {
  const set = map.get(key);
  if (set) set.add(value);
  else map.set(key, new Set([value]));
}

/** Remembers the last result as long as the list of what it depends on is the same. */
function memo(dependsOn, make) {
  let [known, result] = [null, null];
  return (...args) => {
    const now = dependsOn(...args);
    if (!known || now.some((part, n) => part !== known[n])) {
      result = make(...args);
      known = now;
    }
    return result;
  };
}
