// The bodies of requests and responses. Written by clients/generate from fixtures/openapi.json: do not edit.

/** `POST …/ports`. */
export type AllocatePorts = {
  /** How many. Default: what the server is configured for, usually 4. */
  count?: number | null;
  /** How long they are allocated without another call. The same bounds and default as for logical names. */
  ttlSeconds?: number | null;
  /** What they are for; other sessions see it. */
  purpose?: string | null;
};

/** `POST …/pushes`. */
export type AnnouncePush = {
  /** What the session is about to push. */
  updates: RefUpdate[];
};

/** `POST …/unlock-requests/{reqId}/approve`. */
export type Approve = {
  /** Pass the reservation directly to the session that asked. */
  handOver?: boolean | null;
};

/** A session in the way. */
export type Blocker = {
  sessionId: string;
  /** Its display name. */
  sessionName: string | null;
  /** The key that it holds or waits for; null for a pause. */
  key: string | null;
};

/** How a session blocks a request. */
export type BlockerKind = "holder" | "waiter";

/** `POST …/files/check-conflicts` and `POST /api/check-conflicts`. */
export type Check = {
  /** The paths to check. */
  paths?: Key[] | null;
  /** Another name of `paths`. */
  filePaths?: Key[] | null;
  /** The mode in which they would be held. Default: exclusive. */
  mode?: RequestMode | null;
  /** What the caller is about to do. With it, `mode` is ignored; without it, the check is for a reservation in `mode`. */
  intent?: "change" | "look" | null;
  /** For how many seconds they would be reserved. With it, or with `whileSession`, a check is refused for the same policy and the same limits as the reservation would be. */
  ttlSeconds?: number | null;
  /** They would be reserved while the session gives signs of life. */
  whileSession?: boolean | null;
  /** With `whileSession`: how long they would last after the last sign of life. */
  idleSeconds?: number | null;
  /** The new content of each path, as the object id of its blob, in the order of the paths; all zeros for a deletion. A path may be listed several times with different contents. Has an effect only with `intent` `change`: content that every holder in the way has committed itself is no conflict. */
  blobs?: ObjectId[] | null;
  /** The calling session is about to commit `blobs`: remember them for the paths that it holds. Has an effect only with `blobs`, with `intent` `change`, and for a session's own call. */
  record?: boolean | null;
  /** How the file names are written, if not as plain text. */
  encoding?: Encoding | null;
};

