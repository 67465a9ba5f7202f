// Keys that are held, and renewed in the background until they are released.

import { SessionEndedError, UnreachableError } from "./errors.js";

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
  #isReleased = false;

  /**
   * @param {import("./client.js").DibsClient} client
   * @param {Reserved[]} reservations
   * @param {{ ttlSeconds?: number, renew?: boolean, keepsProcess?: boolean }} [options]
   */
  constructor(client, reservations, options = {}) {
    this.#client = client;
    this.#options = options;
    /** One for each key, in the order of the request. */
    this.reservations = reservations;
    if (options.renew ?? true) this.#schedule();
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
    const body = { filePaths: this.paths, ttlSeconds: this.#options.ttlSeconds };
    const encoding = this.reservations.find((one) => one.encoding)?.encoding;
    const reply = /** @type {import("../api.js").RenewedMany} */ (
      await this.#client.call("POST", this.#client.own("files/renew"), { ...body, encoding })
    );
    for (const [n, renewed] of reply.reservations.entries()) {
      this.reservations[n] = { ...this.reservations[n], expiresAt: renewed.expiresAt };
    }
  }

  /** Releases the keys and stops renewing them. Releasing again does nothing. */
  async release() {
    if (this.#isReleased) return;
    this.#stop();
    const encoding = this.reservations.find((one) => one.encoding)?.encoding;
    await this.#client.call("POST", this.#client.own("files/release"), { filePaths: this.paths, encoding });
  }

  #stop() {
    this.#isReleased = true;
    clearTimeout(this.#timer);
  }

  #schedule() {
    const shortest = Math.min(...this.reservations.map((one) => one.ttlSeconds * 1000));
    // A third of the time, so that one or two lost renewals do no harm.
    const every = Math.min(Math.max(shortest / 3, RENEW_MS_MIN), RENEW_MS_MAX);
    this.#renewAfter(every, every);
  }

  /**
   * @param {number} ms
   * @param {number} every
   */
  #renewAfter(ms, every) {
    this.#timer = setTimeout(async () => {
      try {
        await this.renew();
        if (!this.#isReleased) this.#renewAfter(every, every);
      } catch (error) {
        if (this.#isReleased) return;
        // A server that cannot answer now may answer in time.
        if (error instanceof UnreachableError) return this.#renewAfter(Math.min(every, 1000), every);
        this.#stop();
        this.#lost.abort(error instanceof SessionEndedError ? error : new SessionEndedError(String(error), { cause: error }));
      }
    }, ms);
    // In Node, a reservation that was forgotten keeps no process alive. One that work depends on does.
    if (!this.#options.keepsProcess) /** @type {{ unref?: () => void }} */ (this.#timer).unref?.();
  }
}
