"""What runs are made of, and how a run is to go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

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
from takeback.engine.runs.declare import refuse_idle
from takeback.engine.runs.recorded_calls import RecordedCalls
from takeback.engine.runs.workflow_file import KeptFile
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import UsageError
from takeback.ports.clock import Clock
from takeback.ports.databases import Databases

CHECKPOINTS = ("action", "step", "run")


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of one workspace share."""

    root: Path
    tracker: Tracker
    rollbacks: Rollbacks
    calls: RecordedCalls
    clock: Clock
    databases: Databases
    leases: Leases
    locks: LockGuard
    judges: Callable[[Sequence[str]], Judging]
    """The rules, for a run that looks at these places outside the workspace."""
    recover: Callable[[], None]
    deliver: Callable[[str], object]


class RunParts(SharedParts, frozen=True, kw_only=True):
    """What one run is made of."""

    judging: Judging
    gate: Gate
    file: KeptFile


class Options(msgspec.Struct, frozen=True):
    """How a run is to go: what is recorded of it, and what only the process at work needs to know."""

    began: RunBegan
    """The event with which it begins."""
    checkpoint: str = "step"
    on_conflict: OnConflict = OnConflict.KEEP
    invariants: tuple[Callable[[], object], ...] = ()
    wait_s: float = 60.0
    deliver: bool = False
    """Whether the run delivers by itself what it deferred, once it has committed."""
    steps: tuple[str, ...] = ()
    """What is to be kept in a workflow file, for a restart by something that knows no more than that."""
    roots: tuple[str, ...] = ()
    """Places outside the workspace that are looked at as long as the run is at work."""

    def checked(self) -> Options:
        """Return these options with the name as it may be recorded; UsageError where they cannot be meant."""
        name = text_of("the name of the run", self.began.name)
        key = text_of("the key of the run", self.began.key)
        for invariant in self.invariants:
            refuse_idle("of the run", invariant=invariant)
        seconds_of("wait_s", self.wait_s)
        if self.checkpoint not in CHECKPOINTS:
            raise UsageError(
                f"{self.checkpoint!r} is no checkpoint granularity", hint="one of action, step, run"
            )
        began = msgspec.structs.replace(self.began, name=redact(name), key=key)
        return msgspec.structs.replace(self, began=began)
