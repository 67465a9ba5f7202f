// Every call of a session, and the two ways to hold keys while working.

import { ConflictError, DeadlockError, DibsError, UnreachableError, isTemporary, refusal } from "./errors.js";
import { Reservation } from "./reservation.js";
import { backoff, joined, pause } from "./time.js";

/** @import * as Api from "../api.js" */
/** @typedef {import("../index.js").ClientOptions} ClientOptions */
/** @typedef {import("../index.js").ReserveOptions} ReserveOptions */
/** @typedef {import("../index.js").RetryOptions} RetryOptions */
/** @typedef {import("../index.js").CallOptions} CallOptions */

/** The longest that one request waits in the server's queue, in seconds. */
const WAIT_SECONDS_MAX = 300;

/** How often `acquireWithRetry` tries again without a time. */
const RETRIES_MAX = 5;

/** How long a call may take, in milliseconds, beside the time that it waits in a queue. */
const TIMEOUT_MS = 30_000;

/** Where a local server listens. */
const LOCAL_URL = "http://127.0.0.1:3427";

/** A client that acts for one session. */
export class DibsClient {
  #url;
  #token;
  #repo;
  #fetch;
  #timeoutMs;
  #onNotices;

  /** @param {ClientOptions} options */
  constructor({ url = LOCAL_URL, token, session, repo, timeoutMs = TIMEOUT_MS, onNotices, fetch = globalThis.fetch }) {
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
    this.#repo = repo;
    this.#fetch = fetch;
    this.#timeoutMs = timeoutMs;
    this.#onNotices = onNotices;
    const named = session ?? (typeof token === "string" ? sessionOf(token) : undefined);
    if (named === undefined) throw new TypeError("the token names no session; pass one in the option session");
    /** The id of the session. */
    this.session = named;
  }

  /**
   * A client with what `git dibs run` passes to a command: DIBS_URL, DIBS_TOKEN, DIBS_SESSION, DIBS_REPO.
   * @param {Partial<ClientOptions>} [options]
   */
  static fromEnv(options = {}) {
    const variables = /** @type {any} */ (globalThis).process?.env ?? {};
    const { DIBS_URL: url, DIBS_TOKEN: token, DIBS_SESSION: session, DIBS_REPO: repo } = variables;
    if (!token && !options.token) throw new TypeError("DIBS_TOKEN is not set; start the program with git dibs run");
    const given = { url: url || undefined, token, session: session || undefined, repo: repo || undefined };
    return new DibsClient({ ...given, ...options });
  }

  /**
   * Reserves keys, all of them or none, and renews them in the background until they are released.
   * @param {string | string[]} paths
   * @param {ReserveOptions} [options]
   */
  reserve(paths, options = {}) {
    return this.#reserve(paths, options, false);
  }

