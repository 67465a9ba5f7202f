"""What both clients share: the calls as values, one exchange over HTTP, and when to try again."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import socket
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union, cast
from urllib.parse import quote, urlencode, urlsplit

from . import api
from .errors import ConflictError, DeadlockError, DibsError, SessionEndedError, UnreachableError
from .errors import is_refusal, is_temporary, refusal

Paths = Union[str, Sequence[str]]

LOCAL_URL = "http://127.0.0.1:3427"
"""Where a local server listens."""

TIMEOUT = 30.0
"""How long a call may take, in seconds, beside the time that it waits in a queue."""

WAIT_SECONDS_MAX = 300
"""The longest that one request waits in the server's queue."""

REPLY_BYTES_MAX = 64 << 20
"""The largest reply that is read."""

_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.0)


def backoff(failures: int) -> float:
    """The pause after so many failed attempts, in seconds: up to a quarter longer or shorter at random, so that clients
    that failed at the same time do not try again at the same time."""
    return _PAUSES[min(max(failures, 1), len(_PAUSES)) - 1] * (0.75 + random.random() / 2)


@dataclass
class Call:
    """One call of the API."""

    method: str
    path: str
    body: Optional[Mapping[str, Any]] = None
    wait: float = 0.0
    """How long the server may keep it waiting, in seconds."""


@dataclass
class Server:
    """Where to call, and as whom."""

    url: str
    token: Union[str, Callable[[], str]]
    session: str
    repo: Optional[str] = None
    timeout: float = TIMEOUT
    on_notices: Optional[Callable[[List[api.Notice]], None]] = None

    @classmethod
    def new(cls, url, token, session, repo, timeout, on_notices) -> "Server":
        token = token if token is not None else os.environ.get("DIBS_TOKEN")
        if not token:
            raise ValueError("there is no token; pass one, or start the program with git dibs run")
        session = session or (_session_of(token) if isinstance(token, str) else None) or os.environ.get("DIBS_SESSION")
        if not session:
            raise ValueError("the token names no session; pass one")
        url = (url or os.environ.get("DIBS_URL") or LOCAL_URL).rstrip("/")
        return cls(url, token, session, repo or os.environ.get("DIBS_REPO") or None, timeout, on_notices)

    # ---- calls ----

    def own(self, method: str, rest: str, body: Optional[Mapping[str, Any]] = None, wait: float = 0.0) -> Call:
        return Call(method, f"/api/sessions/{quote(self.session, safe='')}/{rest}", body, wait)

    def reserve(self, paths: Paths, mode, reason, ttl_seconds, wait_seconds, more: Mapping[str, Any]) -> Call:
        body = {"filePaths": listed(paths), "mode": mode, "reason": reason, "ttlSeconds": ttl_seconds}
        body = {**body, "waitSeconds": wait_seconds, **more}
        return self.own("POST", "files/reserve", without_none(body), float(wait_seconds or 0))

    def list(self, filter: Mapping[str, Any]) -> Call:
        return Call("GET", f"/api/reservations?{urlencode(without_none(filter))}")

    def answer(self, request: str, what: str, body: Mapping[str, Any]) -> Call:
        return self.own("POST", f"unlock-requests/{quote(request, safe='')}/{what}", without_none(body))

    def withdraw(self, request: str) -> Call:
        return self.own("DELETE", f"unlock-requests/{quote(request, safe='')}")


@dataclass
class Exchange:
    """One call over one connection. Closing it from another thread ends the call; a request that waits then leaves the
    server's queue."""

    server: Server
    call: Call
    _socket: Optional[socket.socket] = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)

    def close(self) -> None:
        self._is_closed = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def run(self) -> Any:
        try:
            status, headers, text = self._send()
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"no reply from {self.server.url}: {error or type(error).__name__}") from error
        return self._read(status, headers, text)

    def _send(self):
        parts, call, server = urlsplit(self.server.url), self.call, self.server
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        if parts.scheme not in kinds or not parts.hostname:
            raise ValueError(f"{server.url} is not an address that starts with http:// or https://")
        connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=server.timeout + call.wait)
        path = parts.path.rstrip("/") + call.path
        if server.repo is not None:
            path += ("&" if "?" in path else "?") + urlencode({"repo": server.repo})
        token = server.token if isinstance(server.token, str) else server.token()
        headers = {"authorization": f"Bearer {token}", "accept": "application/json", "content-type": "application/json"}
        try:
            connection.connect()
            self._socket = connection.sock
            if self._is_closed:
                raise ConnectionAbortedError("the call was cancelled")
            body = None if call.body is None else json.dumps(call.body).encode()
            connection.request(call.method, path, body=body, headers=headers)
            response = connection.getresponse()
            text = response.read(REPLY_BYTES_MAX + 1)
            return response.status, response.headers, text
        finally:
            connection.close()

    def _read(self, status: int, headers: Mapping[str, str], text: bytes) -> Any:
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        if isinstance(body, dict):
            if body.get("notices") and self.server.on_notices is not None:
                self.server.on_notices(body["notices"])
            if 200 <= status < 300:
                return body
            if isinstance(body.get("code"), str) and isinstance(body.get("error"), str):
                raise refusal(status, cast(api.ErrorBody, body), headers.get("retry-after"))
        raise DibsError(f"{self.server.url} sent status {status} and no answer of a git-dibs server", status)


