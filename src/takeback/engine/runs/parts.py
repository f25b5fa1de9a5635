"""What runs work with: what all runs of a workspace share, and what each has of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from takeback.engine.gate.gate import Gate, Judge
from takeback.engine.locks.guard import LockGuard
from takeback.engine.locks.leases import Leases
from takeback.engine.rollback.rollback import Rollbacks
from takeback.engine.runs.recorded_calls import RecordedCalls
from takeback.engine.runs.workflow_file import KeptFile
from takeback.engine.tracking.tracker import Tracker
from takeback.ports.clock import Clock
from takeback.ports.databases import Databases


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
    judges: Callable[[Sequence[str]], Judge]
    """The rules, for a run that looks at these places outside the workspace."""
    recover: Callable[[], None]
    deliver: Callable[[str], object]


class RunParts(SharedParts, frozen=True, kw_only=True):
    """What one run is made of."""

    gate: Gate
    file: KeptFile
