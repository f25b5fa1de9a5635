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
    """What a model gave is not what was asked for; nothing of it was applied."""

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
        """Where in the value, like `$.items[2].name`; empty where it is no JSON at all."""
        self.line = line
        self.column = column
        self.truncated = truncated
        """Whether it just ends too early, so that asking for the rest, or for more room, may help."""


class ConflictError(TakebackError):
    """Somebody else wrote, or holds what is needed; nothing was changed."""

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
    """Another one has the lock; nothing was locked."""

    code = "locked"

    def __init__(self, message: str, hint: str = "", *, holders: Any = ()) -> None:
        super().__init__(message, hint)
        self.holders = holders


class Deadlock(LeaseHeld):
    """Those who have the locks wait for each other, and this one gave up; nothing was locked."""

    code = "deadlock"


class LeaseLost(ConflictError):
    """The time-bound right is not held any more: another took it when it had run out, or a human released it."""

    code = "lease-lost"


class SeatLost(ConflictError):
    """The workspace is worked on in another folder; nothing was recorded."""

    code = "moved"


class SeatHeld(RunBusy):
    """The folder that the workspace is in still shows signs of life; nothing was moved."""

    code = "seated"

    def __init__(self, message: str, hint: str = "", *, left_s: float = 0.0) -> None:
        super().__init__(message, hint)
        self.left_s = left_s
        """When it can be had if nothing is heard from there any more."""


class RefusedError(ConflictError):
    """Policy or safety says no; nothing was started."""

    code = "refused"

    def __init__(self, message: str, hint: str = "", *, how: str = "", report: Any = None) -> None:
        super().__init__(message, hint, report=report)
        self.how = how
        """How whoever owns the rules could allow it. For a human: a model might do it, so `str()` leaves it out."""


class RefusedByRule(RefusedError):
    """A rule that a human wrote down says no to a command; nothing was started."""


class InvariantBroken(ConflictError):
    """Something that must hold does not; the run stops at once, and nothing is tried again."""

    code = "invariant"


class HandedOver(ConflictError):
    """The run waits for a human; what it did so far stays."""

    code = "handed-over"


class JournalMoved(ConflictError):
    """Another process appended first, so the caller decided on an old view."""

    code = "journal-moved"


class StoreMoved(ConflictError):
    """The history is kept elsewhere by now, or is on its way; nothing was recorded here."""

    code = "moved"


class BackendError(TakebackError):
    """Something outside failed: the disk, the database, a service."""

    exit_code = 4
    code = "backend"

    def __init__(self, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message, hint)
        self.retryable = retryable


class NoRoom(BackendError):
    """The disk is full."""


class DeliveryFailed(BackendError):
    """What was deferred did not get through. A handler may raise it to say more than that it failed."""

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
        """When to try again; else with growing pauses."""
        self.unsure = unsure
        """Whether it may have been delivered all the same."""


class CorruptionError(TakebackError):
    """Stored data is not what was stored."""

    exit_code = 5
    code = "corrupt"


class ContentGone(CorruptionError):
    """Content that is not kept any more, or was lost: nothing of it is there, damaged or not."""


class FormatTooNew(TakebackError):
    """Written by a newer Takeback; this one would misread it, so it does not touch it."""

    exit_code = 4
    code = "format-too-new"


class RollbackIncomplete(TakebackError):
    """A rollback ended with items that are not done or not verified; the report names them."""

    exit_code = 6
    code = "incomplete"

    def __init__(self, message: str, hint: str = "", *, report: Any = None) -> None:
        super().__init__(message, hint)
        self.report = report
