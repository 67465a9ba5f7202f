// Pauses that can be aborted, and how long to pause before another attempt.

/** The pauses between attempts, in milliseconds; the last one repeats. */
const PAUSES_MS = [100, 200, 400, 800, 1000];

/**
 * The pause after this many failed attempts, up to a quarter longer or shorter at random, so that clients that failed at
 * the same time do not try again at the same time.
 * @param {number} failures
 */
export function backoff(failures, random = Math.random) {
  const base = PAUSES_MS[Math.min(Math.max(failures, 1), PAUSES_MS.length) - 1];
  return base * (0.75 + random() / 2);
}

/**
 * Returns after this time. Rejects with the signal's reason if that is aborted first.
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/**
 * A signal that is aborted when one of these is, or after this time. `free` removes its traces.
 * @param {(AbortSignal | undefined)[]} signals
 * @param {number} [ms]
 */
export function joined(signals, ms) {
  const controller = new AbortController();
  const given = signals.filter((signal) => signal !== undefined);
  const listeners = given.map((signal) => {
    const abort = () => controller.abort(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    return () => signal.removeEventListener("abort", abort);
  });
  const late = () => controller.abort(new DOMException("the server did not reply in time", "TimeoutError"));
  const timer = ms === undefined ? undefined : setTimeout(late, ms);
  const free = () => {
    clearTimeout(timer);
    listeners.forEach((remove) => remove());
  };
  return { signal: controller.signal, free };
}