  /**
   * @param {string | string[]} paths
   * @param {ReserveOptions} options
   * @param {boolean} keepsProcess
   */
  async #reserve(paths, { signal, renew, ...body }, keepsProcess) {
    const filePaths = typeof paths === "string" ? [paths] : paths;
    const waitMs = (body.waitSeconds ?? 0) * 1000;
    const [sent, waited] = [performance.now(), waitMs > 0];
    const reply = /** @type {Api.ReservedMany} */ (
      await this.call("POST", this.own("files/reserve"), { ...body, filePaths }, { signal, waitMs })
    );
    const since = waited ? performance.now() : sent;
    return new Reservation(this, reply.reservations, { ttlSeconds: body.ttlSeconds, renew, keepsProcess, since, waited });
  }

  /**
   * Runs `work` while the keys are held, and releases them however it ends. `work` gets a signal that is aborted when the
   * keys are lost, or when `options.signal` is.
   * @template T
   * @param {string | string[]} paths
   * @param {(held: Reservation, signal: AbortSignal) => T | Promise<T>} work
   * @param {ReserveOptions} [options]
   * @returns {Promise<T>}
   */
  async withReservation(paths, work, options = {}) {
    const held = await this.#reserve(paths, options, true);
    const { signal, free } = joined([held.lost, options.signal]);
    try {
      return await work(held, signal);
    } finally {
      free();
      // What the work came to counts, not that the server is gone by now.
      await held.release().catch(() => undefined);
    }
  }

  /**
   * Acquires one resource. With `timeoutMs` it waits in the server's queue for so long; where that is not possible, and
   * without `timeoutMs`, it tries again after 100, 200, 400, 800, 1000 ms. `maxRetries` limits how often it does: 5 times
   * without `timeoutMs`, and else until its end.
   * @param {string} resource
   * @param {Api.RequestMode} [mode]
   * @param {RetryOptions} [options]
   */
  async acquireWithRetry(resource, mode = "exclusive", { maxRetries, timeoutMs, signal, ...options } = {}) {
    const isTimed = timeoutMs !== undefined;
    const end = isTimed ? performance.now() + timeoutMs : Infinity;
    const most = maxRetries ?? (isTimed ? Infinity : RETRIES_MAX);
    /** @type {unknown} The refusal after a wait, which tells more than one without. */
    let afterWait;
    for (let [attempts, counted] = [0, 0]; ; ) {
      const seconds = isTimed ? Math.floor((end - performance.now()) / 1000) : 0;
      const waitSeconds = Math.min(Math.max(seconds, 0), WAIT_SECONDS_MAX) || undefined;
      try {
        return await this.reserve(resource, { ...options, mode, signal, waitSeconds });
      } catch (error) {
        attempts += 1;
        // While there is time, a conflict is waited for. The queue takes whole seconds; the rest is made of pauses.
        if (!isTimed || !(error instanceof ConflictError)) counted += 1;
        if (error instanceof DibsError && error.code === "LOCK_ACQUISITION_FAILED") afterWait = error;
        const left = end - performance.now();
        if (!isTemporary(error) || error instanceof DeadlockError) throw error;
        if (counted > most || left <= 0) throw error instanceof ConflictError ? (afterWait ?? error) : error;
        await pause(Math.min(Math.max(backoff(attempts), retryAfter(error)), left), signal);
      }
    }
  }

  /**
   * Releases keys. Releasing what the session does not hold is no error.
   * @param {string | string[]} paths
   * @returns {Promise<Api.Released>}
   */
  release(paths) {
    return this.call("POST", this.own("files/release"), { filePaths: typeof paths === "string" ? [paths] : paths });
  }

  /** @returns {Promise<Api.ReleasedAll>} */
  releaseAll() {
    return this.call("POST", this.own("files/release-all"), {});
  }

  /**
   * Asks which reservations are in the way of the session.
   * @param {string | string[]} paths
   * @param {Omit<Api.Check, "paths" | "filePaths">} [options]
   * @returns {Promise<Api.CheckReply>}
   */
  check(paths, options = {}) {
    const list = typeof paths === "string" ? [paths] : paths;
    return this.call("POST", this.own("files/check-conflicts"), { ...options, paths: list });
  }

  /**
   * One page of what is held in the repository.
   * @param {{ prefix?: string, session?: string, limit?: number, cursor?: string }} [filter]
   * @returns {Promise<Api.ReservationList>}
   */
  reservations(filter = {}) {
    const query = new URLSearchParams(
      Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
    );
    return this.call("GET", `/api/reservations?${query}`);
  }

  /**
   * Tells that the session is alive, which renews everything it holds.
   * @returns {Promise<Api.Heartbeat>}
   */
  heartbeat() {
    return this.call("POST", this.own("heartbeat"), {});
  }

  /**
   * Ends the session, which releases everything it holds.
   * @param {Api.EndState} [state]
   * @returns {Promise<Api.Ended>}
   */
  end(state) {
    return this.call("POST", this.own("end"), { state });
  }

  /**
   * Asks the holder of a key to release it.
   * @param {string} path
   * @param {string} reason
   * @returns {Promise<Api.UnlockRequestInfo>}
   */
  requestUnlock(path, reason) {
    return this.call("POST", this.own("unlock-requests"), { filePath: path, reason });
  }

  /** @returns {Promise<Api.UnlockRequests>} */
  unlockRequests() {
    return this.call("GET", this.own("unlock-requests"));
  }

  /**
   * Releases what another session asked for.
   * @param {string} request
   * @param {Api.Approve} [how]
   * @returns {Promise<Api.UnlockRequestInfo>}
   */
  approve(request, how = {}) {
    return this.call("POST", this.own(`unlock-requests/${encodeURIComponent(request)}/approve`), how);
  }

  /**
   * Keeps what another session asked for.
   * @param {string} request
   * @param {Api.Reject} [how]
   * @returns {Promise<Api.UnlockRequestInfo>}
   */
  reject(request, how = {}) {
    return this.call("POST", this.own(`unlock-requests/${encodeURIComponent(request)}/reject`), how);
  }

  /**
   * Takes the session's own request back.
   * @param {string} request
   * @returns {Promise<Api.UnlockRequestInfo>}
   */
  withdraw(request) {
    return this.call("DELETE", this.own(`unlock-requests/${encodeURIComponent(request)}`));
  }

  /**
   * The path of a call for the session.
   * @param {string} rest
   */
  own(rest) {
    return `/api/sessions/${encodeURIComponent(this.session)}/${rest}`;
  }

  /**
   * Makes one call. For calls that this class has no method for.
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @param {CallOptions} [options]
   * @returns {Promise<any>}
   */
  async call(method, path, body, { signal: given, waitMs = 0 } = {}) {
    const token = typeof this.#token === "string" ? this.#token : await this.#token();
    const url = new URL(this.#url + path);
    if (this.#repo !== undefined) url.searchParams.set("repo", this.#repo);
    const { signal, free } = joined([given], this.#timeoutMs + waitMs);
    const headers = { authorization: `Bearer ${token}`, accept: "application/json", "content-type": "application/json" };
    try {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const response = await this.#fetch(url, { method, headers, body: text, signal, redirect: "error" });
      return this.#read(response, await response.text());
    } catch (error) {
      if (error instanceof DibsError) throw error;
      if (given?.aborted) throw given.reason;
      throw new UnreachableError(`no reply from ${this.#url}: ${reason(error)}`, { cause: error });
    } finally {
      free();
    }
  }

  /**
   * @param {Response} response
   * @param {string} text
   */
  #read(response, text) {
    /** @type {any} */
    let body;
    try {
      body = JSON.parse(text);
    } catch {
      body = undefined;
    }
    if (Array.isArray(body?.notices) && body.notices.length > 0) this.#onNotices?.(body.notices);
    if (response.ok && body !== undefined) return body;
    if (typeof body?.code === "string" && typeof body.error === "string") {
      throw refusal(response.status, body, response.headers.get("retry-after"));
    }
    throw new DibsError(`${this.#url} sent status ${response.status} and no answer of a git-dibs server`, {
      status: response.status,
    });
  }
}

/**
 * The session that a token belongs to.
 * @param {string} token
 * @returns {string | undefined}
 */
function sessionOf(token) {
  try {
    const bytes = atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/"));
    const claims = JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0))));
    return claims.sid ?? (claims.scope === undefined || claims.scope === "session" ? claims.sub : undefined);
  } catch {
    return undefined;
  }
}

/**
 * How long the server asks to wait. After a conflict it tells when the holder's time ends, which may be long.
 * @param {unknown} error
 */
function retryAfter(error) {
  return error instanceof DibsError && !(error instanceof ConflictError) ? (error.retryAfterMs ?? 0) : 0;
}

/** @param {unknown} error */
function reason(error) {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message : String(cause);
}
