// What the page knows: lists and events of the server in, state out.
//
// Pure, like the engine: no clock, no network, no page. `reduce` returns a new state and leaves the old one as it is; maps
// that no action touched are shared. The shapes that come in are those of the HTTP API.

import { parseTime } from "./time.js";
import { kindOf, shown, sortText, splitPath } from "./keys.js";

/** Sessions that ended longer ago than this are forgotten, in milliseconds. */
export const ENDED_KEPT = 3600_000;

/** Answered unlock requests that are kept, at most. */
const ANSWERED_KEPT = 200;

export const initial = () => ({
  // The last record that is part of this state.
  seq: 0,
  // By id.
  reservations: new Map(),
  // The same reservations, sorted by their keys.
  order: [],
  // By id. Also those that ended lately.
  sessions: new Map(),
  // By the number of the record that queued them.
  waits: new Map(),
  // Unlock requests by id.
  requests: new Map(),
  // Names of sessions that are not listed any more, by id.
  names: new Map(),
  // How many waits and reservations have changed: who waits for whom is asked for again then.
  queueChanges: 0,
});

/** The state after these actions: {type, ...} or events of the stream, {event, ...}. */
export function reduce(state, actions) {
  const draft = new Draft(state);
  for (const action of actions) {
    const step = STEPS[action.type ?? action.event];
    if (step) step(draft, action);
    if (action.seq > draft.next.seq && action.event) draft.next.seq = action.seq;
  }
  return draft.next;
}

/** A state that is being made. A map or list is copied before it is changed for the first time. */
class Draft {
  constructor(state) {
    this.next = { ...state };
    this.copied = new Set();
  }

  map(name) {
    if (!this.copied.has(name)) {
      this.next[name] = new Map(this.next[name]);
      this.copied.add(name);
    }
    return this.next[name];
  }

  order() {
    if (!this.copied.has("order")) {
      this.next.order = this.next.order.slice();
      this.copied.add("order");
    }
    return this.next.order;
  }

  putReservation(one) {
    const old = this.next.reservations.get(one.id);
    const order = this.order();
    if (old && compare(old, one) === 0) order[place(order, old)] = one;
    else {
      if (old) order.splice(place(order, old), 1);
      order.splice(place(order, one), 0, one);
    }
    this.map("reservations").set(one.id, one);
    if (!old) this.countHeld(one.sessionId, 1);
  }

  dropReservation(id) {
    const old = this.next.reservations.get(id);
    if (!old) return;
    this.order().splice(place(this.next.order, old), 1);
    this.map("reservations").delete(id);
    this.countHeld(old.sessionId, -1);
  }

  countHeld(id, by) {
    const session = this.session(id);
    this.map("sessions").set(id, { ...session, held: Math.max(0, session.held + by) });
  }

  /** A session, also one that nothing is known about but its id. */
  session(id) {
    return this.next.sessions.get(id) ?? { id, name: null, feature: null, state: "active", started: 0, seen: 0, ended: 0, held: 0 };
  }

  /** Keeps the name of a session that may end before what mentions it. */
  rememberName(id, name) {
    if (id && name && this.next.names.get(id) !== name) this.map("names").set(id, name);
  }

  putSession(id, change) {
    this.map("sessions").set(id, { ...this.session(id), ...change });
  }
}

function compare(a, b) {
  if (a.sortText !== b.sortText) return a.sortText < b.sortText ? -1 : 1;
  return a.fence - b.fence;
}

