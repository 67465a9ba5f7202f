// Why a call failed. Each class is a kind that a caller may want to handle.

/** @typedef {import("../api.js").ErrorBody} ErrorBody */

/** The server refused the call, or could not be reached. */
export class DibsError extends Error {
  /**
   * @param {string} message
   * @param {{ status?: number, code?: import("../api.js").Code, body?: ErrorBody, retryAfterMs?: number, cause?: unknown }} [facts]
   */
  constructor(message, { status = 0, body, code = body?.code, retryAfterMs, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    /** The HTTP status; 0 if there was no response. */
    this.status = status;
    /** The body of the refusal, if there was one. */
    this.body = body;
    /** The code of the refusal, if there was one. */
    this.code = code;
    /** When to try again, if the server told it. */
    this.retryAfterMs = retryAfterMs;
  }
}

/** Another session holds a key: RESOURCE_LOCKED, or LOCK_ACQUISITION_FAILED after a wait. */
export class ConflictError extends DibsError {
  /** What is in the way, with holder, time and reason. */
  get conflicts() {
    return this.body?.conflicts ?? [];
  }

  /** The session in the way. */
  get reservedBy() {
    return this.body?.reservedBy ?? undefined;
  }
}

/** Waiting would never end, because sessions wait for each other: POSSIBLE_DEADLOCK. */
export class DeadlockError extends ConflictError {
  get cycle() {
    return this.body?.cycle ?? [];
  }
}

/** The session's feature is paused: FEATURE_PAUSED. */
export class PausedError extends DibsError {}

/** The session has ended, or the reservation has expired: SESSION_ENDED, LOCK_TIMEOUT. What it held, it holds no more. */
export class SessionEndedError extends DibsError {}

/** No server answered, or it cannot answer now. Nothing was granted, unless the connection broke during the call. */
export class UnreachableError extends DibsError {}

/** @type {Record<string, typeof DibsError>} */
const KINDS = {
  RESOURCE_LOCKED: ConflictError,
  LOCK_ACQUISITION_FAILED: ConflictError,
  POSSIBLE_DEADLOCK: DeadlockError,
  FEATURE_PAUSED: PausedError,
  SESSION_ENDED: SessionEndedError,
  LOCK_TIMEOUT: SessionEndedError,
  UNAVAILABLE: UnreachableError,
};

/**
 * The error for a refusal.
 * @param {number} status
 * @param {ErrorBody} body
 * @param {string | null} retryAfter
 */
export function refusal(status, body, retryAfter) {
  const seconds = Number(retryAfter ?? NaN);
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : undefined;
  const kind = KINDS[body.code] ?? DibsError;
  return new kind(body.error, { status, body, retryAfterMs });
}

/**
 * Whether the same request may succeed later.
 * @param {unknown} error
 */
export function isTemporary(error) {
  return (
    error instanceof ConflictError ||
    error instanceof PausedError ||
    error instanceof UnreachableError ||
    (error instanceof DibsError && error.code === "QUOTA_EXCEEDED")
  );
}

/**
 * Whether the server refused the request, and will refuse it again.
 * @param {unknown} error
 * @returns {error is DibsError}
 */
export function isRefusal(error) {
  return error instanceof DibsError && error.code !== undefined && !isTemporary(error);
}
