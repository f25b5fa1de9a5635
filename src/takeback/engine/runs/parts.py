"""What a run is made of, for all that happens in it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from takeback.engine.gate.gate import Gate
from takeback.engine.gate.rules import Judging
from takeback.engine.locks.guard import LockGuard
from takeback.engine.locks.leases import Leases
from takeback.engine.rollback.rollback import Rollbacks
from takeback.engine.runs.recorded_calls import RecordedCalls
from takeback.engine.runs.workflow_file import KeptFile
from takeback.engine.tracking.tracker import Tracker
from takeback.ports.databases import Databases


class RunParts(msgspec.Struct, frozen=True):
    """What a run is made of."""

    tracker: Tracker
    rollbacks: Rollbacks
    calls: RecordedCalls
    judging: Judging
    gate: Gate
    recover: Callable[[], None]
    file: KeptFile
    databases: Databases
    deliver: Callable[[str], object]
    leases: Leases
    locks: LockGuard
