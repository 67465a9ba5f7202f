"""The client for asyncio. A call runs in a thread; cancelling the task closes its connection, so that a request that waits
leaves the server's queue."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Callable, List, Optional, Union

from . import api
from ._calls import TIMEOUT, Call, Exchange, HeldKeys, Paths, Retries, Server, listed, without_none
from .errors import DibsError


class AsyncClient:
    """Acts for one session, as `Client` does."""

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

    async def reserve(
        self,
        paths: Paths,
        mode: Optional[api.RequestMode] = None,
        reason: Optional[str] = None,
        ttl_seconds: Optional[int] = None,
        wait_seconds: Optional[int] = None,
        renew: bool = True,
        **more: Any,
    ) -> "AsyncReservation":
        """Reserves keys, all of them or none, and renews them in the background until they are released."""
        sent = time.monotonic()
        reply = await self.call(self._server.reserve(paths, mode, reason, ttl_seconds, wait_seconds, more))
        # The reply to a request that waited does not tell when it was granted. The first renewal, at once, does.
        since, first = (time.monotonic(), 0.0) if wait_seconds else (sent, None)
        return AsyncReservation(self, reply["reservations"], ttl_seconds, renew, since, first)

    @asynccontextmanager
    async def reservation(self, paths: Paths, **options: Any) -> AsyncIterator["AsyncReservation"]:
        """Holds the keys in an `async with` block and releases them at its end. The options are those of `reserve`."""
        held = await self.reserve(paths, **options)
        try:
            yield held
        finally:
            try:
                await asyncio.shield(held.release())
            except DibsError:
                # What the block came to counts, not that the server is gone by now.
                pass

    async def acquire_with_retry(
        self,
        resource: str,
        mode: api.RequestMode = "exclusive",
        max_retries: Optional[int] = None,
        timeout: Optional[float] = None,
        **options: Any,
    ) -> "AsyncReservation":
        """Acquires one resource, as `Client.acquire_with_retry` does."""
        retries = Retries(max_retries, timeout)
        while True:
            try:
                return await self.reserve(resource, mode=mode, wait_seconds=retries.wait_seconds(), **options)
            except DibsError as error:
                await asyncio.sleep(retries.pause_after(error))

    async def release(self, paths: Paths) -> api.Released:
        """Releases keys. Releasing what the session does not hold is no error."""
        return await self.call(self._server.own("POST", "files/release", {"filePaths": listed(paths)}))

    async def release_all(self) -> api.ReleasedAll:
        return await self.call(self._server.own("POST", "files/release-all", {}))

    async def check(self, paths: Paths, **options: Any) -> api.CheckReply:
        """Asks which reservations are in the way of the session."""
        return await self.call(self._server.own("POST", "files/check-conflicts", {**options, "paths": listed(paths)}))

    async def reservations(self, **filter: Any) -> api.ReservationList:
        """One page of what is held in the repository: prefix, session, limit, cursor."""
        return await self.call(self._server.list(filter))

    async def heartbeat(self) -> api.Heartbeat:
        """Tells that the session is alive, which renews everything it holds."""
        return await self.call(self._server.own("POST", "heartbeat", {}))

    async def end(self, state: Optional[api.EndState] = None) -> api.Ended:
        """Ends the session, which releases everything it holds."""
        return await self.call(self._server.own("POST", "end", without_none({"state": state})))

    async def request_unlock(self, path: str, reason: str) -> api.UnlockRequestInfo:
        """Asks the holder of a key to release it."""
        return await self.call(self._server.own("POST", "unlock-requests", {"filePath": path, "reason": reason}))

    async def unlock_requests(self) -> api.UnlockRequests:
        return await self.call(self._server.own("GET", "unlock-requests"))

    async def approve(self, request: str, hand_over: Optional[bool] = None) -> api.UnlockRequestInfo:
        """Releases what another session asked for."""
        return await self.call(self._server.answer(request, "approve", {"handOver": hand_over}))

    async def reject(self, request: str, note: Optional[str] = None) -> api.UnlockRequestInfo:
        """Keeps what another session asked for."""
        return await self.call(self._server.answer(request, "reject", {"note": note}))

    async def withdraw(self, request: str) -> api.UnlockRequestInfo:
        """Takes the session's own request back."""
        return await self.call(self._server.withdraw(request))

    async def call(self, call: Call) -> Any:
        """Makes one call, also one that this class has no method for: `Call("GET", "/api/stats")`."""
        exchange = Exchange(self._server, call)
        running = asyncio.ensure_future(asyncio.to_thread(exchange.run))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            exchange.close()
            # The thread ends now; what it came to is of no interest.
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise


class AsyncReservation(HeldKeys):
    """What a session holds. It is renewed in the background until it is released."""

    def __init__(
        self,
        client: AsyncClient,
        reservations: List[api.Reserved],
        ttl_seconds: Optional[int],
        renew: bool,
        since: float,
        first: Optional[float],
    ):
        super().__init__(client._server, reservations, ttl_seconds, since if renew else None)
        self._client = client
        pause = self._every() if first is None else first
        self._renewal = asyncio.ensure_future(self._renew_until_released(pause)) if renew else None

    async def renew(self) -> None:
        """Renews now. Raises SessionEndedError if a key has expired in the meantime."""
        sent = time.monotonic()
        self._renewed(await self._client.call(self._call("renew", self._ttl_seconds)), sent)

    async def release(self) -> None:
        """Releases the keys and stops renewing them. If it fails, it can be repeated; once they are released or lost, it
        does nothing."""
        if self._renewal is not None:
            self._renewal.cancel()
        if self._is_released or self.lost is not None:
            return
        await self._client.call(self._call("release"))
        self._is_released = True

    async def __aenter__(self) -> "AsyncReservation":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.release()

    async def _renew_until_released(self, first: float) -> None:
        pause: Optional[float] = first
        while pause is not None:
            await asyncio.sleep(pause)
            try:
                await self.renew()
                pause = self._every()
            except DibsError as error:
                pause = self._pause_after(error)
