"""The parts of a run, and its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from takeback.core.events import RunBegan
from takeback.core.redact import redact
from takeback.core.rollback import OnConflict
from takeback.engine.gate.gate import Gate
from takeback.engine.gate.rules import Judging
from takeback.engine.locks.guard import LockGuard
from takeback.engine.locks.leases import Leases
from takeback.engine.rollback.rollback import Rollbacks
from takeback.engine.runs.checks import seconds_of, text_of
from takeback.engine.runs.declare import Declared, Function, refuse_idle
from takeback.engine.runs.recorded_calls import RecordedCalls
from takeback.engine.runs.workflow_file import KeptFile
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import UsageError
from takeback.ports.clock import Clock
from takeback.ports.databases import Databases

if TYPE_CHECKING:
    from takeback.engine.shadow.shadow import Shadow

Instead = Callable[[Function, Declared, str], Function]
"""Returns what a call makes instead of a function, by its declaration and the path of its step."""

CHECKPOINTS = ("action", "step", "run")
ON_FAILURE = ("undo", "pause", "draft")


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that all runs of one workspace share."""

    root: Path
    tracker: Tracker
    rollbacks: Rollbacks
    calls: RecordedCalls
    clock: Clock
    databases: Databases
    leases: Leases
    locks: LockGuard
    judges: Callable[[Sequence[str]], Judging]
    """Returns the judge for a run that looks at these places outside the workspace."""
    recover: Callable[[], None]
    deliver: Callable[[str], object]


class RunParts(SharedParts, frozen=True, kw_only=True):
    """The parts of one run."""

    judging: Judging
    gate: Gate
    file: KeptFile


class Options(msgspec.Struct, frozen=True):
    """The options of a run: those that are recorded, and those that only its process needs."""

    began: RunBegan
    """The event with which it begins."""
    checkpoint: str = "step"
    on_conflict: OnConflict = OnConflict.KEEP
    invariants: tuple[Callable[[], object], ...] = ()
    wait_s: float = 60.0
    deliver: bool = False
    """True if the run itself delivers what it deferred, once it has committed."""
    steps: tuple[str, ...] = ()
    """The steps to keep in a workflow file, for a restart by a program that knows only that file."""
    roots: tuple[str, ...] = ()
    """Places outside the workspace that are looked at while the run is open."""
    shadow: Shadow | None = None
    """What takes down the calls and messages that are only intended, if the run is a shadow."""
    instead: Instead | None = None
    """What its calls make instead of the functions themselves, in a rehearsal or a test."""
    on_failure: str = "undo"
    """What happens to a failed run: it is taken back, pauses after its completed steps, or is kept as a draft."""

    def checked(self) -> Options:
        """Return these options with the name redacted. Raise UsageError if they make no sense."""
        name = text_of("the name of the run", self.began.name)
        key = text_of("the key of the run", self.began.key)
        for invariant in self.invariants:
            refuse_idle("of the run", invariant=invariant)
        seconds_of("wait_s", self.wait_s)
        if self.checkpoint not in CHECKPOINTS:
            raise UsageError(
                f"{self.checkpoint!r} is not a checkpoint granularity", hint="use action, step or run"
            )
        if self.on_failure not in ON_FAILURE:
            raise UsageError(
                f"{self.on_failure!r} is not what can happen to a failed run", hint="use undo, pause or draft"
            )
        began = msgspec.structs.replace(self.began, name=redact(name), key=key)
        return msgspec.structs.replace(self, began=began)
