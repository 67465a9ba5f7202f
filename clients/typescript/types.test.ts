// Checked by tsc, never run: the program has the interface that index.d.ts declares, and the interface is pleasant to use.

import type * as Declared from "./index.js";
import { DibsClient, ConflictError } from "./index.js";
import type { Conflict, Reserved } from "./index.js";
import { DibsClient as Actual } from "./lib/client.js";
import * as errors from "./lib/errors.js";

type Instance = Omit<Declared.DibsClient, "reserve" | "withReservation" | "acquireWithRetry">;
export const declared: Instance = new Actual({ token: "x" });
export const conflict: Declared.ConflictError = new errors.ConflictError("x");
export const deadlock: Declared.DeadlockError = new errors.DeadlockError("x");

export async function use(client: DibsClient, signal: AbortSignal): Promise<number> {
  const answer: number = await client.withReservation(["src/a.rs"], async (held) => held.fence, { signal, mode: "shared" });
  const lock = await client.acquireWithRetry("deploy://api-prod", "collaborative", { maxRetries: 3, timeoutMs: 5000 });
  const first: Reserved = lock.reservations[0];
  try {
    await client.reserve("src/b.rs", { ttlSeconds: 60, reason: first.filePath });
  } catch (error) {
    if (error instanceof ConflictError) {
      const conflicts: Conflict[] = error.conflicts;
      return conflicts.length;
    }
  }
  // @ts-expect-error the mode is one of three words
  await client.acquireWithRetry("x", "mine");
  return answer;
}
