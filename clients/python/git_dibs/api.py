"""The bodies of requests and responses. Written by clients/generate from fixtures/openapi.json: do not edit."""

from typing import List, Literal, Union

from ._typing import Required, TypedDict


class AllocatePorts(TypedDict, total=False):
    """`POST …/ports`."""

    count: Union[int, None]
    """How many. Default: what the server is configured for, usually 4."""
    ttlSeconds: Union[int, None]
    """How long they are allocated without another call. The same bounds and default as for logical names."""
    purpose: Union[str, None]
    """What they are for; other sessions see it."""


class AnnouncePush(TypedDict, total=False):
    """`POST …/pushes`."""

    updates: Required[List["RefUpdate"]]
    """What the session is about to push."""


class Approve(TypedDict, total=False):
    """`POST …/unlock-requests/{reqId}/approve`."""

    handOver: Union[bool, None]
    """Pass the reservation directly to the session that asked."""


class Blocker(TypedDict, total=False):
    """A session in the way."""

    sessionId: Required[str]
    sessionName: Required[Union[str, None]]
    """Its display name."""
    key: Required[Union[str, None]]
    """The key that it holds or waits for; null for a pause."""


BlockerKind = Literal["holder", "waiter"]


class Check(TypedDict, total=False):
    """`POST …/files/check-conflicts` and `POST /api/check-conflicts`."""

    paths: Union[List["Key"], None]
    """The paths to check."""
    filePaths: Union[List["Key"], None]
    """Another name of `paths`."""
    mode: Union["RequestMode", None]
    intent: Union[Literal["change", "look"], None]
    """What the caller is about to do. With it, `mode` is ignored; without it, the check is for a reservation in `mode`."""
    ttlSeconds: Union[int, None]
    """For how many seconds they would be reserved. With it, or with `whileSession`, a check is refused for the same policy and the same limits as the reservation would be."""
    whileSession: Union[bool, None]
    """They would be reserved while the session gives signs of life."""
    idleSeconds: Union[int, None]
    """With `whileSession`: how long they would last after the last sign of life."""
    blobs: Union[List["ObjectId"], None]
    """The new content of each path, as the object id of its blob, in the order of the paths; all zeros for a deletion. A path may be listed several times with different contents. Has an effect only with `intent` `change`: content that every holder in the way has committed itself is no conflict."""
    record: Union[bool, None]
    """The calling session is about to commit `blobs`: remember them for the paths that it holds. Has an effect only with `blobs`, with `intent` `change`, and for a session's own call."""
    encoding: Union["Encoding", None]


class CheckReply(TypedDict, total=False):
    """The answer to a check."""

    conflicts: Required[List["Conflict"]]
    """What other sessions hold, in the order of the request: every path in conflict, with at most 3 holders each. In a long list, reasons and keys are shortened."""
    clear: Required[List[str]]
    """The other paths of the request, as it wrote them."""
    held: Required[List[str]]
    """Those of `clear` that the calling session holds."""
    carried: List[str]
    """Those of `clear` that other sessions hold and that they committed with the same content themselves."""
    paused: Union["Paused", None]
    serverTime: Union["Time", None]
    notices: List["Notice"]
    """What the calling session should know."""


class ClaimPush(TypedDict, total=False):
    """`POST /api/pushes/claim`."""

    updates: Required[List["RefUpdate"]]
    """What has been pushed."""
    check: Union["Check", None]


class ClaimReply(TypedDict, total=False):
    """Who announced the push."""

    sessionId: Union[str, None]
    """The session that announced all of the updates; absent if none did."""
    name: Union[str, None]
    """The display name of that session."""
    feature: Union[str, None]
    """The feature that the session works on."""
    check: Union["CheckReply", None]
    notices: List["Notice"]
    """What the calling session should know."""


class ClusterHealth(TypedDict, total=False):
    """What a node of a cluster does now. Addresses and repositories are not named, because the call needs no token."""

    role: Required[str]
    """`leader` if the node leads a repository, else `follower`."""
    leads: Required[int]
    """How many repositories it leads."""
    repositories: Required[int]
    """How many repositories the cluster has."""
    withoutLeader: Required[int]
    """How many of them no node leads now."""
    notes: Required[List[str]]
    """What the operator should know."""


