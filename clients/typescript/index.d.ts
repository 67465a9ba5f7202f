// The public interface of the client. What it sends and receives is in api.d.ts, which is generated.

import type * as Api from "./api.js";

export type * from "./api.js";

export interface ClientOptions {
  /** The address of the server. Default: http://127.0.0.1:3427. */
  url?: string;
  /** The session's token, or a function that returns a current one. */
  token: string | (() => string | Promise<string>);
  /** The session to act for. Default: the one that the token belongs to. */
  session?: string;
  /** The repository, if the server has several and the token does not name one. */
  repo?: string;
  /** How long a call may take, beside the time that it waits in a queue. Default: 30,000. */
  timeoutMs?: number;
  /** Called with what the session should know: unlock requests, reservations that ended early, a pause. */
  onNotices?: (notices: Api.Notice[]) => void;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** How long the server may keep the call waiting. */
  waitMs?: number;
}

export interface ReserveOptions extends Omit<Api.Reserve, "filePath" | "filePaths" | "ttlSeconds" | "waitSeconds"> {
  /** How long the reservation lasts without renewal. */
  ttlSeconds?: number;
  /** How long to wait in the server's queue, at most 300. Aborting the signal leaves the queue. */
  waitSeconds?: number;
  /** Renew in the background until released. Default: true. */
  renew?: boolean;
  signal?: AbortSignal;
}

export interface RetryOptions extends Omit<ReserveOptions, "mode" | "waitSeconds"> {
  /** How often to try again where the server's queue cannot be used. Default: 5, or with `timeoutMs` until its end. */
  maxRetries?: number;
  /** How long to wait in all, also beyond `maxRetries` for a key that another session holds. Without it, the server's queue is not used. */
  timeoutMs?: number;
}

/** A client that acts for one session. */
export class DibsClient {
  constructor(options: ClientOptions);
  /** A client with what `git dibs run` passes to a command: DIBS_URL, DIBS_TOKEN, DIBS_SESSION, DIBS_REPO. */
  static fromEnv(options?: Partial<ClientOptions>): DibsClient;
  readonly session: string;
  /** Reserves keys, all of them or none, and renews them in the background until they are released. */
  reserve(paths: string | string[], options?: ReserveOptions): Promise<Reservation>;
  /**
   * Runs `work` while the keys are held, and releases them however it ends. The signal is aborted when the keys are lost,
   * or when `options.signal` is.
   */
  withReservation<T>(
    paths: string | string[],
    work: (held: Reservation, signal: AbortSignal) => T | Promise<T>,
    options?: ReserveOptions,
  ): Promise<T>;
  /**
   * Acquires one resource. With `timeoutMs` it waits in the server's queue; where that is not possible, it tries again
   * after 100, 200, 400, 800, 1000 ms, up to a quarter longer or shorter. A deadlock is not waited for.
   */
  acquireWithRetry(resource: string, mode?: Api.RequestMode, options?: RetryOptions): Promise<Reservation>;
  /** Releases keys. Releasing what the session does not hold is no error. */
  release(paths: string | string[]): Promise<Api.Released>;
  releaseAll(): Promise<Api.ReleasedAll>;
  /** Asks which reservations are in the way of the session. */
  check(paths: string | string[], options?: Omit<Api.Check, "paths" | "filePaths">): Promise<Api.CheckReply>;
  /** One page of what is held in the repository. */
  reservations(filter?: {
    prefix?: string;
    session?: string;
    limit?: number;
    cursor?: string;
  }): Promise<Api.ReservationList>;
  /** Tells that the session is alive, which renews everything it holds. */
  heartbeat(): Promise<Api.Heartbeat>;
  /** Ends the session, which releases everything it holds. */
  end(state?: Api.EndState): Promise<Api.Ended>;
  /** Asks the holder of a key to release it. */
  requestUnlock(path: string, reason: string): Promise<Api.UnlockRequestInfo>;
  unlockRequests(): Promise<Api.UnlockRequests>;
  /** Releases what another session asked for. */
  approve(request: string, how?: Api.Approve): Promise<Api.UnlockRequestInfo>;
  /** Keeps what another session asked for. */
  reject(request: string, how?: Api.Reject): Promise<Api.UnlockRequestInfo>;
  /** Takes the session's own request back. */
  withdraw(request: string): Promise<Api.UnlockRequestInfo>;
  /** The path of a call for the session. */
  own(rest: string): string;
  /** Makes one call. For calls that this class has no method for. */
  call(method: string, path: string, body?: object, options?: CallOptions): Promise<any>;
}

/** What a session holds. It is renewed in the background until it is released. */
export class Reservation {
  private constructor();
  /** One for each key, in the order of the request. */
  readonly reservations: Api.Reserved[];
  readonly paths: string[];
  /** The fencing number of the first key: grows with every grant in the repository. */
  readonly fence: number;
  /** The version of the first key: one more each time a holder releases it. */
  readonly version: number;
  /**
   * Aborted when the keys are lost: they expired, an admin took them away, or the session ended; also when their time has
   * passed since the last renewal that got through. Its reason is a SessionEndedError. With `renew: false` nothing watches.
   */
  readonly lost: AbortSignal;
  /** Renews now. Fails with SessionEndedError if a key has expired in the meantime. */
  renew(): Promise<void>;
  /** Releases the keys and stops renewing them. If it fails, it can be repeated; once they are released or lost, it does nothing. */
  release(): Promise<void>;
}

/** The server refused the call, or could not be reached. */
export class DibsError extends Error {
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;
  readonly code: Api.Code | undefined;
  readonly body: Api.ErrorBody | undefined;
  readonly retryAfterMs: number | undefined;
}

/** Another session holds a key: RESOURCE_LOCKED, or LOCK_ACQUISITION_FAILED after a wait. */
export class ConflictError extends DibsError {
  /** What is in the way, with holder, time and reason. */
  readonly conflicts: Api.Conflict[];
  readonly reservedBy: string | undefined;
}

/** Waiting would never end, because sessions wait for each other: POSSIBLE_DEADLOCK. */
export class DeadlockError extends ConflictError {
  readonly cycle: Api.CycleStep[];
}

/** The session's feature is paused: FEATURE_PAUSED. */
export class PausedError extends DibsError {}

/** The session has ended, or the reservation has expired: SESSION_ENDED, LOCK_TIMEOUT. */
export class SessionEndedError extends DibsError {}

/** No server answered, or it cannot answer now. */
export class UnreachableError extends DibsError {}
