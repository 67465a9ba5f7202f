// A client for the git-dibs server. No dependencies; Node 20 or newer, and browsers.

export { DibsClient } from "./lib/client.js";
export {
  ConflictError,
  DeadlockError,
  DibsError,
  PausedError,
  SessionEndedError,
  UnreachableError,
} from "./lib/errors.js";
export { Reservation } from "./lib/reservation.js";
