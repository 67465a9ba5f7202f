// Calls to the server. The cookie signs them; a call that changes something also sends the secret of this tab.

const SECRET = "dibs-change";
const SESSION = "dibs-session";

/** Addresses are relative to the page, so that a proxy may serve it under a path. */
const base = new URL(".", document.baseURI);

/** The repository to name with every call, if the login is for several. */
let repo = null;

export function setRepo(name) {
  repo = name;
}

/** A refusal of the server: its sentence, its code, its status. Status 0: it did not answer. */
export class Refusal extends Error {
  constructor(status, body) {
    super(body?.error ?? "The server does not answer.");
    this.status = status;
    this.code = body?.code ?? null;
    this.body = body;
  }
}

export function address(path, query = {}) {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(repo ? { repo, ...query } : query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

async function call(method, path, { query, body } = {}) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (sessionStorage[SECRET]) headers["x-dibs-change"] = sessionStorage[SECRET];
  let answer;
  try {
    answer = await fetch(address(path, query), { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refusal(0, null);
  }
  const json = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refusal(answer.status, json);
  return json;
}

export const get = (path, query) => call("GET", path, { query });
export const post = (path, body = {}) => call("POST", path, { body });
export const remove = (path, body) => call("DELETE", path, { body });

/** Tells the other tabs of this browser that it has signed in or out: they share the cookie, and not the secret. */
const tabs = globalThis.BroadcastChannel ? new BroadcastChannel(`dibs ${base.pathname}`) : null;

/** Calls a function when another tab of this browser has signed in or out. */
export function onOtherTab(listener) {
  if (tabs) tabs.onmessage = listener;
}

/**
 * Exchanges a code or a token for the cookie, and keeps the secret in this tab. Only an exchange that succeeds may name the
 * session that an admin takes for its own: a link alone proves nothing.
 */
export async function signIn(proof, session = null) {
  const login = await post("api/login", proof);
  if (login.changeSecret) sessionStorage[SECRET] = login.changeSecret;
  else delete sessionStorage[SECRET];
  ownSession.set(session);
  tabs?.postMessage("signed in");
  return login;
}

/** Whether this tab could change something once. */
export const hasSecret = () => Boolean(sessionStorage[SECRET]);

export async function signOut() {
  delete sessionStorage[SECRET];
  delete sessionStorage[SESSION];
  await remove("api/login");
  tabs?.postMessage("signed out");
}

/** Who is signed in, or null. */
export const whoAmI = async () => (await get("api/login")).login;

/** The session that an admin takes for its own, if there is one. */
export const ownSession = {
  get: () => sessionStorage[SESSION] ?? null,
  set: (id) => {
    if (id) sessionStorage[SESSION] = id;
    else delete sessionStorage[SESSION];
  },
};

/** The session that a login acts for, or null. */
export const sessionOf = (login) => login.sessionId ?? (login.scope === "admin" ? ownSession.get() : null);

/** The address of a session. Browsers take the parts "." and ".." out of every address, however they are written. */
const session = (id) => {
  if (id === "." || id === "..") throw new Refusal(400, { error: `A browser cannot send a request for the session ${id}. Use git dibs.` });
  return `api/sessions/${encodeURIComponent(id)}`;
};

/** What a person can do. Each returns a promise of the server's answer. */
export const act = {
  release: (me, one) => post(`${session(me)}/files/release`, { filePath: one.key, ...(one.encoding && { encoding: one.encoding }) }),
  ask: (me, one, reason) => post(`${session(me)}/unlock-requests`, { filePath: one.key, reason, ...(one.encoding && { encoding: one.encoding }) }),
  override: (one, reason) => remove(`api/reservations/${encodeURIComponent(one.id)}`, { reason }),
  approve: (holder, request) => post(`${session(holder)}/unlock-requests/${request.id}/approve`),
  handOver: (holder, request) => post(`${session(holder)}/unlock-requests/${request.id}/approve`, { handOver: true }),
  reject: (holder, request, note) => post(`${session(holder)}/unlock-requests/${request.id}/reject`, note ? { note } : {}),
  withdraw: (me, request) => remove(`${session(me)}/unlock-requests/${request.id}`),
  end: (id) => post(`${session(id)}/end`, { state: "stopped" }),
  /** Holds the key that pauses a feature, in a session made for it: an admin has none. */
  async pause(feature, reason, name) {
    const made = await post("api/sessions", { sessionId: `pause-${crypto.randomUUID().slice(0, 8)}`, name, ...(repo && { repo }) });
    try {
      return await post(`${session(made.sessionId)}/files/reserve`, { filePath: `feature:${feature}:pause`, reason, ttlSeconds: PAUSE_SECONDS });
    } catch (refusal) {
      await act.end(made.sessionId).catch(() => {});
      if (refusal.code === "RESOURCE_LOCKED") refusal.message = `${feature} is paused already.`;
      throw refusal;
    }
  },
  /** Ends a pause: my own hold, the session made for it, or the hold of another. Any session may be called `pause-…`. */
  async resume(pause, me, name) {
    if (pause.sessionId === me) return act.release(me, pause);
    if (pause.sessionId.startsWith("pause-")) {
      const { reservations } = await get(`${session(pause.sessionId)}/reserved-files?limit=2`);
      if (reservations.length === 1) return act.end(pause.sessionId);
    }
    return remove(`api/reservations/${encodeURIComponent(pause.reservationId)}`, { reason: `resumed by ${name}` });
  },
};

/** How long a pause from this page lasts at most: what the server allows for names. */
export const PAUSE_SECONDS = 28_800;