Code = Literal["INVALID_REQUEST", "INVALID_PATH", "INVALID_KEY", "TTL_OUT_OF_RANGE", "UNAUTHENTICATED", "FORBIDDEN", "LOCK_NOT_HELD", "OPERATION_NOT_PERMITTED", "NOT_FOUND", "METHOD_NOT_ALLOWED", "PAYLOAD_TOO_LARGE", "URI_TOO_LONG", "HEADERS_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "RESOURCE_LOCKED", "LOCK_ACQUISITION_FAILED", "POSSIBLE_DEADLOCK", "VERSION_MISMATCH", "SESSION_ENDED", "LOCK_TIMEOUT", "FEATURE_PAUSED", "QUOTA_EXCEEDED", "UNAVAILABLE"]


class Conflict(TypedDict, total=False):
    """One reservation, or one queued request, in the way of one key."""

    filePath: Required[str]
    """The key as the request wrote it."""
    key: Required[str]
    """The key, as the holder wrote it."""
    reservedBy: Required[str]
    """The holder."""
    reservedByName: Required[Union[str, None]]
    """The display name of the holder."""
    mode: Required["Mode"]
    reason: Required[Union[str, None]]
    """What the holder reserved it for."""
    expiresAt: Required["Time"]
    """When it expires unless it is renewed."""
    heldBy: Required["HeldBy"]
    """The holder and the start of the reservation, as older clients read them."""
    example: Union[str, None]
    """A path that both keys match, if one of them is a pattern."""
    waiting: bool
    """The other session does not hold the key: it is ahead in the queue."""
    queueLength: Union[int, None]
    """How many requests wait for the key."""
    encoding: Union["Encoding", None]
    moreHolders: Union[int, None]
    """How many more reservations are in the way of `filePath`. At most 3 are listed for each key of the request; this is in the last one."""


class Contender(TypedDict, total=False):
    """A session that competes for a key."""

    sessionId: Required[str]
    sessionName: Required[Union[str, None]]
    """Its display name."""


class CreateSession(TypedDict, total=False):
    """`POST /api/sessions`."""

    repo: Union[str, None]
    """Required if the token is for several repositories."""
    sessionId: Union[str, None]
    """Default: an id that the server chooses."""
    name: Union[str, None]
    """The display name of the session."""
    feature: Union[str, None]
    """The feature that the session works on."""
    ttlSeconds: Union[int, None]
    """How long the token is valid. Default: one day."""
    url: Union[str, None]
    """The address that the token names as its server: `http://`, `https://` or `unix:`. The commands and hooks of git-dibs send a token only to its server. Default: the address that the server is configured with."""


class CurrentLogin(TypedDict, total=False):
    """The answer of `GET /api/login`."""

    login: Required[Union["Login", None]]


class CycleStep(TypedDict, total=False):
    """One step of a cycle: this session waits for the next one."""

    session: Required[str]
    holds: Required[str]
    """The key that it holds and the session before it wants."""
    wants: Required[str]
    """The key that it wants and the next session holds."""


class EmptyBody(TypedDict, total=False):
    """The body of a call that takes no fields. Any JSON object will do."""



Encoding = Literal["percent"]


class EndSession(TypedDict, total=False):
    """`POST /api/sessions/{id}/end`."""

    state: Union["EndState", None]


EndState = Literal["completed", "failed", "stopped"]


class Ended(TypedDict, total=False):
    """The answer to `POST /api/sessions/{id}/end`. A repeated call gets the first answer again."""

    state: Required["SessionState"]
    releasedCount: Required[int]
    """How many reservations were released."""
    releasedPaths: Required[List[str]]
    """Their keys, at most 10,000 of them."""


class Entity(TypedDict, total=False):
    """An entity: its lock and its requests."""

    lock: Required[Union["EntityLock", None]]
    requests: Required[List["EntityRequest"]]
    """The oldest first; at most the newest 100. Reasons of older ones are shortened."""
    request: Union["EntityRequest", None]
    releaseLock: Union[bool, None]
    """In the reply to an answer: whether it released the lock."""
    code: Union["Code", None]
    notices: List["Notice"]
    """What the calling session should know."""


class EntityAgent(TypedDict, total=False):
    """`POST …/unlock`, and an answer to a request."""

    agentId: Union[str, None]
    """The session that acts. Default: that of the token."""


class EntityLock(TypedDict, total=False):
    """The lock of an entity."""

    lockedBy: Required[str]
    """The holder."""
    lockedByName: Required[Union[str, None]]
    """The display name of the holder."""
    lockedAt: Required["Time"]
    reason: Required[Union[str, None]]
    """What the holder locked it for."""
    expiresAt: Required["Time"]
    """When it ends unless the holder calls."""
    ttlSeconds: Required[int]
    """How long it lasts without another call; without `ttlSeconds` in the request, without a sign of life of its session."""
    version: Required[int]
    """One more each time the entity is unlocked."""
    reservationId: Required[str]
    fence: Required[int]
    """The fencing number: grows with every grant in the repository and is never reused."""


class EntityRequest(TypedDict, total=False):
    """A request to unlock an entity."""

    id: Required[str]
    """A UUID."""
    requestedBy: Required[str]
    requestedByName: Required[Union[str, None]]
    reason: Required[str]
    requestedAt: Required["Time"]
    status: Required["UnlockStatus"]
    respondedAt: Required[Union["Time", None]]
    respondedBy: Required[Union[str, None]]


class ErrorBody(TypedDict, total=False):
    """The body of every error: a sentence, a code, and the facts that belong to the code."""

    error: Required[str]
    """A sentence for people."""
    code: Required["Code"]
    """The kind of the error, for programs."""
    reservedBy: Union[str, None]
    """The session in the way: the holder of the first of `conflicts`, or the session that paused the feature."""
    reservedByName: Union[str, None]
    """The display name of that session."""
    reason: Union[str, None]
    """Its reason."""
    expiresAt: Union["Time", None]
    conflicts: Union[List["Conflict"], None]
    """What is in the way: every key in conflict, with at most 3 holders each."""
    reserved: Union[List[str], None]
    """Always empty: a request for several keys is granted completely or not at all."""
    cycle: Union[List["CycleStep"], None]
    """The cycle that waiting would close."""
    min: Union[int, None]
    """The smallest allowed value."""
    max: Union[int, None]
    """The largest allowed value."""
    field: Union[str, None]
    """The field or key that is wrong."""
    version: Union[int, None]
    """The current version of the key."""
    reservationIds: Union[List[str], None]
    """Of a wait that ended without a grant: the ids that the reservations would have had, one for each key. Their history can be asked."""
    expired: Union[List[str], None]
    """Of `LOCK_NOT_HELD`: the key, if this session held it until it expired."""


class Event(TypedDict, total=False):
    """One event: a record as every session of the repository may see it."""

    sessionId: str
    name: Union[str, None]
    """The display name of the session."""
    feature: Union[str, None]
    """The feature the session works on."""
    event: Required[str]
    state: "SessionState"
    reservationId: str
    filePath: str
    """The key, as the holder wrote it."""
    mode: "Mode"
    reason: Union[str, None]
    """What the holder reserved it for."""
    reservedAt: "Time"
    expiresAt: "Time"
    """When it expires unless it is renewed. A renewal is not an event."""
    ttlSeconds: int
    """How long the reservation, and each renewal, lasts."""
    whileSession: bool
    """It lasts while the session gives signs of life, and `ttlSeconds` without one."""
    fence: int
    """The fencing number of the reservation, the same as `seq`."""
    encoding: Union["Encoding", None]
    why: str
    """Why it ended: `released`, `expired`, `ended` (with its session), `overridden`, `approved` (an unlock request) or `unheard` (the grant could not be delivered to the client)."""
    by: Union[str, None]
    """The admin who overrode it."""
    requestId: Union[str, None]
    """The unlock request that was approved."""
    filePaths: List[str]
    """The keys it waits for. It gets all of them at once. A long list is shortened."""
    reservationIds: List[str]
    """The ids that their reservations will have. A request that is refused in the end has a history under them too."""
    moreFilePaths: Union[int, None]
    """How many more keys it waits for."""
    waiter: int
    """The `seq` of the `queued` event."""
    conflictsDetected: int
    """Refused because another session holds a key or is ahead in the queue."""
    deadlocksRefused: int
    """Refused because waiting would have closed a cycle."""
    requestedBy: str
    """The session that asks."""
    status: "UnlockStatus"
    respondedBy: Union[str, None]
    """The session that answered, or the name of the admin who did; null if the reservation ended first."""
    byAdmin: bool
    """An admin answered in the place of the session."""
    note: Union[str, None]
    """What it added to its answer."""
    handedOver: bool
    """The session that asked got the reservation with the answer."""
    pathCount: int
    """How many contents are new. A path may have several."""
    generation: int
    """How often that has happened. The numbers of events from here on are at least `generation` × 2^40."""
    lastKept: int
    """The last event that is still in force."""
    seq: Required[int]
    """The number of the record. In the event stream it is also the event's `id`."""
    at: Required["Time"]
    """When the record was written."""
    sessionName: Union[str, None]
    """The display name of the session that acted, in the history, where it is known."""


class EventKindOpened(TypedDict, total=False):
    """A session started."""

    sessionId: Required[str]
    name: Required[Union[str, None]]
    """The display name of the session."""
    feature: Required[Union[str, None]]
    """The feature the session works on."""
    event: Required[Literal["opened"]]


class EventKindBound(TypedDict, total=False):
    """A session that an admin created made its first call."""

    sessionId: Required[str]
    event: Required[Literal["bound"]]


class EventKindReopened(TypedDict, total=False):
    """A session that had ended started again, with nothing."""

    sessionId: Required[str]
    name: Required[Union[str, None]]
    """The display name of the session."""
    feature: Required[Union[str, None]]
    """The feature the session works on."""
    event: Required[Literal["reopened"]]


class EventKindEnded(TypedDict, total=False):
    """A session ended, and with it everything that it held. The events of the releases follow; no request is blocked by these keys any more."""

    sessionId: Required[str]
    state: Required["SessionState"]
    event: Required[Literal["ended"]]


class EventKindReleasedAll(TypedDict, total=False):
    """A session released everything that it held, and that was much. The events of the releases follow; no request is blocked by these keys any more."""

    sessionId: Required[str]
    event: Required[Literal["releasedAll"]]


class EventKindReserved(TypedDict, total=False):
    """A key was reserved."""

    reservationId: Required[str]
    filePath: Required[str]
    """The key, as the holder wrote it."""
    sessionId: Required[str]
    """The holder."""
    mode: Required["Mode"]
    reason: Required[Union[str, None]]
    """What the holder reserved it for."""
    reservedAt: Required["Time"]
    expiresAt: Required["Time"]
    """When it expires unless it is renewed. A renewal is not an event."""
    ttlSeconds: Required[int]
    """How long the reservation, and each renewal, lasts."""
    whileSession: bool
    """It lasts while the session gives signs of life, and `ttlSeconds` without one."""
    fence: Required[int]
    """The fencing number of the reservation, the same as `seq`."""
    encoding: Union["Encoding", None]
    event: Required[Literal["reserved"]]


class EventKindAmended(TypedDict, total=False):
    """The holder changed the mode, the TTL or the reason of a reservation."""

    reservationId: Required[str]
    filePath: Required[str]
    """The key, as the holder wrote it."""
    sessionId: Required[str]
    """The holder."""
    mode: Required["Mode"]
    """The new mode."""
    reason: Required[Union[str, None]]
    """The new reason."""
    ttlSeconds: Required[int]
    """How long each renewal lasts from now on."""
    whileSession: bool
    """From now on it lasts while the session gives signs of life, and `ttlSeconds` without one."""
    encoding: Union["Encoding", None]
    event: Required[Literal["amended"]]


class EventKindReleased(TypedDict, total=False):
    """A reservation ended."""

    reservationId: Required[str]
    filePath: Required[str]
    """The key, as the holder wrote it."""
    sessionId: Required[str]
    """The former holder."""
    why: Required[str]
    """Why it ended: `released`, `expired`, `ended` (with its session), `overridden`, `approved` (an unlock request) or `unheard` (the grant could not be delivered to the client)."""
    by: Union[str, None]
    """The admin who overrode it."""
    reason: Union[str, None]
    """The admin's reason."""
    requestId: Union[str, None]
    """The unlock request that was approved."""
    encoding: Union["Encoding", None]
    event: Required[Literal["released"]]


class EventKindQueued(TypedDict, total=False):
    """A request joined the queue; `seq` is its position."""

    sessionId: Required[str]
    """The session that waits."""
    filePaths: Required[List[str]]
    """The keys it waits for. It gets all of them at once. A long list is shortened."""
    reservationIds: List[str]
    """The ids that their reservations will have. A request that is refused in the end has a history under them too."""
    moreFilePaths: Union[int, None]
    """How many more keys it waits for."""
    mode: Required["Mode"]
    reason: Required[Union[str, None]]
    """What they are wanted for."""
    encoding: Union["Encoding", None]
    event: Required[Literal["queued"]]


class EventKindSeated(TypedDict, total=False):
    """A queued request was granted; the `reserved` events that follow are its reservations."""

    sessionId: Required[str]
    """The session that waited."""
    waiter: Required[int]
    """The `seq` of the `queued` event."""
    event: Required[Literal["seated"]]


class EventKindLeft(TypedDict, total=False):
    """A queued request left the queue without a grant."""

    sessionId: Required[str]
    """The session that waited."""
    waiter: Required[int]
    """The `seq` of the `queued` event, which has the ids of the reservations."""
    why: Required[str]
    """Why: `timedOut`, `gone` (the client disconnected), `stopped` (the server), `ended` (the session), `version`, `paused` or `deadlock`."""
    event: Required[Literal["left"]]


class EventKindCounted(TypedDict, total=False):
    """How many requests were refused so far. Not part of the history."""

    conflictsDetected: Required[int]
    """Refused because another session holds a key or is ahead in the queue."""
    deadlocksRefused: Required[int]
    """Refused because waiting would have closed a cycle."""
    event: Required[Literal["counted"]]


class EventKindUnlockRequested(TypedDict, total=False):
    """A session asked the holder of a reservation to release it."""

    requestId: Required[str]
    reservationId: Required[str]
    filePath: Required[str]
    """The key of the reservation."""
    requestedBy: Required[str]
    """The session that asks."""
    reason: Required[str]
    encoding: Union["Encoding", None]
    event: Required[Literal["unlockRequested"]]


class EventKindUnlockAnswered(TypedDict, total=False):
    """An unlock request was answered, withdrawn, or became moot."""

    requestId: Required[str]
    status: Required["UnlockStatus"]
    respondedBy: Required[Union[str, None]]
    """The session that answered, or the name of the admin who did; null if the reservation ended first."""
    byAdmin: bool
    """An admin answered in the place of the session."""
    note: Union[str, None]
    """What it added to its answer."""
    handedOver: bool
    """The session that asked got the reservation with the answer."""
    event: Required[Literal["unlockAnswered"]]


class EventKindCommitted(TypedDict, total=False):
    """A session committed new content at paths that it holds. Not part of the history."""

    sessionId: Required[str]
    pathCount: Required[int]
    """How many contents are new. A path may have several."""
    event: Required[Literal["committed"]]


class EventKindRestored(TypedDict, total=False):
    """An earlier copy of the journal was restored. The events between `lastKept` and this one are undone."""

    generation: Required[int]
    """How often that has happened. The numbers of events from here on are at least `generation` × 2^40."""
    lastKept: Required[int]
    """The last event that is still in force."""
    event: Required[Literal["restored"]]


EventKind = Union["EventKindOpened", "EventKindBound", "EventKindReopened", "EventKindEnded", "EventKindReleasedAll", "EventKindReserved", "EventKindAmended", "EventKindReleased", "EventKindQueued", "EventKindSeated", "EventKindLeft", "EventKindCounted", "EventKindUnlockRequested", "EventKindUnlockAnswered", "EventKindCommitted", "EventKindRestored"]


class ExpiringSession(TypedDict, total=False):
    """A session whose reservations expire."""

    sessionId: Required[str]
    sessionName: Required[Union[str, None]]
    """Its display name."""
    expired: Required[int]
    """How many of its reservations expired."""


class Health(TypedDict, total=False):
    """`GET /healthz` and `GET /readyz`."""

    status: Required[str]
    """`ok` or `ready`."""
    version: Required[str]
    """The version of the server."""
    now: Union["Time", None]
    ledger: Union["LedgerHealth", None]
    cluster: Union["ClusterHealth", None]


class Heartbeat(TypedDict, total=False):
    """The answer to `POST /api/sessions/{id}/heartbeat`."""

    renewedCount: Required[int]
    """How many reservations were renewed for another full TTL."""
    expiresAt: Required["Time"]
    """When the first of them expires, or the session itself if it holds nothing."""
    notices: Required[List["Notice"]]
    """What the session should know. Always present, because most sessions learn it from a heartbeat."""


class Held(TypedDict, total=False):
    """`GET /api/held`."""

    own: Required[bool]
    """The session holds something."""
    others: Required[bool]
    """Another session holds something."""
    paused: Required[bool]
    """The session's feature is paused."""
    notices: List["Notice"]
    """What the calling session should know."""


class HeldBy(TypedDict, total=False):
    """The holder and the start of its reservation."""

    sessionId: Required[str]
    """The holder."""
    reservedAt: Required["Time"]


class HistoryReply(TypedDict, total=False):
    """One page of the history, the latest event first."""

    events: Required[List["Event"]]
    """A page may be short or empty and still not be the last one: continue while there is a `nextCursor`."""
    nextCursor: Union[str, None]
    """Send it as `cursor` to get the next page."""
    missing: List["MissingEvents"]
    """Events that would belong on this page but are no longer stored anywhere."""
    notices: List["Notice"]
    """What the calling session should know."""


class HotDirectory(TypedDict, total=False):
    """A directory that sessions compete in."""

    directory: Required[str]
    """Without a slash at its end; `.` is the top of the repository."""
    conflicts: Required[int]
    """Requests that found one of its files not free."""


class HotPath(TypedDict, total=False):
    """A key that sessions compete for."""

    key: Required[str]
    conflicts: Required[int]
    """Requests that found it not free. Each counts once, whether it was refused or waited."""
    waits: Required[int]
    """Those of them that waited."""
    averageWaitSeconds: Required[float]
    """How long they waited on average."""
    byStep: Required[List[int]]
    """The conflicts of each step of the window since its beginning. The last step is the current one."""
    between: Required[List["Contender"]]
    """The latest sessions that asked for it or blocked it, at most 6, those with the most conflicts first."""


HotspotWindow = Literal["hour", "day", "week"]


class Hotspots(TypedDict, total=False):
    """`GET /api/hotspots`."""

    window: Required["HotspotWindow"]
    since: Required["Time"]
    """The beginning of the window: at most one step earlier or later than the window says."""
    stepSeconds: Required[int]
    """The length of a step of `byStep`: ten minutes, an hour, or a day."""
    paths: Required[List["HotPath"]]
    """The keys that were not free most often, the most first. A key that is asked for by many names counts under each."""
    directories: Required[List["HotDirectory"]]
    """The same by directory: each conflict counts for the directory that the path is in."""
    sessions: Required[List["ExpiringSession"]]
    """Sessions whose reservations expired without a release, the most first."""
    totalConflicts: Required[int]
    """Requests for a key that was not free, counted once for each such key."""
    notices: List["Notice"]
    """What the calling session should know."""


Key = str


class LedgerHealth(TypedDict, total=False):
    """How far a ledger is behind the journal. Grants do not wait for the ledger."""

    ok: Required[bool]
    """Whether it can be written and is undamaged. If not, the log of the server says more."""
    problem: Union["LedgerProblem", None]
    recordsBehind: Required[int]
    """Records that are not in the ledger yet."""
    secondsBehind: Required[int]
    """For how long there have been such records, in seconds."""


LedgerProblem = Literal["full", "damaged", "unwritable"]


class LockEntity(TypedDict, total=False):
    """`POST /api/entities/{kind}/{id}/lock`."""

    agentId: Union[str, None]
    """The session that locks. Default: that of the token."""
    agentName: Union[str, None]
    """Its display name, if the token has none and the session is new."""
    reason: Union[str, None]
    """What for; other sessions see it."""
    ttlSeconds: Union[int, None]
    """How long the lock lasts without another call. Default: while the session gives signs of life."""


LockState = Literal["Waiting", "Acquired", "Released", "Expired", "Failed"]


class Login(TypedDict, total=False):
    """Who is signed in: the claims of the token, without the token."""

    scope: Required[str]
    """What the token permits: `session`, `worker`, `read` or `admin`."""
    subject: Required[str]
    """`sub` of the token."""
    sessionId: Required[Union[str, None]]
    """The session that the caller acts for."""
    name: Required[Union[str, None]]
    """The display name."""
    repositories: Required[List[str]]
    """The repositories that the caller may look at. A call for one of several names it with `?repo=`."""
    expiresAt: Required["Time"]
    """When the login, or the token, is not valid any more."""
    mayChange: Required[bool]
    """Whether this request could have changed something, as far as its token permits it."""
    version: Required[str]
    """The version of the server."""


class LoginCode(TypedDict, total=False):
    """The answer of `POST /api/login/codes`. `Debug` does not show the code."""

    code: Required[str]
    """It works once. A page gets it in the fragment of its URL, which browsers do not send to servers: `/#code=<code>`."""
    expiresAt: Required["Time"]


class MissingEvents(TypedDict, total=False):
    """A range of events that are no longer stored anywhere, by their `seq`; both ends are included."""

    first: Required[int]
    last: Required[int]


Mode = Literal["exclusive", "shared", "collaborative"]


class NoticeUnlockRequested(TypedDict, total=False):
    """Another session asks this one to release a reservation, and waits for an answer."""

    requestId: Required[str]
    reservationId: Required[str]
    filePath: Required[str]
    """The key of the reservation."""
    requestedBy: Required[str]
    """The session that asks."""
    requestedByName: Required[Union[str, None]]
    """The display name of that session."""
    reason: Required[str]
    requestedAt: Required["Time"]
    kind: Required[Literal["unlockRequested"]]


class NoticeUnlockAnswered(TypedDict, total=False):
    """An unlock request of this session was answered, or became moot."""

    requestId: Required[str]
    filePath: Required[str]
    """The key that the request was about."""
    status: Required["UnlockStatus"]
    respondedBy: Required[Union[str, None]]
    """The session that answered; null if the reservation ended first."""
    note: Union[str, None]
    """What it added to its answer."""
    kind: Required[Literal["unlockAnswered"]]


class NoticeReleased(TypedDict, total=False):
    """A reservation of this session ended before the session released it."""

    reservationId: Required[str]
    filePath: Required[str]
    """The key of the reservation."""
    why: Required[str]
    """Why it ended: `expired`, `overridden`, `approved`."""
    by: Union[str, None]
    """The admin who overrode it."""
    reason: Union[str, None]
    """The admin's reason."""
    at: Required["Time"]
    """When it ended."""
    kind: Required[Literal["released"]]


class NoticeExpired(TypedDict, total=False):
    """Reservations of this session have expired since it was last told. It does not hold them any more."""

    expiredCount: Required[int]
    """How many."""
    expiredPaths: Required[List[str]]
    """The newest of their keys, at most 20."""
    kind: Required[Literal["expired"]]


class NoticeLost(TypedDict, total=False):
    """This session did not call for so long that it was lost. It starts anew and holds nothing."""

    lostAt: Required["Time"]
    """When it was lost."""
    releasedCount: Required[int]
    """How many of its reservations had expired or were released by then."""
    releasedPaths: Required[List[str]]
    """The newest of their keys, at most 20."""
    kind: Required[Literal["lost"]]


class NoticePaused(TypedDict, total=False):
    """The feature this session works on is paused."""

    feature: Required[str]
    reservedBy: Required[str]
    """The session that paused it."""
    reservedByName: Required[Union[str, None]]
    """The display name of that session."""
    reason: Required[Union[str, None]]
    expiresAt: Required["Time"]
    """When the pause expires unless it is renewed."""
    kind: Required[Literal["paused"]]


class NoticeMore(TypedDict, total=False):
    """There are more notices than are listed here."""

    notices: Required[int]
    """How many more notices there are that are sent once. The next answers have them."""
    unlockRequests: Required[int]
    """How many more unlock requests wait for an answer of this session. `GET …/unlock-requests` lists them all."""
    kind: Required[Literal["more"]]


Notice = Union["NoticeUnlockRequested", "NoticeUnlockAnswered", "NoticeReleased", "NoticeExpired", "NoticeLost", "NoticePaused", "NoticeMore"]


class Notices(TypedDict, total=False):
    """The data of the event `notices`: what the session that follows the stream should know."""

    notices: Required[List["Notice"]]


ObjectId = str


class Override(TypedDict, total=False):
    """`DELETE /api/reservations/{reservationId}`."""

    reason: Required[str]
    """The holder gets it in a notice, and the history keeps it."""


class Paused(TypedDict, total=False):
    """A pause on a feature."""

    feature: Required[str]
    reservedBy: Required[str]
    """The session that paused it."""
    reservedByName: Required[Union[str, None]]
    """The display name of that session."""
    reason: Required[Union[str, None]]
    expiresAt: Required["Time"]
    """When it expires unless it is renewed."""


class PortsEnv0(TypedDict, total=False):
    """The same for an environment: a variable for each port, and a name for a compose project."""



class Ports(TypedDict, total=False):
    """The ports of a session."""

    ports: Required[List[int]]
    """In order."""
    expiresAt: Required[Union["Time", None]]
    ttlSeconds: Required[Union[int, None]]
    """How long they last without another call; null if there are none."""
    version: Required[int]
    """The sum of their versions: how often these ports were freed before."""
    env: Required["PortsEnv0"]
    """The same for an environment: a variable for each port, and a name for a compose project."""
    notices: List["Notice"]
    """What the calling session should know."""


class PushAnnounced(TypedDict, total=False):
    """The push is announced."""

    expiresAt: Required["Time"]
    """Until then the announcement can be claimed, once."""
    notices: List["Notice"]
    """What the calling session should know."""


class RefUpdate(TypedDict, total=False):
    """One update of a ref by a push."""

    ref: Required[str]
    """The full name of the ref in the repository that is pushed to. Both sides must write it the same way."""
    old: Required["ObjectId"]
    """The object before the push; all zeros where the push creates the ref."""
    new: Required["ObjectId"]
    """The object after the push; all zeros where the push deletes the ref."""


class Refusals(TypedDict, total=False):
    """`GET /api/refusals`."""

    refusals: Required[List["RefusedRequest"]]
    """Of the last hour, the newest first."""
    dropped: Required[int]
    """How many refused requests of the last hour are not listed, because there were too many."""
    notices: List["Notice"]
    """What the calling session should know."""


class RefusedRequest(TypedDict, total=False):
    """A request that was refused because of other sessions."""

    at: Required["Time"]
    """The last time that the session tried it."""
    firstAt: Required["Time"]
    """The first time."""
    count: Required[int]
    """How often the same request was refused: of the same session, for the same keys."""
    sessionId: Required[str]
    """The session that asked."""
    sessionName: Required[Union[str, None]]
    """Its display name."""
    code: Required["Code"]
    """`RESOURCE_LOCKED`, `LOCK_ACQUISITION_FAILED`, `POSSIBLE_DEADLOCK` or `FEATURE_PAUSED`."""
    keys: Required[List[str]]
    """The first of the keys that were not free."""
    blockers: Required[List["Blocker"]]
    """The first of the sessions in the way."""
    cycle: List["CycleStep"]
    """The sessions that would have waited for each other."""


class Reject(TypedDict, total=False):
    """`POST …/unlock-requests/{reqId}/reject`."""

    note: Union[str, None]
    """A message to the session that asked."""


class Release(TypedDict, total=False):
    """`POST …/files/release`."""

    filePath: Union["Key", None]
    filePaths: Union[List["Key"], None]
    """Several keys."""
    encoding: Union["Encoding", None]


class Released(TypedDict, total=False):
    """The answer to a release."""

    ok: Required[bool]
    """Always true; releasing a key that is not held is no error."""
    released: Required[bool]
    """Whether at least one of the keys was held."""
    releasedCount: Required[int]
    """How many reservations ended."""
    code: Union["Code", None]
    expired: List[str]
    """Those keys."""
    notices: List["Notice"]
    """What the calling session should know."""


class ReleasedAll(TypedDict, total=False):
    """The answer to `POST …/files/release-all`."""

    releasedCount: Required[int]
    """How many reservations ended."""
    releasedPaths: Required[List[str]]
    """Their keys, at most 10,000 of them."""
    notices: List["Notice"]
    """What the calling session should know."""


class Renew(TypedDict, total=False):
    """`POST …/files/renew`."""

    filePath: Union["Key", None]
    filePaths: Union[List["Key"], None]
    """Several keys."""
    ttlSeconds: Union[int, None]
    """The new TTL. Default: the same as before."""
    encoding: Union["Encoding", None]


RenewReply = Union["Renewed", "RenewedMany"]


class Renewed(TypedDict, total=False):
    """One renewed reservation."""

    reservationId: Required[str]
    filePath: Required[str]
    """The key, as the holder wrote it."""
    sessionId: Required[str]
    """The holder."""
    expiresAt: Required["Time"]
    """When it expires unless it is renewed again."""
    ttlSeconds: Required[int]
    """How long it lasts without a renewal; with `whileSession`, without a sign of life of the session."""
    whileSession: bool
    """It lasts while the session gives signs of life: every call of the session moves `expiresAt`."""
    fence: Required[int]
    """The same number as when it was granted."""
    version: Required[int]
    """The version of the key: one more each time a holder releases it."""
    encoding: Union["Encoding", None]
    notices: List["Notice"]
    """What the calling session should know."""


class RenewedMany(TypedDict, total=False):
    """Several renewed reservations."""

    expiresAt: Required["Time"]
    """The earliest expiry."""
    reservations: Required[List["Renewed"]]
    """In the order of the request."""
    notices: List["Notice"]
    """What the calling session should know."""


class RequestEntity(TypedDict, total=False):
    """`POST …/unlock-requests` of an entity."""

    requestedBy: Union[str, None]
    """The session that asks. Default: that of the token."""
    requestedByName: Union[str, None]
    """Its display name, if the token has none and the session is new."""
    reason: Required[str]
    """The holder sees it."""


RequestMode = Literal["exclusive", "shared", "collaborative"]


class Reservation(TypedDict, total=False):
    """One reservation in a list."""

    reservationId: Required[str]
    filePath: Required[str]
    """The key, as the holder wrote it."""
    sessionId: Required[str]
    """The holder."""
    sessionName: Required[Union[str, None]]
    """The display name of the holder."""
    mode: Required["Mode"]
    reason: Required[Union[str, None]]
    """What the holder reserved it for."""
    reservedAt: Required["Time"]
    expiresAt: Required["Time"]
    """When it expires unless it is renewed."""
    ttlSeconds: Required[int]
    """How long it lasts without a renewal; with `whileSession`, without a sign of life of the session."""
    whileSession: bool
    """It lasts while the session gives signs of life: every call of the session moves `expiresAt`."""
    fence: Required[int]
    """The fencing number: grows with every grant in the repository and is never reused."""
    version: Required[int]
    """The version of the key: one more each time a holder releases it."""
    encoding: Union["Encoding", None]


class ReservationHistory(TypedDict, total=False):
    """`GET /api/reservations/{reservationId}/history`."""

    reservationId: Required[str]
    filePath: Required[str]
    """The key, as the holder wrote it."""
    sessionId: Required[str]
    """The session that held it or waited for it."""
    states: Required[List["StateChange"]]
    """The oldest first."""
    isIncomplete: bool
    """Earlier states may be missing, because the records are no longer stored or there are too many to search."""
    encoding: Union["Encoding", None]
    notices: List["Notice"]
    """What the calling session should know."""


class ReservationList(TypedDict, total=False):
    """`GET /api/reservations` and `GET /api/sessions/{id}/reserved-files`."""

    reservations: Required[List["Reservation"]]
    nextCursor: Union[str, None]
    """Send it as `cursor` to get the next page."""
    seq: Union[int, None]
    """In `GET /api/reservations`, the number of the last record that this page includes. To keep a list up to date, follow the events after the `seq` of the first page, and identify each reservation by its id."""
    serverTime: Union["Time", None]
    notices: List["Notice"]
    """What the calling session should know."""


class Reserve(TypedDict, total=False):
    """`POST …/files/reserve`."""

    filePath: Union["Key", None]
    filePaths: Union[List["Key"], None]
    """Several keys; all of them are reserved, or none."""
    ttlSeconds: Union[int, None]
    """How long the reservation lasts without renewal. Unless the server is configured otherwise: 1 to 300 seconds for files, default 60; 1 to 28,800 seconds for logical names and resource URIs, default 1,800."""
    whileSession: Union[bool, None]
    """Hold it while the session gives signs of life, instead of for `ttlSeconds`. Every authenticated call of the session is one. The session itself ends after its own timeout, whatever it holds so."""
    idleSeconds: Union[int, None]
    """With `whileSession`: how long it lasts after the last sign of life. Default: the session timeout of the server."""
    mode: Union["RequestMode", None]
    reason: Union[str, None]
    """What the keys are reserved for; other sessions see it."""
    waitSeconds: Union[int, None]
    """How long to wait in the queue if a key is not free. Default: 0."""
    ifVersion: Union[int, None]
    """Reserve only if this is the version of every key."""
    encoding: Union["Encoding", None]


ReserveReply = Union["Reserved", "ReservedMany"]


class Reserved(TypedDict, total=False):
    """One new reservation, or one that the session already held and renewed."""

    reservationId: Required[str]
    filePath: Required[str]
    """The key, as the holder wrote it."""
    sessionId: Required[str]
    """The holder."""
    mode: Required["Mode"]
    reason: Required[Union[str, None]]
    """What the holder reserved it for."""
    reservedAt: Required["Time"]
    expiresAt: Required["Time"]
    """When it expires unless it is renewed."""
    ttlSeconds: Required[int]
    """How long it lasts without a renewal; with `whileSession`, without a sign of life of the session."""
    whileSession: bool
    """It lasts while the session gives signs of life: every call of the session moves `expiresAt`."""
    fence: Required[int]
    """The fencing number: grows with every grant in the repository and is never reused."""
    version: Required[int]
    """The version of the key: one more each time a holder releases it."""
    encoding: Union["Encoding", None]
    notices: List["Notice"]
    """What the calling session should know."""


class ReservedMany(TypedDict, total=False):
    """Several keys were reserved, all at once."""

    reservations: Required[List["Reserved"]]
    """In the order of the request."""
    reserved: Required[List[str]]
    """Only the keys."""
    conflicts: Required[List["Conflict"]]
    """Always empty; with conflicts the answer is an error."""
    notices: List["Notice"]
    """What the calling session should know."""


class Reset(TypedDict, total=False):
    """The data of the event `reset`: the stream cannot continue where the reader was. To learn what is held now, the reader asks at `reload`, and then follows the events after the `seq` of that answer."""

    why: Required[str]
    """`tooOld`: the journal no longer has that record. `unknown`: there never was such a record. `restored`: an earlier copy of the journal was restored since, and that record may be undone."""
    reload: Required[str]
    """The path that lists what is held now."""
    after: Required[int]
    """The stream continues after this record."""


class RootBlocker(TypedDict, total=False):
    """A session that blocks others and waits for no session."""

    sessionId: Required[str]
    sessionName: Required[Union[str, None]]
    """Its display name."""
    blocks: Required[int]
    """How many sessions it blocks, directly and through others."""
    longestWaitSince: Required["Time"]
    """Since when the first of them has been waiting."""


class SessionCreated(TypedDict, total=False):
    """A new session and its token."""

    sessionId: Required[str]
    token: Required[str]
    """Not part of the `Debug` output."""
    expiresAt: Required["Time"]
    """When the token expires."""


class SessionInfo(TypedDict, total=False):
    """One session, as every session of the repository may see it."""

    sessionId: Required[str]
    state: Required["SessionState"]
    name: Required[Union[str, None]]
    """The display name of the session."""
    feature: Required[Union[str, None]]
    """The feature that the session works on."""
    startedAt: Required["Time"]
    """The time of its first call."""
    lastSeenAt: Required["Time"]
    """The time of its latest call."""
    endedAt: Union["Time", None]
    heldCount: Required[int]
    """How many reservations it holds."""
    waitingFor: Required[List[str]]
    """The keys that it waits for in the queue, at most 100 of them."""
    moreWaitingFor: Union[int, None]
    """How many more keys it waits for."""
    notices: List["Notice"]
    """What the calling session should know."""


class SessionList(TypedDict, total=False):
    """`GET /api/sessions`."""

    sessions: Required[List["SessionInfo"]]
    nextCursor: Union[str, None]
    """Send it as `cursor` to get the next page."""
    notices: List["Notice"]
    """What the calling session should know."""


SessionState = Literal["active", "completed", "failed", "stopped", "lost"]


class SignIn(TypedDict, total=False):
    """`POST /api/login`: a code, or a token. `Debug` shows neither."""

    code: Union[str, None]
    """A code that `POST /api/login/codes` made."""
    token: Union[str, None]
    """A token that a person pasted."""
    replace: Union[bool, None]
    """Of a code: sign in although the browser is signed in as someone else. Without it, such a code is refused and stays valid, so that a link of another person does not replace a login unseen."""


class SignedIn(TypedDict, total=False):
    """The answer of `POST /api/login`. `Debug` does not show the secret."""

    scope: Required[str]
    """What the token permits: `session`, `worker`, `read` or `admin`."""
    subject: Required[str]
    """`sub` of the token."""
    sessionId: Required[Union[str, None]]
    """The session that the caller acts for."""
    name: Required[Union[str, None]]
    """The display name."""
    repositories: Required[List[str]]
    """The repositories that the caller may look at. A call for one of several names it with `?repo=`."""
    expiresAt: Required["Time"]
    """When the login, or the token, is not valid any more."""
    mayChange: Required[bool]
    """Whether this request could have changed something, as far as its token permits it."""
    version: Required[str]
    """The version of the server."""
    changeSecret: Union[str, None]
    """The page sends it as `X-Dibs-Change` with every call that changes something; null if the login may only read."""


class StateChange(TypedDict, total=False):
    """A state of a reservation, and when it began."""

    state: Required["LockState"]
    at: Required["Time"]
    seq: Required[int]
    """The number of the record."""
    why: Union[str, None]
    """How it ended, where that is more than the state says: as in the events `released` and `left`."""


class Stats(TypedDict, total=False):
    """`GET /api/stats`."""

    totalLocks: Required[int]
    """Reservations granted since the journal began."""
    activeLocks: Required[int]
    """Reservations held now."""
    expiredLocks: Required[int]
    """Reservations that expired."""
    conflictsDetected: Required[int]
    """Requests refused because another session held a key or was ahead in the queue, also those that would have waited forever, and waits that timed out. Recorded every 10 seconds and when the server stops: one that is killed loses the last of them."""
    averageHoldTime: Required[float]
    """The average duration of the reservations that have ended, in seconds."""
    waiters: Required[int]
    """Requests in the queue now."""
    sessions: Required[int]
    """Active sessions now."""
    notices: List["Notice"]
    """What the calling session should know."""


Time = str


class UnlockRequest(TypedDict, total=False):
    """`POST /api/sessions/{id}/unlock-requests`."""

    filePath: Required["Key"]
    """The key that the holder should release."""
    reason: Required[str]
    """The holder sees it."""
    encoding: Union["Encoding", None]


class UnlockRequestInfo(TypedDict, total=False):
    """One unlock request, as both sessions see it."""

    id: Required[str]
    """A UUID."""
    reservationId: Required[str]
    """The reservation that the holder should release."""
    filePath: Required[str]
    """The key of the reservation, as the holder wrote it."""
    reservedBy: Union[str, None]
    """The holder."""
    reservedByName: Union[str, None]
    """The display name of the holder."""
    requestedBy: Required[str]
    """The session that asks."""
    requestedByName: Required[Union[str, None]]
    """The display name of that session."""
    reason: Required[str]
    requestedAt: Required["Time"]
    status: Required["UnlockStatus"]
    respondedAt: Required[Union["Time", None]]
    respondedBy: Required[Union[str, None]]
    """The session, or the admin, that answered."""
    note: Union[str, None]
    """What was added to the answer."""
    handedOver: bool
    """The session that asked got the reservation with the answer."""
    encoding: Union["Encoding", None]
    others: List["UnlockRequestInfo"]
    """In the reply to a new request: those to the other sessions that share the key."""
    notices: List["Notice"]
    """What the calling session should know."""


class UnlockRequestList(TypedDict, total=False):
    """`GET /api/unlock-requests`."""

    requests: Required[List["UnlockRequestInfo"]]
    notices: List["Notice"]
    """What the calling session should know."""


class UnlockRequests(TypedDict, total=False):
    """`GET /api/sessions/{id}/unlock-requests`."""

    incoming: Required[List["UnlockRequestInfo"]]
    """Requests for what the session holds."""
    outgoing: Required[List["UnlockRequestInfo"]]
    """Requests that the session made."""
    notices: List["Notice"]
    """What the calling session should know."""


UnlockStatus = Literal["pending", "approved", "rejected", "withdrawn", "moot"]


class Wait(TypedDict, total=False):
    """A request in the queue."""

    waiter: Required[int]
    """The `seq` of the `queued` event."""
    sessionId: Required[str]
    sessionName: Required[Union[str, None]]
    """Its display name."""
    keys: Required[List[str]]
    """The first of its keys."""
    reservationIds: List[str]
    """The ids that the reservations of these keys will have, and under which their history can be asked."""
    since: Required["Time"]
    givesUpAt: Required["Time"]
    """When it is refused unless it is granted before."""
    blockedBy: Required[List["WaitBlocker"]]
    """The first of what blocks it."""


class WaitBlocker(TypedDict, total=False):
    """What blocks a request in the queue."""

    sessionId: Required[str]
    sessionName: Required[Union[str, None]]
    """Its display name."""
    key: Required[str]
    """The key that it holds or waits for."""
    kind: Required["BlockerKind"]


class Waits(TypedDict, total=False):
    """`GET /api/waits`."""

    waits: Required[List["Wait"]]
    """In the order of the queue."""
    roots: Required[List["RootBlocker"]]
    """Sessions that block others and wait for no session, the one that blocks the longest wait first."""
    moreWaits: Required[int]
    """How many more requests wait."""
    notices: List["Notice"]
    """What the calling session should know."""
