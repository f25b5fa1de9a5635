"""How a run is to go."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from takeback.core.rollback import OnConflict


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
