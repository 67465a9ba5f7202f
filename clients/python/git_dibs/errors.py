"""Why a call failed. Each class is a kind that a caller may want to handle."""

from __future__ import annotations

from typing import List, Optional

from . import api


class DibsError(Exception):
    """The server refused the call, or could not be reached."""

    def __init__(
        self,
        message: str,
        status: int = 0,
        body: Optional[api.ErrorBody] = None,
        retry_after: Optional[float] = None,
        code: Optional[api.Code] = None,
    ):
        super().__init__(message)
        self.status = status
        """The HTTP status; 0 if there was no response."""
        self.body = body
        self.code = body["code"] if body else code
        self.retry_after = retry_after
        """When to try again, in seconds, if the server told it."""


class ConflictError(DibsError):
    """Another session holds a key: RESOURCE_LOCKED, or LOCK_ACQUISITION_FAILED after a wait."""

    @property
    def conflicts(self) -> List[api.Conflict]:
        """What is in the way, with holder, time and reason."""
        return (self.body and self.body.get("conflicts")) or []

    @property
    def reserved_by(self) -> Optional[str]:
        return self.body.get("reservedBy") if self.body else None


class DeadlockError(ConflictError):
    """Waiting would never end, because sessions wait for each other: POSSIBLE_DEADLOCK."""

    @property
    def cycle(self) -> List[api.CycleStep]:
        return (self.body and self.body.get("cycle")) or []


class PausedError(DibsError):
    """The session's feature is paused: FEATURE_PAUSED."""


class SessionEndedError(DibsError):
    """The session has ended, or the reservation has expired: SESSION_ENDED, LOCK_TIMEOUT."""


class UnreachableError(DibsError):
    """No server answered, or it cannot answer now."""


_KINDS = {
    "RESOURCE_LOCKED": ConflictError,
    "LOCK_ACQUISITION_FAILED": ConflictError,
    "POSSIBLE_DEADLOCK": DeadlockError,
    "FEATURE_PAUSED": PausedError,
    "SESSION_ENDED": SessionEndedError,
    "LOCK_TIMEOUT": SessionEndedError,
    "UNAVAILABLE": UnreachableError,
}


def refusal(status: int, body: api.ErrorBody, retry_after: Optional[str]) -> DibsError:
    """The error for a refusal."""
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return _KINDS.get(body["code"], DibsError)(body["error"], status, body, seconds)


def is_temporary(error: DibsError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, (ConflictError, PausedError, UnreachableError)) or error.code == "QUOTA_EXCEEDED"


def is_refusal(error: DibsError) -> bool:
    """Whether the server refused the request, and will refuse it again."""
    return error.code is not None and not is_temporary(error)
