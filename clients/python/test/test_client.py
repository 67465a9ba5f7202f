"""The clients against a real server. Started by tests/it/clients.rs, with the server's address and tokens in the
environment: DIBS_URL, DIBS_TOKEN (session ana), BO_TOKEN (session bo), PAUSED_TOKEN (session carl of feature F),
ADMIN_TOKEN."""

import asyncio
import os
import socket
import threading
import time
import unittest
from datetime import datetime
from pathlib import Path

import git_dibs
from git_dibs import AsyncClient, Call, Client, ConflictError, DeadlockError, DibsError, PausedError, SessionEndedError
from git_dibs._calls import backoff

URL = os.environ["DIBS_URL"]
BO = os.environ["BO_TOKEN"]


def until(what, look):
    """Looks until there is something to see."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain until {what}")


async def until_async(what, look):
    return await asyncio.to_thread(until, what, look)


def seconds(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()


class Base(unittest.TestCase):
    def setUp(self):
        self.ana, self.bo = Client(), Client(URL, BO)
        self.addCleanup(lambda: (self.ana.release_all(), self.bo.release_all()))

    def held(self):
        return [f"{one['sessionId']} {one['filePath']}" for one in self.ana.reservations()["reservations"]]

    def waiters(self):
        return self.ana.call(Call("GET", "/api/stats"))["waiters"]

    def cut(self, client):
        """From now on no reply reaches the client. Returns how to mend it."""
        hole = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(hole.close)
        server, before = client._server, (client._server.url, client._server.timeout)
        server.url, server.timeout = f"http://127.0.0.1:{hole.getsockname()[1]}", 2.0

        def mend():
            server.url, server.timeout = before

        return mend

    def until_bo_has_it(self):
        def take():
            try:
                return self.bo.reserve("a")
            except ConflictError:
                return None

        until("another session has it", take)

    def override(self, reservation):
        admin = Client(URL, os.environ["ADMIN_TOKEN"], session="ops")
        path = f"/api/reservations/{reservation.reservations[0]['reservationId']}"
        admin.call(Call("DELETE", path, {"reason": "release night"}))


class Blocking(Base):
    def test_the_session_is_read_from_the_token(self):
        self.assertEqual(self.ana.session, "ana")
        with self.assertRaises(ValueError):
            Client(URL, os.environ["ADMIN_TOKEN"])
        with self.assertRaises(ValueError):
            Client(URL, "nonsense")

    def test_a_block_holds_and_releases_however_it_ends(self):
        with self.ana.reservation(["src/a.py", "docs/**"], reason="parser") as held:
            self.assertEqual(self.held(), ["ana src/a.py", "ana docs/**"])
            self.assertGreater(held.fence, 0)
        self.assertEqual(self.held(), [])
        with self.assertRaises(ZeroDivisionError):
            with self.ana.reservation("src/a.py"):
                1 / 0
        self.assertEqual(self.held(), [])

    def test_a_conflict_is_typed(self):
        self.ana.reserve("src/**", reason="parser")
        with self.assertRaises(ConflictError) as caught:
            self.bo.reserve(["README", "src/a.py"])
        error = caught.exception
        self.assertEqual((error.code, error.status, error.reserved_by), ("RESOURCE_LOCKED", 409, "ana"))
        self.assertEqual((error.conflicts[0]["key"], error.conflicts[0]["reason"]), ("src/**", "parser"))
        self.assertEqual(self.bo.check(["README", "src/a.py"])["clear"], ["README"])

    def test_what_is_held_is_renewed_in_the_background(self):
        held = self.ana.reserve("a", ttl_seconds=2)
        first = seconds(held.reservations[0]["expiresAt"])
        late = lambda one: seconds(one["expiresAt"]) > first + 2.5
        until("it is renewed past its time", lambda: any(map(late, self.ana.reservations()["reservations"])))
        held.check()
        held.release()
        held.release()
        self.assertEqual(self.held(), [])

    def test_a_holder_learns_that_its_reservation_is_lost(self):
        held = self.ana.reserve("a", ttl_seconds=1)
        self.override(held)
        until("it is known to be lost", lambda: held.lost is not None)
        with self.assertRaises(SessionEndedError):
            held.check()

    def test_a_holder_that_cannot_be_reached_learns_that_its_reservation_ran_out(self):
        far = Client()
        held = far.reserve("a", ttl_seconds=1)
        mend = self.cut(far)
        self.until_bo_has_it()
        with self.assertRaises(SessionEndedError) as caught:
            held.check()
        self.assertEqual(caught.exception.code, "LOCK_TIMEOUT")
        mend()
        # What is lost is not released: another session has it.
        held.release()
        self.assertEqual(self.held(), ["bo a"])

    def test_a_release_that_failed_can_be_repeated(self):
        far = Client()
        held = far.reserve("a")
        mend = self.cut(far)
        with self.assertRaises(git_dibs.UnreachableError):
            held.release()
        self.assertEqual(self.held(), ["ana a"])
        mend()
        held.release()
        self.assertEqual(self.held(), [])

    def test_acquire_with_retry_does_not_give_up_before_its_time(self):
        self.ana.reserve("a")
        for timeout, retries in ((0.9, None), (1.5, 0)):
            end = time.monotonic() + timeout
            with self.assertRaises(ConflictError):
                self.bo.acquire_with_retry("a", max_retries=retries, timeout=timeout)
            self.assertGreaterEqual(time.monotonic(), end)

    def test_a_wait_is_granted_in_turn(self):
        held = self.ana.reserve("a")
        thread = threading.Thread(target=lambda: self.bo.reserve("a", wait_seconds=60))
        thread.start()
        until("it waits", lambda: self.waiters() == 1)
        held.release()
        thread.join(60)
        self.assertEqual(self.held(), ["bo a"])

    def test_acquire_with_retry_gives_up_after_its_retries_or_its_time(self):
        self.ana.reserve("deploy://api-prod")
        with self.assertRaises(ConflictError):
            self.bo.acquire_with_retry("deploy://api-prod", max_retries=2)
        with self.assertRaises(ConflictError):
            self.bo.acquire_with_retry("deploy://api-prod", timeout=1.5)
        with self.assertRaises(ConflictError) as caught:
            self.bo.acquire_with_retry("deploy://api-prod", max_retries=0, timeout=1.5)
        self.assertEqual(caught.exception.code, "LOCK_ACQUISITION_FAILED")
        with self.assertRaises(DibsError) as caught:
            self.bo.acquire_with_retry("../x")
        self.assertEqual(caught.exception.code, "INVALID_PATH")
        with self.assertRaises(git_dibs.UnreachableError):
            Client("http://127.0.0.1:9", BO).acquire_with_retry("a", max_retries=1)

    def test_collaborative_holders_hold_beside_each_other(self):
        first = self.ana.acquire_with_retry("env:notes", "collaborative")
        self.bo.acquire_with_retry("env:notes", "collaborative").release()
        first.release()
        self.assertGreater(self.ana.acquire_with_retry("env:notes").version, first.version)

    def test_pauses_double_up_to_a_second(self):
        for failures, base in enumerate((0.1, 0.2, 0.4, 0.8, 1.0, 1.0), 1):
            for _ in range(100):
                self.assertTrue(0.75 * base <= backoff(failures) <= 1.25 * base)

    def test_a_wait_that_would_never_end_is_refused(self):
        self.ana.reserve("a")
        self.bo.reserve("b")
        thread = threading.Thread(target=lambda: self.ana.reserve("b", wait_seconds=60))
        thread.start()
        until("it waits", lambda: self.waiters() == 1)
        with self.assertRaises(DeadlockError) as caught:
            self.bo.reserve("a", wait_seconds=60)
        self.assertEqual(len(caught.exception.cycle), 2)
        self.bo.release_all()
        thread.join(60)

    def test_unlock_requests_go_both_ways_and_notices_arrive(self):
        notices = []
        ana = Client(on_notices=notices.extend)
        ana.reserve("a")
        request = self.bo.request_unlock("a", "hot fix")
        self.assertEqual(ana.unlock_requests()["incoming"][0]["id"], request["id"])
        self.assertEqual(notices[0]["kind"], "unlockRequested")
        self.assertEqual(ana.reject(request["id"], "an hour more")["status"], "rejected")
        again = self.bo.request_unlock("a", "please")
        self.assertEqual(self.bo.withdraw(again["id"])["status"], "withdrawn")
        ana.approve(self.bo.request_unlock("a", "now?")["id"], hand_over=True)
        self.assertEqual(self.held(), ["bo a"])

    def test_version_and_types_are_published(self):
        self.assertTrue((Path(git_dibs.__file__).parent / "py.typed").exists())


class Asynchronous(Base):
    def test_a_block_holds_and_is_renewed(self):
        async def work():
            async with AsyncClient().reservation(["a", "b"], ttl_seconds=2) as held:
                first = seconds(held.reservations[0]["expiresAt"])
                late = lambda one: seconds(one["expiresAt"]) > first + 2.5
                await until_async("renewed", lambda: any(map(late, self.ana.reservations()["reservations"])))
                held.check()
            self.assertEqual(self.held(), [])

        asyncio.run(work())

    def test_a_cancelled_wait_leaves_the_queue(self):
        async def work():
            self.ana.reserve("a")
            bo = AsyncClient(URL, BO)
            waiting = asyncio.ensure_future(bo.reserve("a", wait_seconds=60))
            await until_async("it waits", lambda: self.waiters() == 1)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            await until_async("it has left the queue", lambda: self.waiters() == 0)
            with self.assertRaises(ConflictError):
                await bo.acquire_with_retry("a", max_retries=1)

        asyncio.run(work())

    def test_a_holder_learns_that_its_reservation_is_lost(self):
        async def work():
            held = await AsyncClient().reserve("a", ttl_seconds=1)
            self.override(held)
            await until_async("it is known to be lost", lambda: held.lost is not None)
            self.assertIsInstance(held.lost, SessionEndedError)

        asyncio.run(work())

    def test_a_holder_that_cannot_be_reached_learns_that_its_reservation_ran_out(self):
        async def work():
            far = AsyncClient()
            held = await far.reserve("a", ttl_seconds=1)
            mend = self.cut(far)
            await asyncio.to_thread(self.until_bo_has_it)
            self.assertEqual(held.lost.code, "LOCK_TIMEOUT")
            mend()
            await held.release()
            request = await far.request_unlock("a", "please")
            self.assertEqual((await far.withdraw(request["id"]))["status"], "withdrawn")

        asyncio.run(work())

    def test_a_release_that_failed_can_be_repeated(self):
        async def work():
            far = AsyncClient()
            held = await far.reserve("a")
            mend = self.cut(far)
            with self.assertRaises(git_dibs.UnreachableError):
                await held.release()
            mend()
            await held.release()
            self.assertEqual(self.held(), [])

        asyncio.run(work())

    def test_the_queue_is_used_while_there_is_time(self):
        async def work():
            held = self.ana.reserve("a")
            waiting = asyncio.ensure_future(AsyncClient(URL, BO).acquire_with_retry("a", timeout=60))
            await until_async("it waits", lambda: self.waiters() == 1)
            held.release()
            self.assertEqual((await waiting).paths, ["a"])

        asyncio.run(work())


class LastOfAll(Base):
    """Ends a session, so it has one of its own."""

    def test_a_paused_feature_and_an_ended_session_are_errors_of_their_own(self):
        carl = Client(URL, os.environ["PAUSED_TOKEN"])
        with self.ana.reservation("feature:F:pause", reason="freeze"):
            with self.assertRaises(PausedError):
                carl.reserve("a")
        carl.reserve("a")
        self.assertEqual(carl.end("completed")["releasedCount"], 1)
        with self.assertRaises(SessionEndedError):
            carl.reserve("a")


if __name__ == "__main__":
    unittest.main()
