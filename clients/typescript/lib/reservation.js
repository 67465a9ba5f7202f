// Keys that are held, and renewed in the background until they are released.

import { SessionEndedError, isRefusal } from "./errors.js";

/** @typedef {import("../api.js").Reserved} Reserved */

/** The shortest and the longest time between two renewals, in milliseconds. */
const RENEW_MS_MIN = 250;
const RENEW_MS_MAX = 60_000;

/** What a session holds. It is renewed in the background until it is released. */
export class Reservation {
  #client;
  #options;
  #lost = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #expiry;
  #isStopped = false;
  /** @type {Promise<void> | undefined} */
  #release;

  /**
   * @param {import("./client.js").DibsClient} client
   * @param {Reserved[]} reservations
   * @param {{ ttlSeconds?: number, renew?: boolean, keepsProcess?: boolean, since?: number, waited?: boolean }} [options]
   *   `since`: when the keys were surely not granted yet, by the clock of `performance.now()`.
   */
  constructor(client, reservations, options = {}) {
    this.#client = client;
    this.#options = options;
    /** One for each key, in the order of the request. */
    this.reservations = reservations;
    if (!(options.renew ?? true)) return;
    this.#confirmed(options.since ?? performance.now());
    // The reply to a request that waited does not tell when it was granted. A renewal does.
    this.#renewAfter(options.waited ? 0 : this.#every());
  }

  /** The keys, as they were asked for. */
  get paths() {
    return this.reservations.map((one) => one.filePath);
  }

  /** The fencing number of the first key: grows with every grant in the repository. */
  get fence() {
    return this.reservations[0].fence;
  }

  /** The version of the first key: one more each time a holder releases it. */
  get version() {
    return this.reservations[0].version;
  }

  /** Aborted when the keys are lost: they expired, an admin took them away, or the session ended. */
  get lost() {
    return this.#lost.signal;
  }

  /** Renews now. Fails with SessionEndedError if a key has expired in the meantime. */
  async renew() {
    const sent = performance.now();
    const body = { filePaths: this.paths, ttlSeconds: this.#options.ttlSeconds };
    const encoding = this.reservations.find((one) => one.encoding)?.encoding;
    const reply = /** @type {import("../api.js").RenewedMany} */ (
      await this.#client.call("POST", this.#client.own("files/renew"), { ...body, encoding })
    );
    for (const [n, renewed] of reply.reservations.entries()) {
      this.reservations[n] = { ...this.reservations[n], expiresAt: renewed.expiresAt };
    }
    if (!this.#isStopped && (this.#options.renew ?? true)) this.#confirmed(sent);
  }

  /**
   * Releases the keys and stops renewing them. If it fails, it can be repeated; once they are released or lost, it does
   * nothing.
   */
  async release() {
    if (this.lost.aborted) return;
    this.#stop();
    this.#release ??= this.#callRelease().catch((error) => {
      this.#release = undefined;
      throw error;
    });
    await this.#release;
  }

  async #callRelease() {
    const encoding = this.reservations.find((one) => one.encoding)?.encoding;
    await this.#client.call("POST", this.#client.own("files/release"), { filePaths: this.paths, encoding });
  }

  #stop() {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#expiry);
  }

  /** @param {SessionEndedError} why */
  #lose(why) {
    this.#stop();
    this.#lost.abort(why);
  }

  /** The time of the shortest reservation, in milliseconds. */
  #shortest() {
    return Math.min(...this.reservations.map((one) => one.ttlSeconds * 1000));
  }

  /** A third of it, so that one or two lost renewals do no harm. */
  #every() {
    return Math.min(Math.max(this.#shortest() / 3, RENEW_MS_MIN), RENEW_MS_MAX);
  }

  /**
   * The server granted or renewed the keys at this time or later. Without another renewal they are lost when their time
   * has passed since: the server need not tell, and may be out of reach. No clock of the server takes part.
   * @param {number} since
   */
  #confirmed(since) {
    clearTimeout(this.#expiry);
    const left = since + this.#shortest() - performance.now();
    this.#expiry = this.#after(left, () => {
      this.#lose(new SessionEndedError("the reservation ran out, because no renewal got through", { code: "LOCK_TIMEOUT" }));
    });
  }

  /** @param {number} ms */
  #renewAfter(ms) {
    this.#timer = this.#after(ms, async () => {
      try {
        await this.renew();
        if (!this.#isStopped) this.#renewAfter(this.#every());
      } catch (error) {
        if (this.#isStopped) return;
        // What cannot be reached now may be reached in time.
        if (!isRefusal(error)) return this.#renewAfter(Math.min(this.#every(), 1000));
        const { message, status, body } = error;
        this.#lose(error instanceof SessionEndedError ? error : new SessionEndedError(message, { status, body, cause: error }));
      }
    });
  }

  /**
   * In Node, a reservation that was forgotten keeps no process alive. One that work depends on does.
   * @param {number} ms
   * @param {() => void} then
   */
  #after(ms, then) {
    const timer = setTimeout(then, Math.max(ms, 0));
    if (!this.#options.keepsProcess) /** @type {{ unref?: () => void }} */ (timer).unref?.();
    return timer;
  }
}
