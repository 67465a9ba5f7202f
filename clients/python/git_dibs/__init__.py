"""A client for the git-dibs server: reserve files before you change them. Standard library only.

`Client` blocks; `AsyncClient` is the same for asyncio. What they send and receive is typed in `git_dibs.api`."""

from ._calls import Call
from .aio import AsyncClient, AsyncReservation
from .client import Client, Reservation
from .errors import ConflictError, DeadlockError, DibsError, PausedError, SessionEndedError, UnreachableError

__all__ = [
    "AsyncClient",
    "AsyncReservation",
    "Call",
    "Client",
    "ConflictError",
    "DeadlockError",
    "DibsError",
    "PausedError",
    "Reservation",
    "SessionEndedError",
    "UnreachableError",
]
