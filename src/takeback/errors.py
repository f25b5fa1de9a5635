"""Every error that Takeback raises on purpose.

A message says what failed and how the world is now; the hint says what to do next. The exit codes of the
command line belong to the classes, so that a script and a Python caller see the same distinction.
"""

from __future__ import annotations

from typing import Any, ClassVar


class TakebackError(Exception):
    """The root of all errors raised on purpose."""

    exit_code: ClassVar[int] = 4
    code: ClassVar[str] = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  Hint: {self.hint}" if self.hint else self.message


class UsageError(TakebackError):
    """The caller asked for something that makes no sense; nothing happened."""

    exit_code = 2
    code = "usage"


class InvalidOutput(UsageError):
    """A model's output is not what was asked for; nothing of it was applied."""

    code = "invalid-output"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        path: str = "",
        line: int = 0,
        column: int = 0,
        truncated: bool = False,
    ) -> None:
        super().__init__(message, hint)
        self.path = path
        """Where in the value, like `$.items[2].name`; empty if the output is not JSON at all."""
        self.line = line
        self.column = column
        self.truncated = truncated
        """Whether the output just ends too early, so that asking for the rest, or for more room, may help."""


class ConflictError(TakebackError):
    """Another process or person wrote, or holds what is needed; nothing was changed."""

    exit_code = 3
    code = "conflict"

    def __init__(self, message: str, hint: str = "", *, report: Any = None) -> None:
        super().__init__(message, hint)
        self.report = report


class DriftError(ConflictError):
    """The world differs from what was last recorded."""

    code = "drift"


class RunBusy(ConflictError):
    """An action is open, or another process holds the workspace."""

    code = "busy"


class LeaseHeld(RunBusy):
    """Another run holds the lock; nothing was locked."""

    code = "locked"

    def __init__(self, message: str, hint: str = "", *, holders: Any = ()) -> None:
        super().__init__(message, hint)
        self.holders = holders


class Deadlock(LeaseHeld):
    """The holders of the locks wait for each other, and this run gave up; nothing was locked."""

    code = "deadlock"


class LeaseLost(ConflictError):
    """The lease is no longer held: it expired and another took it, or a human released it."""

    code = "lease-lost"


class SeatLost(ConflictError):
    """The workspace has moved to another folder; nothing was recorded."""

    code = "moved"


class SeatHeld(RunBusy):
    """The folder that the workspace is in is still active; nothing was moved."""

    code = "seated"

    def __init__(self, message: str, hint: str = "", *, left_s: float = 0.0) -> None:
        super().__init__(message, hint)
        self.left_s = left_s
        """Seconds until the workspace can be taken, if that folder stays silent."""


class RefusedError(ConflictError):
    """A policy or safety rule forbids it; nothing was started."""

    code = "refused"

    def __init__(self, message: str, hint: str = "", *, how: str = "", report: Any = None) -> None:
        super().__init__(message, hint, report=report)
        self.how = how
        """How the owner of the rules could allow it. `str()` leaves it out: a model that reads it might do it."""


class RefusedByRule(RefusedError):
    """A rule that a human wrote forbids a command; nothing was started."""


class InvariantBroken(ConflictError):
    """Something that must hold does not; the run stops at once, without retries."""

    code = "invariant"


class ShadowEnded(ConflictError):
    """A shadow cannot go on: what comes next depends on what another system would have answered."""

    code = "shadow-ended"


class HandedOver(ConflictError):
    """The run waits for a human; what it did so far stays."""

    code = "handed-over"


class JournalMoved(ConflictError):
    """Another process appended first, so the caller decided on outdated data."""

    code = "journal-moved"


class StoreMoved(ConflictError):
    """The history is kept elsewhere now, or is being moved; nothing was recorded here."""

    code = "moved"


class BackendError(TakebackError):
    """Something outside Takeback failed: the disk, the database, a service."""

    exit_code = 4
    code = "backend"

    def __init__(self, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message, hint)
        self.retryable = retryable


class NoRoom(BackendError):
    """The disk is full."""


class DeliveryFailed(BackendError):
    """A deferred intent was not delivered. A handler may raise it to say more than that it failed."""

    code = "not-delivered"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        permanent: bool = False,
        again_s: float | None = None,
        unsure: bool = True,
    ) -> None:
        super().__init__(message, hint, retryable=not permanent)
        self.permanent = permanent
        """No further attempt can help."""
        self.again_s = again_s
        """Seconds until the next attempt; by default the pauses grow."""
        self.unsure = unsure
        """Whether it may have been delivered anyway."""


class CorruptionError(TakebackError):
    """Stored data differs from what was written."""

    exit_code = 5
    code = "corrupt"


class ContentGone(CorruptionError):
    """Content that is no longer kept, or was lost: none of it is left, not even damaged."""


class FormatTooNew(TakebackError):
    """Data written by a newer Takeback; this version would misread it, so it leaves it alone."""

    exit_code = 4
    code = "format-too-new"


class RollbackIncomplete(TakebackError):
    """A rollback ended with items that are not done or not verified; the report names them."""

    exit_code = 6
    code = "incomplete"

    def __init__(self, message: str, hint: str = "", *, report: Any = None) -> None:
        super().__init__(message, hint)
        self.report = report
