"""What a run is made of, and how it is to go."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from takeback.core.events import Process, RunBegan
from takeback.core.rollback import OnConflict
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


class Options(msgspec.Struct, frozen=True):
    """How a run is to go."""

    name: str
    key: str = ""
    checkpoint: str = "step"
    on_conflict: OnConflict = OnConflict.KEEP
    invariants: tuple[Callable[[], object], ...] = ()
    actor: str = ""
    session: str = ""
    parent: str = ""
    ref: str = ""
    command: tuple[str, ...] = ()
    folder: str = ""
    autopilot: bool = False
    wait_s: float = 60.0
    deliver: bool = False
    """Whether the run delivers by itself what it deferred, once it has committed."""
    steps: tuple[str, ...] = ()
    """What is to be kept in a workflow file, for a restart by something that knows no more than that."""

    roots: tuple[str, ...] = ()
    """Places outside the workspace that are looked at as long as the run is at work."""

    def began(
        self, *, generation: int = 1, detached: bool = False, process: Process | None = None
    ) -> RunBegan:
        """The event with which such a run begins."""
        return RunBegan(
            self.name,
            self.key,
            self.actor,
            self.session,
            self.parent,
            self.ref,
            generation,
            self.command,
            self.autopilot,
            self.folder,
            detached=detached,
            process=process,
        )