RETRIES_MAX = 5
"""How often `acquire_with_retry` tries again without a timeout."""


class Retries:
    """When to try again. With a timeout, in seconds, the server's queue is used as long as there is time."""

    def __init__(self, max_retries: Optional[int], timeout: Optional[float]):
        self.end = None if timeout is None else time.monotonic() + timeout
        without_end = RETRIES_MAX if timeout is None else None
        self.max_retries = max_retries if max_retries is not None else without_end
        self.attempts = 0
        self.counted = 0
        self.after_wait: Optional[DibsError] = None
        """The refusal after a wait, which tells more than one without."""

    def wait_seconds(self) -> Optional[int]:
        """How long the next attempt may wait in the queue; none if it cannot."""
        if self.end is None:
            return None
        return min(max(int(self.end - time.monotonic()), 0), WAIT_SECONDS_MAX) or None

    def pause_after(self, error: DibsError) -> float:
        """The pause before the next attempt. Raises the error if there is none."""
        self.attempts += 1
        is_conflict = isinstance(error, ConflictError)
        # While there is time, a conflict is waited for. The queue takes whole seconds; the rest is made of pauses.
        if self.end is None or not is_conflict:
            self.counted += 1
        if error.code == "LOCK_ACQUISITION_FAILED":
            self.after_wait = error
        if not is_temporary(error) or isinstance(error, DeadlockError):
            raise error
        left = float("inf") if self.end is None else self.end - time.monotonic()
        if left <= 0 or (self.max_retries is not None and self.counted > self.max_retries):
            raise (self.after_wait if is_conflict and self.after_wait is not None else error)
        # After a conflict the server tells when the holder's time ends, which may be long.
        asked = 0.0 if is_conflict else (error.retry_after or 0.0)
        return min(max(backoff(self.attempts), asked), left)


class HeldKeys:
    """What a session holds, for both clients."""

    def __init__(
        self, server: Server, reservations: List[api.Reserved], ttl_seconds: Optional[int], since: Optional[float]
    ):
        """`since`: when the keys were surely not granted yet, by the monotonic clock; none if they are not renewed."""
        self._server = server
        self._ttl_seconds = ttl_seconds
        self.reservations = reservations
        """One for each key, in the order of the request."""
        self._lost: Optional[DibsError] = None
        self._is_released = False
        self._confirmed_at = since

    @property
    def lost(self) -> Optional[DibsError]:
        """Why the keys are lost: they expired, an admin took them away, or the session ended; also because their time has
        passed since the last renewal that got through. None while they are held. With `renew=False` nothing watches."""
        if self._lost is None and self._confirmed_at is not None and not self._is_released:
            # The server need not tell, and may be out of reach. No clock of the server takes part.
            if time.monotonic() >= self._confirmed_at + self._shortest():
                sentence = "the reservation ran out, because no renewal got through"
                self._lost = SessionEndedError(sentence, code="LOCK_TIMEOUT")
        return self._lost

    @property
    def paths(self) -> List[str]:
        return [one["filePath"] for one in self.reservations]

    @property
    def fence(self) -> int:
        """The fencing number of the first key: grows with every grant in the repository."""
        return self.reservations[0]["fence"]

    @property
    def version(self) -> int:
        """The version of the first key: one more each time a holder releases it."""
        return self.reservations[0]["version"]

    def check(self) -> None:
        """Raises the error if the keys are lost."""
        lost = self.lost
        if lost is not None:
            raise lost

    def _call(self, what: str, ttl_seconds: Optional[int] = None) -> Call:
        """A renewal or a release."""
        encoding = next((one["encoding"] for one in self.reservations if one.get("encoding")), None)
        body = {"filePaths": self.paths, "encoding": encoding, "ttlSeconds": ttl_seconds}
        return self._server.own("POST", f"files/{what}", without_none(body))

    def _renewed(self, reply: Any, sent: float) -> None:
        for one, renewed in zip(self.reservations, reply["reservations"]):
            one["expiresAt"] = renewed["expiresAt"]
        if self._confirmed_at is not None:
            self._confirmed_at = max(self._confirmed_at, sent)

    def _shortest(self) -> float:
        return min(one["ttlSeconds"] for one in self.reservations)

    def _every(self) -> float:
        """The time between two renewals, in seconds: a third of the shortest reservation, so that one or two lost ones do
        no harm."""
        return min(max(self._shortest() / 3, 0.25), 60.0)

    def _pause_after(self, error: DibsError) -> Optional[float]:
        """The time until the next renewal after a failed one; None if the keys are lost."""
        if self.lost is not None:
            return None
        if not is_refusal(error):
            # What cannot be reached now may be reached in time.
            return min(self._every(), 1.0)
        is_end = isinstance(error, SessionEndedError)
        self._lost = error if is_end else SessionEndedError(str(error), error.status, error.body)
        return None


def listed(paths: Paths) -> List[str]:
    return [paths] if isinstance(paths, str) else list(paths)


def without_none(fields: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _session_of(token: str) -> Optional[str]:
    """The session that a token belongs to."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        is_session = claims.get("scope", "session") == "session"
        return claims.get("sid") or (claims.get("sub") if is_session else None)
    except (ValueError, IndexError, AttributeError):
        return None