/** Where a reservation is in the order, or where it belongs. */
function place(order, one) {
  let [low, high] = [0, order.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(order[middle], one) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A reservation of a list, or of an event. */
function reservation(one) {
  const path = shown(one.filePath);
  const kind = kindOf(one.filePath);
  return {
    id: one.reservationId,
    key: one.filePath,
    kind,
    ...(kind === "path" ? splitPath(path) : { dirs: [], leaf: path }),
    sortText: sortText(one.filePath),
    sessionId: one.sessionId,
    mode: one.mode,
    reason: one.reason ?? null,
    since: parseTime(one.reservedAt),
    expires: parseTime(one.expiresAt),
    ttl: (one.ttlSeconds ?? 0) * 1000,
    whileSession: one.whileSession ?? false,
    fence: one.fence,
    encoding: one.encoding ?? null,
  };
}

function sessionOf(info) {
  return {
    name: info.name ?? null,
    feature: info.feature ?? null,
    state: info.state,
    started: parseTime(info.startedAt),
    seen: parseTime(info.lastSeenAt),
    ended: parseTime(info.endedAt),
  };
}

function requestOf(one) {
  return {
    id: one.id,
    reservationId: one.reservationId,
    key: one.filePath,
    holder: one.reservedBy ?? null,
    by: one.requestedBy,
    reason: one.reason,
    at: parseTime(one.requestedAt),
    status: one.status,
    answeredAt: parseTime(one.respondedAt),
    answeredBy: one.respondedBy ?? null,
    note: one.note ?? null,
    handedOver: one.handedOver ?? false,
  };
}

const STEPS = {
  // ---- lists ----

  /** Everything is forgotten: new lists follow. */
  reset(draft) {
    draft.next = initial();
    draft.copied.clear();
  },

  /** A page of reservations. The first page has the record up to which all pages are complete. */
  reservations(draft, { list, isFirst }) {
    if (isFirst) draft.next.seq = list.seq;
    const many = list.reservations.length > 200 && draft.next.order.length === 0;
    for (const one of list.reservations) {
      if (one.sessionName !== undefined && draft.session(one.sessionId).name === null && one.sessionName !== null) {
        draft.putSession(one.sessionId, { name: one.sessionName });
      }
      if (many) addUnsorted(draft, reservation(one));
      else draft.putReservation(reservation(one));
    }
    if (many) draft.next.order = [...draft.map("reservations").values()].sort(compare);
    draft.next.queueChanges += 1;
  },

  sessions(draft, { list }) {
    for (const info of list.sessions) draft.putSession(info.sessionId, sessionOf(info));
  },

  requests(draft, { list }) {
    const requests = draft.map("requests");
    for (const one of list.requests) {
      requests.set(one.id, requestOf(one));
      draft.rememberName(one.requestedBy, one.requestedByName);
      draft.rememberName(one.reservedBy, one.reservedByName);
    }
  },

  /** Who waits for whom, as of now. Waits that events told of in the meantime stay. */
  waits(draft, { list, asOf }) {
    const waits = draft.map("waits");
    const listed = new Set(list.waits.map((wait) => wait.waiter));
    for (const [id] of [...waits]) {
      if (!listed.has(id) && !(typeof id === "number" && id > asOf)) waits.delete(id);
    }
    list.waits.forEach((wait, n) => {
      const id = wait.waiter ?? `${wait.sessionId} ${n}`;
      waits.set(id, {
        id,
        sessionId: wait.sessionId,
        keys: wait.keys,
        more: wait.moreKeys ?? 0,
        since: parseTime(wait.since),
        givesUp: parseTime(wait.givesUpAt),
        blockedBy: wait.blockedBy ?? [],
      });
      if (wait.sessionName && draft.session(wait.sessionId).name === null) draft.putSession(wait.sessionId, { name: wait.sessionName });
    });
  },

  /** What is held in place of what a session was thought to hold: renewals are no events. */
  refreshed(draft, { list }) {
    for (const one of list.reservations) {
      if (draft.next.reservations.has(one.reservationId)) draft.putReservation(reservation(one));
    }
  },

  /** Deadlines and signs of life that have changed. */
  live(draft, { data }) {
    for (const { reservationId, expiresAt } of data.reservations ?? []) {
      const old = draft.next.reservations.get(reservationId);
      if (old) draft.putReservation({ ...old, expires: parseTime(expiresAt) });
    }
    for (const { sessionId, lastSeenAt } of data.sessions ?? []) {
      if (draft.next.sessions.has(sessionId)) draft.putSession(sessionId, { seen: parseTime(lastSeenAt) });
    }
  },

  /** Time passes: what no view shows any more is dropped. */
  forget(draft, { now }) {
    for (const [id, session] of draft.next.sessions) {
      if (session.state !== "active" && session.held === 0 && session.ended < now - ENDED_KEPT) draft.map("sessions").delete(id);
    }
    const mentioned = new Set([...draft.next.requests.values()].flatMap((one) => [one.by, one.holder]));
    for (const id of draft.next.names.keys()) if (!mentioned.has(id)) draft.map("names").delete(id);
    const answered = [...draft.next.requests.values()].filter((one) => one.status !== "pending");
    if (answered.length <= ANSWERED_KEPT) return;
    answered.sort((a, b) => b.answeredAt - a.answeredAt);
    for (const one of answered.slice(ANSWERED_KEPT)) draft.map("requests").delete(one.id);
  },

  // ---- events ----

  opened(draft, event) {
    const at = parseTime(event.at);
    draft.putSession(event.sessionId, { name: event.name, feature: event.feature, state: "active", started: at, seen: at, ended: 0 });
  },

  reopened(draft, event) {
    STEPS.opened(draft, event);
  },

  ended(draft, event) {
    const at = parseTime(event.at);
    draft.putSession(event.sessionId, { state: event.state, ended: at });
    for (const [id, wait] of [...draft.next.waits]) if (wait.sessionId === event.sessionId) draft.map("waits").delete(id);
    draft.next.queueChanges += 1;
  },

  reserved(draft, event) {
    draft.putReservation(reservation(event));
    draft.putSession(event.sessionId, { seen: Math.max(draft.session(event.sessionId).seen, parseTime(event.at)) });
    draft.next.queueChanges += 1;
  },

  amended(draft, event) {
    const old = draft.next.reservations.get(event.reservationId);
    if (!old) return;
    const ttl = event.ttlSeconds * 1000;
    const expires = Math.max(old.expires, parseTime(event.at) + ttl);
    draft.putReservation({ ...old, mode: event.mode, reason: event.reason, ttl, expires });
    draft.next.queueChanges += 1;
  },

  released(draft, event) {
    draft.dropReservation(event.reservationId);
    draft.next.queueChanges += 1;
  },

  queued(draft, event) {
    draft.map("waits").set(event.seq, {
      id: event.seq,
      sessionId: event.sessionId,
      keys: event.filePaths,
      more: event.moreFilePaths ?? 0,
      since: parseTime(event.at),
      givesUp: 0,
      blockedBy: [],
    });
    draft.next.queueChanges += 1;
  },

  seated(draft, event) {
    draft.map("waits").delete(event.waiter);
    draft.next.queueChanges += 1;
  },

  left(draft, event) {
    draft.map("waits").delete(event.waiter);
    draft.next.queueChanges += 1;
  },

  unlockRequested(draft, event) {
    draft.rememberName(event.requestedBy, draft.next.sessions.get(event.requestedBy)?.name);
    draft.map("requests").set(event.requestId, {
      id: event.requestId,
      reservationId: event.reservationId,
      key: event.filePath,
      holder: draft.next.reservations.get(event.reservationId)?.sessionId ?? null,
      by: event.requestedBy,
      reason: event.reason,
      at: parseTime(event.at),
      status: "pending",
      answeredAt: 0,
      answeredBy: null,
      note: null,
      handedOver: false,
    });
  },

  unlockAnswered(draft, event) {
    const old = draft.next.requests.get(event.requestId);
    if (!old) return;
    const answer = { status: event.status, answeredAt: parseTime(event.at), answeredBy: event.respondedBy, note: event.note ?? null, handedOver: event.handedOver ?? false };
    draft.map("requests").set(event.requestId, { ...old, ...answer });
  },
};

/** For the first page of a long list, which is sorted once at its end. */
function addUnsorted(draft, one) {
  const isNew = !draft.next.reservations.has(one.id);
  draft.map("reservations").set(one.id, one);
  if (isNew) draft.countHeld(one.sessionId, 1);
}
