"""The faults that the chaos kit causes: what happens, and whether the effect of the call is there by then."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

import msgspec

from takeback.errors import UsageError

RETRY_AFTER_S = 1


class KeyRefused(Exception):
    """A service does not accept the agent's key any more: 401 or 403."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status} {'Unauthorized' if status == 401 else 'Forbidden'}")
        self.status = status


class RateLimited(ConnectionError):
    """A service wants to be asked later: 429 with Retry-After. It is temporary, as a cut connection is."""

    def __init__(self) -> None:
        super().__init__(f"429 Too Many Requests, Retry-After: {RETRY_AFTER_S}")
        self.status = 429
        self.headers = {"Retry-After": str(RETRY_AFTER_S)}


class ChaosError(RuntimeError):
    """An error that nothing in the agent expects."""


class Fault(msgspec.Struct, frozen=True):
    """One kind of fault. Give `raises` of your own if your client raises other exceptions."""

    name: str
    raises: Callable[[], BaseException] | None = None
    """Makes the exception that the call raises."""
    after: bool = False
    """True if the effect is done and only the answer is lost."""
    lasting: bool = False
    """True if from then on every call and every handler fails, until the agent has ended."""
    slow_s: float = 0.0
    """How long the call waits before it does what it should."""
    malformed: bool = False
    """True if the output of a model is cut in the middle: of a call without effect, or of `run.buffered`."""
    at_steps: bool = False
    """True if it can also happen at the end of a step and of the run."""
    in_process: bool = True
    """False if it takes processes of its own, and so a workspace on disk and a service outside of the process."""


def _disk_full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


KILL = "kill"
TWO = "two at once"

_EVERY = (
    Fault("exception", lambda: ChaosError("the chaos kit lets this fail"), at_steps=True),
    Fault("timeout", lambda: TimeoutError("timed out"), at_steps=True),
    Fault("401", lambda: KeyRefused(401), lasting=True, at_steps=True),
    Fault("403", lambda: KeyRefused(403), lasting=True, at_steps=True),
    Fault("429", RateLimited),
    Fault("connection cut", lambda: ConnectionResetError("connection reset by peer")),
    Fault("answer lost", lambda: ConnectionResetError("connection reset by peer"), after=True),
    Fault("slow", slow_s=0.005),
    Fault("malformed output", malformed=True),
    Fault("full disk", _disk_full, at_steps=True),
    Fault(KILL, in_process=False),
    Fault(TWO, in_process=False),
)
FAULTS = {fault.name: fault for fault in _EVERY}
"""Every fault of the kit, by its name."""
IN_PROCESS = tuple(fault.name for fault in _EVERY if fault.in_process)
"""The names of the faults that need no process of their own: what the kit causes in memory, by default."""


def named(faults: Sequence[str | Fault]) -> tuple[Fault, ...]:
    """Return the faults with these names. Raise UsageError for a name that is not one."""
    found: list[Fault] = []
    for one in faults:
        fault = one if isinstance(one, Fault) else FAULTS.get(one)
        if fault is None:
            raise UsageError(
                f"{one!r} is not a fault; nothing was run", hint=f"use one of {', '.join(FAULTS)}"
            )
        found.append(fault)
    if not found:
        raise UsageError("no fault was named, so nothing would be tried", hint='faults=["exception"]')
    return tuple(found)