/** The answer to a check. */
export type CheckReply = {
  /** What other sessions hold, in the order of the request: every path in conflict, with at most 3 holders each. In a long list, reasons and keys are shortened. */
  conflicts: Conflict[];
  /** The other paths of the request, as it wrote them. */
  clear: string[];
  /** Those of `clear` that the calling session holds. */
  held: string[];
  /** Those of `clear` that other sessions hold and that they committed with the same content themselves. */
  carried?: string[];
  /** The pause on the calling session's feature. */
  paused?: Paused | null;
  /** The server's clock when it checked. A client computes the time left until an `expiresAt` from this, because its own clock may differ. */
  serverTime?: Time | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `POST /api/pushes/claim`. */
export type ClaimPush = {
  /** What has been pushed. */
  updates: RefUpdate[];
  /** Check this for the session that announced the push, or for a caller without a session if none did. */
  check?: Check | null;
};

/** Who announced the push. */
export type ClaimReply = {
  /** The session that announced all of the updates; absent if none did. */
  sessionId?: string | null;
  /** The display name of that session. */
  name?: string | null;
  /** The feature that the session works on. */
  feature?: string | null;
  /** The answer to `check`. */
  check?: CheckReply | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** What a node of a cluster does now. Addresses and repositories are not named, because the call needs no token. */
export type ClusterHealth = {
  /** `leader` if the node leads a repository, else `follower`. */
  role: string;
  /** How many repositories it leads. */
  leads: number;
  /** How many repositories the cluster has. */
  repositories: number;
  /** How many of them no node leads now. */
  withoutLeader: number;
  /** What the operator should know. */
  notes: string[];
};

/** The kind of an error. Codes are added, never renamed. */
export type Code = "INVALID_REQUEST" | "INVALID_PATH" | "INVALID_KEY" | "TTL_OUT_OF_RANGE" | "UNAUTHENTICATED" | "FORBIDDEN" | "LOCK_NOT_HELD" | "OPERATION_NOT_PERMITTED" | "NOT_FOUND" | "METHOD_NOT_ALLOWED" | "PAYLOAD_TOO_LARGE" | "URI_TOO_LONG" | "HEADERS_TOO_LARGE" | "UNSUPPORTED_MEDIA_TYPE" | "RESOURCE_LOCKED" | "LOCK_ACQUISITION_FAILED" | "POSSIBLE_DEADLOCK" | "VERSION_MISMATCH" | "SESSION_ENDED" | "LOCK_TIMEOUT" | "FEATURE_PAUSED" | "QUOTA_EXCEEDED" | "UNAVAILABLE";

/** One reservation, or one queued request, in the way of one key. */
export type Conflict = {
  /** The key as the request wrote it. */
  filePath: string;
  /** The key, as the holder wrote it. */
  key: string;
  /** The holder. */
  reservedBy: string;
  /** The display name of the holder. */
  reservedByName: string | null;
  mode: Mode;
  /** What the holder reserved it for. */
  reason: string | null;
  /** When it expires unless it is renewed. */
  expiresAt: Time;
  /** The holder and the start of the reservation, as older clients read them. */
  heldBy: HeldBy;
  /** A path that both keys match, if one of them is a pattern. */
  example?: string | null;
  /** The other session does not hold the key: it is ahead in the queue. */
  waiting?: boolean;
  /** How many requests wait for the key. */
  queueLength?: number | null;
  /** Set when `filePath`, `key` and `example` are percent-encoded. */
  encoding?: Encoding | null;
  /** How many more reservations are in the way of `filePath`. At most 3 are listed for each key of the request; this is in the last one. */
  moreHolders?: number | null;
};

/** A session that competes for a key. */
export type Contender = {
  sessionId: string;
  /** Its display name. */
  sessionName: string | null;
};

/** `POST /api/sessions`. */
export type CreateSession = {
  /** Required if the token is for several repositories. */
  repo?: string | null;
  /** Default: an id that the server chooses. */
  sessionId?: string | null;
  /** The display name of the session. */
  name?: string | null;
  /** The feature that the session works on. */
  feature?: string | null;
  /** How long the token is valid. Default: one day. */
  ttlSeconds?: number | null;
  /** The address that the token names as its server: `http://`, `https://` or `unix:`. The commands and hooks of git-dibs send a token only to its server. Default: the address that the server is configured with. */
  url?: string | null;
};

/** The answer of `GET /api/login`. */
export type CurrentLogin = {
  /** Null if the browser is not signed in. That is no error: a page asks this first. */
  login: Login | null;
};

/** One step of a cycle: this session waits for the next one. */
export type CycleStep = {
  session: string;
  /** The key that it holds and the session before it wants. */
  holds: string;
  /** The key that it wants and the next session holds. */
  wants: string;
};

/** The body of a call that takes no fields. Any JSON object will do. */
export type EmptyBody = Record<string, never>;

/** How a file name that is not UTF-8 is written. */
export type Encoding = "percent";

/** `POST /api/sessions/{id}/end`. */
export type EndSession = {
  /** Default: completed. */
  state?: EndState | null;
};

/** How a client may end a session. */
export type EndState = "completed" | "failed" | "stopped";

/** The answer to `POST /api/sessions/{id}/end`. A repeated call gets the first answer again. */
export type Ended = {
  state: SessionState;
  /** How many reservations were released. */
  releasedCount: number;
  /** Their keys, at most 10,000 of them. */
  releasedPaths: string[];
};

/** An entity: its lock and its requests. */
export type Entity = {
  /** Null while it is free. */
  lock: EntityLock | null;
  /** The oldest first; at most the newest 100. Reasons of older ones are shortened. */
  requests: EntityRequest[];
  /** In the reply to a new request: that one. */
  request?: EntityRequest | null;
  /** In the reply to an answer: whether it released the lock. */
  releaseLock?: boolean | null;
  /** In the reply to an unlock: `LOCK_TIMEOUT` if the lock of this session had expired before. */
  code?: Code | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `POST …/unlock`, and an answer to a request. */
export type EntityAgent = {
  /** The session that acts. Default: that of the token. */
  agentId?: string | null;
};

/** The lock of an entity. */
export type EntityLock = {
  /** The holder. */
  lockedBy: string;
  /** The display name of the holder. */
  lockedByName: string | null;
  lockedAt: Time;
  /** What the holder locked it for. */
  reason: string | null;
  /** When it ends unless the holder calls. */
  expiresAt: Time;
  /** How long it lasts without another call; without `ttlSeconds` in the request, without a sign of life of its session. */
  ttlSeconds: number;
  /** One more each time the entity is unlocked. */
  version: number;
  reservationId: string;
  /** The fencing number: grows with every grant in the repository and is never reused. */
  fence: number;
};

/** A request to unlock an entity. */
export type EntityRequest = {
  /** A UUID. */
  id: string;
  requestedBy: string;
  requestedByName: string | null;
  reason: string;
  requestedAt: Time;
  status: UnlockStatus;
  respondedAt: Time | null;
  respondedBy: string | null;
};

/** The body of every error: a sentence, a code, and the facts that belong to the code. */
export type ErrorBody = {
  /** A sentence for people. */
  error: string;
  /** The kind of the error, for programs. */
  code: Code;
  /** The session in the way: the holder of the first of `conflicts`, or the session that paused the feature. */
  reservedBy?: string | null;
  /** The display name of that session. */
  reservedByName?: string | null;
  /** Its reason. */
  reason?: string | null;
  /** When the first of `conflicts` expires. */
  expiresAt?: Time | null;
  /** What is in the way: every key in conflict, with at most 3 holders each. */
  conflicts?: Conflict[] | null;
  /** Always empty: a request for several keys is granted completely or not at all. */
  reserved?: string[] | null;
  /** The cycle that waiting would close. */
  cycle?: CycleStep[] | null;
  /** The smallest allowed value. */
  min?: number | null;
  /** The largest allowed value. */
  max?: number | null;
  /** The field or key that is wrong. */
  field?: string | null;
  /** The current version of the key. */
  version?: number | null;
  /** Of a wait that ended without a grant: the ids that the reservations would have had, one for each key. Their history can be asked. */
  reservationIds?: string[] | null;
  /** Of `LOCK_NOT_HELD`: the key, if this session held it until it expired. */
  expired?: string[] | null;
};

/** One event: a record as every session of the repository may see it. */
export type Event = EventKind & {
  /** The number of the record. In the event stream it is also the event's `id`. */
  seq: number;
  /** When the record was written. */
  at: Time;
  /** The display name of the session that acted, in the history, where it is known. */
  sessionName?: string | null;
};

/** What happened. New kinds, and new fields of a kind, may be added. */
export type EventKind = {
  sessionId: string;
  /** The display name of the session. */
  name: string | null;
  /** The feature the session works on. */
  feature: string | null;
  event: "opened";
} | {
  sessionId: string;
  event: "bound";
} | {
  sessionId: string;
  /** The display name of the session. */
  name: string | null;
  /** The feature the session works on. */
  feature: string | null;
  event: "reopened";
} | {
  sessionId: string;
  state: SessionState;
  event: "ended";
} | {
  sessionId: string;
  event: "releasedAll";
} | {
  reservationId: string;
  /** The key, as the holder wrote it. */
  filePath: string;
  /** The holder. */
  sessionId: string;
  mode: Mode;
  /** What the holder reserved it for. */
  reason: string | null;
  reservedAt: Time;
  /** When it expires unless it is renewed. A renewal is not an event. */
  expiresAt: Time;
  /** How long the reservation, and each renewal, lasts. */
  ttlSeconds: number;
  /** It lasts while the session gives signs of life, and `ttlSeconds` without one. */
  whileSession?: boolean;
  /** The fencing number of the reservation, the same as `seq`. */
  fence: number;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
  event: "reserved";
} | {
  reservationId: string;
  /** The key, as the holder wrote it. */
  filePath: string;
  /** The holder. */
  sessionId: string;
  /** The new mode. */
  mode: Mode;
  /** The new reason. */
  reason: string | null;
  /** How long each renewal lasts from now on. */
  ttlSeconds: number;
  /** From now on it lasts while the session gives signs of life, and `ttlSeconds` without one. */
  whileSession?: boolean;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
  event: "amended";
} | {
  reservationId: string;
  /** The key, as the holder wrote it. */
  filePath: string;
  /** The former holder. */
  sessionId: string;
  /** Why it ended: `released`, `expired`, `ended` (with its session), `overridden`, `approved` (an unlock request) or `unheard` (the grant could not be delivered to the client). */
  why: string;
  /** The admin who overrode it. */
  by?: string | null;
  /** The admin's reason. */
  reason?: string | null;
  /** The unlock request that was approved. */
  requestId?: string | null;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
  event: "released";
} | {
  /** The session that waits. */
  sessionId: string;
  /** The keys it waits for. It gets all of them at once. A long list is shortened. */
  filePaths: string[];
  /** The ids that their reservations will have. A request that is refused in the end has a history under them too. */
  reservationIds?: string[];
  /** How many more keys it waits for. */
  moreFilePaths?: number | null;
  mode: Mode;
  /** What they are wanted for. */
  reason: string | null;
  /** Set when at least one of `filePaths` is percent-encoded. */
  encoding?: Encoding | null;
  event: "queued";
} | {
  /** The session that waited. */
  sessionId: string;
  /** The `seq` of the `queued` event. */
  waiter: number;
  event: "seated";
} | {
  /** The session that waited. */
  sessionId: string;
  /** The `seq` of the `queued` event, which has the ids of the reservations. */
  waiter: number;
  /** Why: `timedOut`, `gone` (the client disconnected), `stopped` (the server), `ended` (the session), `version`, `paused` or `deadlock`. */
  why: string;
  event: "left";
} | {
  /** Refused because another session holds a key or is ahead in the queue. */
  conflictsDetected: number;
  /** Refused because waiting would have closed a cycle. */
  deadlocksRefused: number;
  event: "counted";
} | {
  requestId: string;
  reservationId: string;
  /** The key of the reservation. */
  filePath: string;
  /** The session that asks. */
  requestedBy: string;
  reason: string;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
  event: "unlockRequested";
} | {
  requestId: string;
  status: UnlockStatus;
  /** The session that answered, or the name of the admin who did; null if the reservation ended first. */
  respondedBy: string | null;
  /** An admin answered in the place of the session. */
  byAdmin?: boolean;
  /** What it added to its answer. */
  note?: string | null;
  /** The session that asked got the reservation with the answer. */
  handedOver?: boolean;
  event: "unlockAnswered";
} | {
  sessionId: string;
  /** How many contents are new. A path may have several. */
  pathCount: number;
  event: "committed";
} | {
  /** How often that has happened. The numbers of events from here on are at least `generation` × 2^40. */
  generation: number;
  /** The last event that is still in force. */
  lastKept: number;
  event: "restored";
};

/** A session whose reservations expire. */
export type ExpiringSession = {
  sessionId: string;
  /** Its display name. */
  sessionName: string | null;
  /** How many of its reservations expired. */
  expired: number;
};

/** `GET /healthz` and `GET /readyz`. */
export type Health = {
  /** `ok` or `ready`. */
  status: string;
  /** The version of the server. */
  version: string;
  /** The clock of the server, so that a client can compare its own. */
  now?: Time | null;
  /** The ledger that is furthest behind, if there is one. It is not named, because the call needs no token. */
  ledger?: LedgerHealth | null;
  /** The part of this node in its cluster, if it has one. */
  cluster?: ClusterHealth | null;
};

/** The answer to `POST /api/sessions/{id}/heartbeat`. */
export type Heartbeat = {
  /** How many reservations were renewed for another full TTL. */
  renewedCount: number;
  /** When the first of them expires, or the session itself if it holds nothing. */
  expiresAt: Time;
  /** What the session should know. Always present, because most sessions learn it from a heartbeat. */
  notices: Notice[];
};

/** `GET /api/held`. */
export type Held = {
  /** The session holds something. */
  own: boolean;
  /** Another session holds something. */
  others: boolean;
  /** The session's feature is paused. */
  paused: boolean;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** The holder and the start of its reservation. */
export type HeldBy = {
  /** The holder. */
  sessionId: string;
  reservedAt: Time;
};

/** One page of the history, the latest event first. */
export type HistoryReply = {
  /** A page may be short or empty and still not be the last one: continue while there is a `nextCursor`. */
  events: Event[];
  /** Send it as `cursor` to get the next page. */
  nextCursor?: string | null;
  /** Events that would belong on this page but are no longer stored anywhere. */
  missing?: MissingEvents[];
  /** What the calling session should know. */
  notices?: Notice[];
};

/** A directory that sessions compete in. */
export type HotDirectory = {
  /** Without a slash at its end; `.` is the top of the repository. */
  directory: string;
  /** Requests that found one of its files not free. */
  conflicts: number;
};

/** A key that sessions compete for. */
export type HotPath = {
  key: string;
  /** Requests that found it not free. Each counts once, whether it was refused or waited. */
  conflicts: number;
  /** Those of them that waited. */
  waits: number;
  /** How long they waited on average. */
  averageWaitSeconds: number;
  /** The conflicts of each step of the window since its beginning. The last step is the current one. */
  byStep: number[];
  /** The latest sessions that asked for it or blocked it, at most 6, those with the most conflicts first. */
  between: Contender[];
};

/** How far `GET /api/hotspots` looks back. */
export type HotspotWindow = "hour" | "day" | "week";

/** `GET /api/hotspots`. */
export type Hotspots = {
  window: HotspotWindow;
  /** The beginning of the window: at most one step earlier or later than the window says. */
  since: Time;
  /** The length of a step of `byStep`: ten minutes, an hour, or a day. */
  stepSeconds: number;
  /** The keys that were not free most often, the most first. A key that is asked for by many names counts under each. */
  paths: HotPath[];
  /** The same by directory: each conflict counts for the directory that the path is in. */
  directories: HotDirectory[];
  /** Sessions whose reservations expired without a release, the most first. */
  sessions: ExpiringSession[];
  /** Requests for a key that was not free, counted once for each such key. */
  totalConflicts: number;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** What can be reserved, as one string. Paths are relative to the top of the repository and separated by `/`; `./`, `//` and inner `.` are removed; a path that git itself would refuse is refused. - `src/api/users.py`: one path - `src/api/`: everything under a directory, the same as `src/api/**` - `src/**\/*.rs`, `src/[ab].rs`, `src/{a,b}.rs`: a pattern; `*` and `?` do not cross `/`, `**` does; it also covers the file that is named like the pattern itself - `file:src/[id].ts`: one path, taken literally - `api:GET /v1/users`, `db:migration-slot`, `event:user.created`, `flag:billing/*`, `env:shared-fixtures`, `contract:openapi/v1.yaml`, `feature:FEAT-123:pause`: logical names - `github://acme/app/issues/42`, `deploy://api-prod`: resource URIs Two keys conflict when different sessions hold them, at least one of them exclusively, and some name could match both. */
export type Key = string;

/** How far a ledger is behind the journal. Grants do not wait for the ledger. */
export type LedgerHealth = {
  /** Whether it can be written and is undamaged. If not, the log of the server says more. */
  ok: boolean;
  /** What is wrong with it. */
  problem?: LedgerProblem | null;
  /** Records that are not in the ledger yet. */
  recordsBehind: number;
  /** For how long there have been such records, in seconds. */
  secondsBehind: number;
};

/** What is wrong with a ledger. */
export type LedgerProblem = "full" | "damaged" | "unwritable";

/** `POST /api/entities/{kind}/{id}/lock`. */
export type LockEntity = {
  /** The session that locks. Default: that of the token. */
  agentId?: string | null;
  /** Its display name, if the token has none and the session is new. */
  agentName?: string | null;
  /** What for; other sessions see it. */
  reason?: string | null;
  /** How long the lock lasts without another call. Default: while the session gives signs of life. */
  ttlSeconds?: number | null;
};

/** The states of a reservation. */
export type LockState = "Waiting" | "Acquired" | "Released" | "Expired" | "Failed";

/** Who is signed in: the claims of the token, without the token. */
export type Login = {
  /** What the token permits: `session`, `worker`, `read` or `admin`. */
  scope: string;
  /** `sub` of the token. */
  subject: string;
  /** The session that the caller acts for. */
  sessionId: string | null;
  /** The display name. */
  name: string | null;
  /** The repositories that the caller may look at. A call for one of several names it with `?repo=`. */
  repositories: string[];
  /** When the login, or the token, is not valid any more. */
  expiresAt: Time;
  /** Whether this request could have changed something, as far as its token permits it. */
  mayChange: boolean;
  /** The version of the server. */
  version: string;
};

/** The answer of `POST /api/login/codes`. `Debug` does not show the code. */
export type LoginCode = {
  /** It works once. A page gets it in the fragment of its URL, which browsers do not send to servers: `/#code=<code>`. */
  code: string;
  expiresAt: Time;
};

/** A range of events that are no longer stored anywhere, by their `seq`; both ends are included. */
export type MissingEvents = {
  first: number;
  last: number;
};

/** Whether other sessions may hold the key at the same time. */
export type Mode = "exclusive" | "shared" | "collaborative";

/** One notice; `kind` says which. */
export type Notice = {
  requestId: string;
  reservationId: string;
  /** The key of the reservation. */
  filePath: string;
  /** The session that asks. */
  requestedBy: string;
  /** The display name of that session. */
  requestedByName: string | null;
  reason: string;
  requestedAt: Time;
  kind: "unlockRequested";
} | {
  requestId: string;
  /** The key that the request was about. */
  filePath: string;
  status: UnlockStatus;
  /** The session that answered; null if the reservation ended first. */
  respondedBy: string | null;
  /** What it added to its answer. */
  note?: string | null;
  kind: "unlockAnswered";
} | {
  reservationId: string;
  /** The key of the reservation. */
  filePath: string;
  /** Why it ended: `expired`, `overridden`, `approved`. */
  why: string;
  /** The admin who overrode it. */
  by?: string | null;
  /** The admin's reason. */
  reason?: string | null;
  /** When it ended. */
  at: Time;
  kind: "released";
} | {
  /** How many. */
  expiredCount: number;
  /** The newest of their keys, at most 20. */
  expiredPaths: string[];
  kind: "expired";
} | {
  /** When it was lost. */
  lostAt: Time;
  /** How many of its reservations had expired or were released by then. */
  releasedCount: number;
  /** The newest of their keys, at most 20. */
  releasedPaths: string[];
  kind: "lost";
} | {
  feature: string;
  /** The session that paused it. */
  reservedBy: string;
  /** The display name of that session. */
  reservedByName: string | null;
  reason: string | null;
  /** When the pause expires unless it is renewed. */
  expiresAt: Time;
  kind: "paused";
} | {
  /** How many more notices there are that are sent once. The next answers have them. */
  notices: number;
  /** How many more unlock requests wait for an answer of this session. `GET …/unlock-requests` lists them all. */
  unlockRequests: number;
  kind: "more";
};

/** The data of the event `notices`: what the session that follows the stream should know. */
export type Notices = {
  notices: Notice[];
};

/** The id of an object in git, in hexadecimal. All zeros stand for no object. */
export type ObjectId = string;

/** `DELETE /api/reservations/{reservationId}`. */
export type Override = {
  /** The holder gets it in a notice, and the history keeps it. */
  reason: string;
};

/** A pause on a feature. */
export type Paused = {
  feature: string;
  /** The session that paused it. */
  reservedBy: string;
  /** The display name of that session. */
  reservedByName: string | null;
  reason: string | null;
  /** When it expires unless it is renewed. */
  expiresAt: Time;
};

/** The ports of a session. */
export type Ports = {
  /** In order. */
  ports: number[];
  /** When the first of them expires unless the session asks again; null if it has none. */
  expiresAt: Time | null;
  /** How long they last without another call; null if there are none. */
  ttlSeconds: number | null;
  /** The sum of their versions: how often these ports were freed before. */
  version: number;
  /** The same for an environment: a variable for each port, and a name for a compose project. */
  env: Record<string, never>;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** The push is announced. */
export type PushAnnounced = {
  /** Until then the announcement can be claimed, once. */
  expiresAt: Time;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** One update of a ref by a push. */
export type RefUpdate = {
  /** The full name of the ref in the repository that is pushed to. Both sides must write it the same way. */
  ref: string;
  /** The object before the push; all zeros where the push creates the ref. */
  old: ObjectId;
  /** The object after the push; all zeros where the push deletes the ref. */
  new: ObjectId;
};

/** `GET /api/refusals`. */
export type Refusals = {
  /** Of the last hour, the newest first. */
  refusals: RefusedRequest[];
  /** How many refused requests of the last hour are not listed, because there were too many. */
  dropped: number;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** A request that was refused because of other sessions. */
export type RefusedRequest = {
  /** The last time that the session tried it. */
  at: Time;
  /** The first time. */
  firstAt: Time;
  /** How often the same request was refused: of the same session, for the same keys. */
  count: number;
  /** The session that asked. */
  sessionId: string;
  /** Its display name. */
  sessionName: string | null;
  /** `RESOURCE_LOCKED`, `LOCK_ACQUISITION_FAILED`, `POSSIBLE_DEADLOCK` or `FEATURE_PAUSED`. */
  code: Code;
  /** The first of the keys that were not free. */
  keys: string[];
  /** The first of the sessions in the way. */
  blockers: Blocker[];
  /** The sessions that would have waited for each other. */
  cycle?: CycleStep[];
};

/** `POST …/unlock-requests/{reqId}/reject`. */
export type Reject = {
  /** A message to the session that asked. */
  note?: string | null;
};

/** `POST …/files/release`. */
export type Release = {
  /** One key. */
  filePath?: Key | null;
  /** Several keys. */
  filePaths?: Key[] | null;
  /** How the file names are written, if not as plain text. */
  encoding?: Encoding | null;
};

/** The answer to a release. */
export type Released = {
  /** Always true; releasing a key that is not held is no error. */
  ok: boolean;
  /** Whether at least one of the keys was held. */
  released: boolean;
  /** How many reservations ended. */
  releasedCount: number;
  /** `LOCK_TIMEOUT` if the session held some of the keys until they expired. That is no failure. */
  code?: Code | null;
  /** Those keys. */
  expired?: string[];
  /** What the calling session should know. */
  notices?: Notice[];
};

/** The answer to `POST …/files/release-all`. */
export type ReleasedAll = {
  /** How many reservations ended. */
  releasedCount: number;
  /** Their keys, at most 10,000 of them. */
  releasedPaths: string[];
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `POST …/files/renew`. */
export type Renew = {
  /** One key. */
  filePath?: Key | null;
  /** Several keys. */
  filePaths?: Key[] | null;
  /** The new TTL. Default: the same as before. */
  ttlSeconds?: number | null;
  /** How the file names are written, if not as plain text. */
  encoding?: Encoding | null;
};

/** The answer to a renewal. Its form depends on the request. */
export type RenewReply = Renewed | RenewedMany;

/** One renewed reservation. */
export type Renewed = {
  reservationId: string;
  /** The key, as the holder wrote it. */
  filePath: string;
  /** The holder. */
  sessionId: string;
  /** When it expires unless it is renewed again. */
  expiresAt: Time;
  /** How long it lasts without a renewal; with `whileSession`, without a sign of life of the session. */
  ttlSeconds: number;
  /** It lasts while the session gives signs of life: every call of the session moves `expiresAt`. */
  whileSession?: boolean;
  /** The same number as when it was granted. */
  fence: number;
  /** The version of the key: one more each time a holder releases it. */
  version: number;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** Several renewed reservations. */
export type RenewedMany = {
  /** The earliest expiry. */
  expiresAt: Time;
  /** In the order of the request. */
  reservations: Renewed[];
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `POST …/unlock-requests` of an entity. */
export type RequestEntity = {
  /** The session that asks. Default: that of the token. */
  requestedBy?: string | null;
  /** Its display name, if the token has none and the session is new. */
  requestedByName?: string | null;
  /** The holder sees it. */
  reason: string;
};

/** The mode in a request. Requests may use one more word for `shared` than answers. */
export type RequestMode = "exclusive" | "shared" | "collaborative";

/** One reservation in a list. */
export type Reservation = {
  reservationId: string;
  /** The key, as the holder wrote it. */
  filePath: string;
  /** The holder. */
  sessionId: string;
  /** The display name of the holder. */
  sessionName: string | null;
  mode: Mode;
  /** What the holder reserved it for. */
  reason: string | null;
  reservedAt: Time;
  /** When it expires unless it is renewed. */
  expiresAt: Time;
  /** How long it lasts without a renewal; with `whileSession`, without a sign of life of the session. */
  ttlSeconds: number;
  /** It lasts while the session gives signs of life: every call of the session moves `expiresAt`. */
  whileSession?: boolean;
  /** The fencing number: grows with every grant in the repository and is never reused. */
  fence: number;
  /** The version of the key: one more each time a holder releases it. */
  version: number;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
};

/** `GET /api/reservations/{reservationId}/history`. */
export type ReservationHistory = {
  reservationId: string;
  /** The key, as the holder wrote it. */
  filePath: string;
  /** The session that held it or waited for it. */
  sessionId: string;
  /** The oldest first. */
  states: StateChange[];
  /** Earlier states may be missing, because the records are no longer stored or there are too many to search. */
  isIncomplete?: boolean;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `GET /api/reservations` and `GET /api/sessions/{id}/reserved-files`. */
export type ReservationList = {
  reservations: Reservation[];
  /** Send it as `cursor` to get the next page. */
  nextCursor?: string | null;
  /** In `GET /api/reservations`, the number of the last record that this page includes. To keep a list up to date, follow the events after the `seq` of the first page, and identify each reservation by its id. */
  seq?: number | null;
  /** In `GET /api/reservations`, the clock that the times are from. */
  serverTime?: Time | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `POST …/files/reserve`. */
export type Reserve = {
  /** One key. */
  filePath?: Key | null;
  /** Several keys; all of them are reserved, or none. */
  filePaths?: Key[] | null;
  /** How long the reservation lasts without renewal. Unless the server is configured otherwise: 1 to 300 seconds for files, default 60; 1 to 28,800 seconds for logical names and resource URIs, default 1,800. */
  ttlSeconds?: number | null;
  /** Hold it while the session gives signs of life, instead of for `ttlSeconds`. Every authenticated call of the session is one. The session itself ends after its own timeout, whatever it holds so. */
  whileSession?: boolean | null;
  /** With `whileSession`: how long it lasts after the last sign of life. Default: the session timeout of the server. */
  idleSeconds?: number | null;
  /** Default: exclusive. */
  mode?: RequestMode | null;
  /** What the keys are reserved for; other sessions see it. */
  reason?: string | null;
  /** How long to wait in the queue if a key is not free. Default: 0. */
  waitSeconds?: number | null;
  /** Reserve only if this is the version of every key. */
  ifVersion?: number | null;
  /** How the file names are written, if not as plain text. */
  encoding?: Encoding | null;
};

/** The answer to a reserve. Its form depends on the request. */
export type ReserveReply = Reserved | ReservedMany;

/** One new reservation, or one that the session already held and renewed. */
export type Reserved = {
  reservationId: string;
  /** The key, as the holder wrote it. */
  filePath: string;
  /** The holder. */
  sessionId: string;
  mode: Mode;
  /** What the holder reserved it for. */
  reason: string | null;
  reservedAt: Time;
  /** When it expires unless it is renewed. */
  expiresAt: Time;
  /** How long it lasts without a renewal; with `whileSession`, without a sign of life of the session. */
  ttlSeconds: number;
  /** It lasts while the session gives signs of life: every call of the session moves `expiresAt`. */
  whileSession?: boolean;
  /** The fencing number: grows with every grant in the repository and is never reused. */
  fence: number;
  /** The version of the key: one more each time a holder releases it. */
  version: number;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** Several keys were reserved, all at once. */
export type ReservedMany = {
  /** In the order of the request. */
  reservations: Reserved[];
  /** Only the keys. */
  reserved: string[];
  /** Always empty; with conflicts the answer is an error. */
  conflicts: Conflict[];
  /** What the calling session should know. */
  notices?: Notice[];
};

/** The data of the event `reset`: the stream cannot continue where the reader was. To learn what is held now, the reader asks at `reload`, and then follows the events after the `seq` of that answer. */
export type Reset = {
  /** `tooOld`: the journal no longer has that record. `unknown`: there never was such a record. `restored`: an earlier copy of the journal was restored since, and that record may be undone. */
  why: string;
  /** The path that lists what is held now. */
  reload: string;
  /** The stream continues after this record. */
  after: number;
};

/** A session that blocks others and waits for no session. */
export type RootBlocker = {
  sessionId: string;
  /** Its display name. */
  sessionName: string | null;
  /** How many sessions it blocks, directly and through others. */
  blocks: number;
  /** Since when the first of them has been waiting. */
  longestWaitSince: Time;
};

/** A new session and its token. */
export type SessionCreated = {
  sessionId: string;
  /** Not part of the `Debug` output. */
  token: string;
  /** When the token expires. */
  expiresAt: Time;
};

/** One session, as every session of the repository may see it. */
export type SessionInfo = {
  sessionId: string;
  state: SessionState;
  /** The display name of the session. */
  name: string | null;
  /** The feature that the session works on. */
  feature: string | null;
  /** The time of its first call. */
  startedAt: Time;
  /** The time of its latest call. */
  lastSeenAt: Time;
  endedAt?: Time | null;
  /** How many reservations it holds. */
  heldCount: number;
  /** The keys that it waits for in the queue, at most 100 of them. */
  waitingFor: string[];
  /** How many more keys it waits for. */
  moreWaitingFor?: number | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `GET /api/sessions`. */
export type SessionList = {
  sessions: SessionInfo[];
  /** Send it as `cursor` to get the next page. */
  nextCursor?: string | null;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** The state of a session. */
export type SessionState = "active" | "completed" | "failed" | "stopped" | "lost";

/** `POST /api/login`: a code, or a token. `Debug` shows neither. */
export type SignIn = {
  /** A code that `POST /api/login/codes` made. */
  code?: string | null;
  /** A token that a person pasted. */
  token?: string | null;
  /** Of a code: sign in although the browser is signed in as someone else. Without it, such a code is refused and stays valid, so that a link of another person does not replace a login unseen. */
  replace?: boolean | null;
};

/** The answer of `POST /api/login`. `Debug` does not show the secret. */
export type SignedIn = Login & {
  /** The page sends it as `X-Dibs-Change` with every call that changes something; null if the login may only read. */
  changeSecret?: string | null;
};

/** A state of a reservation, and when it began. */
export type StateChange = {
  state: LockState;
  at: Time;
  /** The number of the record. */
  seq: number;
  /** How it ended, where that is more than the state says: as in the events `released` and `left`. */
  why?: string | null;
};

/** `GET /api/stats`. */
export type Stats = {
  /** Reservations granted since the journal began. */
  totalLocks: number;
  /** Reservations held now. */
  activeLocks: number;
  /** Reservations that expired. */
  expiredLocks: number;
  /** Requests refused because another session held a key or was ahead in the queue, also those that would have waited forever, and waits that timed out. Recorded every 10 seconds and when the server stops: one that is killed loses the last of them. */
  conflictsDetected: number;
  /** The average duration of the reservations that have ended, in seconds. */
  averageHoldTime: number;
  /** Requests in the queue now. */
  waiters: number;
  /** Active sessions now. */
  sessions: number;
  /** What the calling session should know. */
  notices?: Notice[];
};

/** RFC 3339, UTC, milliseconds, ending in `Z`. */
export type Time = string;

/** `POST /api/sessions/{id}/unlock-requests`. */
export type UnlockRequest = {
  /** The key that the holder should release. */
  filePath: Key;
  /** The holder sees it. */
  reason: string;
  /** How `filePath` is written, if not as plain text. */
  encoding?: Encoding | null;
};

/** One unlock request, as both sessions see it. */
export type UnlockRequestInfo = {
  /** A UUID. */
  id: string;
  /** The reservation that the holder should release. */
  reservationId: string;
  /** The key of the reservation, as the holder wrote it. */
  filePath: string;
  /** The holder. */
  reservedBy?: string | null;
  /** The display name of the holder. */
  reservedByName?: string | null;
  /** The session that asks. */
  requestedBy: string;
  /** The display name of that session. */
  requestedByName: string | null;
  reason: string;
  requestedAt: Time;
  status: UnlockStatus;
  respondedAt: Time | null;
  /** The session, or the admin, that answered. */
  respondedBy: string | null;
  /** What was added to the answer. */
  note?: string | null;
  /** The session that asked got the reservation with the answer. */
  handedOver?: boolean;
  /** Set when `filePath` is percent-encoded. */
  encoding?: Encoding | null;
  /** In the reply to a new request: those to the other sessions that share the key. */
  others?: UnlockRequestInfo[];
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `GET /api/unlock-requests`. */
export type UnlockRequestList = {
  requests: UnlockRequestInfo[];
  /** What the calling session should know. */
  notices?: Notice[];
};

/** `GET /api/sessions/{id}/unlock-requests`. */
export type UnlockRequests = {
  /** Requests for what the session holds. */
  incoming: UnlockRequestInfo[];
  /** Requests that the session made. */
  outgoing: UnlockRequestInfo[];
  /** What the calling session should know. */
  notices?: Notice[];
};

/** The state of an unlock request. */
export type UnlockStatus = "pending" | "approved" | "rejected" | "withdrawn" | "moot";

/** A request in the queue. */
export type Wait = {
  /** The `seq` of the `queued` event. */
  waiter: number;
  sessionId: string;
  /** Its display name. */
  sessionName: string | null;
  /** The first of its keys. */
  keys: string[];
  /** The ids that the reservations of these keys will have, and under which their history can be asked. */
  reservationIds?: string[];
  since: Time;
  /** When it is refused unless it is granted before. */
  givesUpAt: Time;
  /** The first of what blocks it. */
  blockedBy: WaitBlocker[];
};

/** What blocks a request in the queue. */
export type WaitBlocker = {
  sessionId: string;
  /** Its display name. */
  sessionName: string | null;
  /** The key that it holds or waits for. */
  key: string;
  kind: BlockerKind;
};

/** `GET /api/waits`. */
export type Waits = {
  /** In the order of the queue. */
  waits: Wait[];
  /** Sessions that block others and wait for no session, the one that blocks the longest wait first. */
  roots: RootBlocker[];
  /** How many more requests wait. */
  moreWaits: number;
  /** What the calling session should know. */
  notices?: Notice[];
};
