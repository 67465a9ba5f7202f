"""The client that blocks."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional, Union

from . import api
from ._calls import TIMEOUT, Call, Exchange, HeldKeys, Paths, Retries, Server, listed, without_none
from .errors import DibsError


class Client:
    """Acts for one session. Without arguments it takes what `git dibs run` passes to a command: DIBS_URL, DIBS_TOKEN,
    DIBS_SESSION, DIBS_REPO. May be used by several threads."""

    def __init__(
        self,
        url: Optional[str] = None,
        token: Union[str, Callable[[], str], None] = None,
        session: Optional[str] = None,
        repo: Optional[str] = None,
        timeout: float = TIMEOUT,
        on_notices: Optional[Callable[[List[api.Notice]], None]] = None,
    ):
        self._server = Server.new(url, token, session, repo, timeout, on_notices)

    @property
    def session(self) -> str:
        return self._server.session

    def reserve(
        self,
        paths: Paths,
        mode: Optional[api.RequestMode] = None,
        reason: Optional[str] = None,
        ttl_seconds: Optional[int] = None,
        wait_seconds: Optional[int] = None,
        renew: bool = True,
        **more: Any,
    ) -> "Reservation":
        """Reserves keys, all of them or none, and renews them in the background until they are released."""
        sent = time.monotonic()
        reply = self.call(self._server.reserve(paths, mode, reason, ttl_seconds, wait_seconds, more))
        # The reply to a request that waited does not tell when it was granted. The first renewal, at once, does.
        since, first = (time.monotonic(), 0.0) if wait_seconds else (sent, None)
        return Reservation(self, reply["reservations"], ttl_seconds, renew, since, first)

    @contextmanager
    def reservation(self, paths: Paths, **options: Any) -> Iterator["Reservation"]:
        """Holds the keys in a `with` block and releases them at its end. The options are those of `reserve`."""
        held = self.reserve(paths, **options)
        try:
            yield held
        finally:
            try:
                held.release()
            except DibsError:
                # What the block came to counts, not that the server is gone by now.
                pass

    def acquire_with_retry(
        self,
        resource: str,
        mode: api.RequestMode = "exclusive",
        max_retries: Optional[int] = None,
        timeout: Optional[float] = None,
        **options: Any,
    ) -> "Reservation":
        """Acquires one resource. With a timeout, in seconds, it waits in the server's queue; where that is not possible, it
        tries again after 0.1, 0.2, 0.4, 0.8, 1 s, up to a quarter longer or shorter. `max_retries` limits how often it
        does: 5 times without a timeout, and else until its end."""
        retries = Retries(max_retries, timeout)
        while True:
            try:
                return self.reserve(resource, mode=mode, wait_seconds=retries.wait_seconds(), **options)
            except DibsError as error:
                time.sleep(retries.pause_after(error))

    def release(self, paths: Paths) -> api.Released:
        """Releases keys. Releasing what the session does not hold is no error."""
        return self.call(self._server.own("POST", "files/release", {"filePaths": listed(paths)}))

    def release_all(self) -> api.ReleasedAll:
        return self.call(self._server.own("POST", "files/release-all", {}))

    def check(self, paths: Paths, **options: Any) -> api.CheckReply:
        """Asks which reservations are in the way of the session."""
        return self.call(self._server.own("POST", "files/check-conflicts", {**options, "paths": listed(paths)}))

    def reservations(self, **filter: Any) -> api.ReservationList:
        """One page of what is held in the repository: prefix, session, limit, cursor."""
        return self.call(self._server.list(filter))

    def heartbeat(self) -> api.Heartbeat:
        """Tells that the session is alive, which renews everything it holds."""
        return self.call(self._server.own("POST", "heartbeat", {}))

    def end(self, state: Optional[api.EndState] = None) -> api.Ended:
        """Ends the session, which releases everything it holds."""
        return self.call(self._server.own("POST", "end", without_none({"state": state})))

    def request_unlock(self, path: str, reason: str) -> api.UnlockRequestInfo:
        """Asks the holder of a key to release it."""
        return self.call(self._server.own("POST", "unlock-requests", {"filePath": path, "reason": reason}))

    def unlock_requests(self) -> api.UnlockRequests:
        return self.call(self._server.own("GET", "unlock-requests"))

    def approve(self, request: str, hand_over: Optional[bool] = None) -> api.UnlockRequestInfo:
        """Releases what another session asked for."""
        return self.call(self._server.answer(request, "approve", {"handOver": hand_over}))

    def reject(self, request: str, note: Optional[str] = None) -> api.UnlockRequestInfo:
        """Keeps what another session asked for."""
        return self.call(self._server.answer(request, "reject", {"note": note}))

    def withdraw(self, request: str) -> api.UnlockRequestInfo:
        """Takes the session's own request back."""
        return self.call(self._server.withdraw(request))

    def call(self, call: Call) -> Any:
        """Makes one call, also one that this class has no method for: `Call("GET", "/api/stats")`."""
        return Exchange(self._server, call).run()


class Reservation(HeldKeys):
    """What a session holds. It is renewed in the background until it is released."""

    def __init__(
        self,
        client: Client,
        reservations: List[api.Reserved],
        ttl_seconds: Optional[int],
        renew: bool,
        since: float,
        first: Optional[float],
    ):
        super().__init__(client._server, reservations, ttl_seconds, since if renew else None)
        self._client = client
        self._stop = threading.Event()
        if renew:
            pause = (self._every() if first is None else first,)
            target = self._renew_until_released
            threading.Thread(target=target, args=pause, daemon=True, name="git-dibs renewal").start()

    def renew(self) -> None:
        """Renews now. Raises SessionEndedError if a key has expired in the meantime."""
        sent = time.monotonic()
        self._renewed(self._client.call(self._call("renew", self._ttl_seconds)), sent)

    def release(self) -> None:
        """Releases the keys and stops renewing them. If it fails, it can be repeated; once they are released or lost, it
        does nothing."""
        self._stop.set()
        if self._is_released or self.lost is not None:
            return
        self._client.call(self._call("release"))
        self._is_released = True

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()

    def _renew_until_released(self, first: float) -> None:
        pause: Optional[float] = first
        while pause is not None and not self._stop.wait(pause):
            try:
                self.renew()
                pause = self._every()
            except DibsError as error:
                pause = None if self._stop.is_set() else self._pause_after(error)
