"""Takeback: the undo layer for AI agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback._version import __version__
from takeback.core.change import ABSENT
from takeback.errors import (
    BackendError,
    ConflictError,
    CorruptionError,
    DriftError,
    LeaseLost,
    RefusedError,
    RollbackIncomplete,
    RunBusy,
    TakebackError,
    UsageError,
)

if TYPE_CHECKING:
    from takeback.opening import open_workspace as open  # noqa: A004  takeback.open is the name
    from takeback.workspace import Workspace
else:

    def __getattr__(name: str) -> object:
        # What opens files is loaded when it is used, so that `import takeback` stays light.
        if name not in ("open", "Workspace"):
            raise AttributeError(f"module 'takeback' has no attribute {name!r}")
        from takeback import opening

        return opening.open_workspace if name == "open" else opening.Workspace


__all__ = [
    "ABSENT",
    "BackendError",
    "ConflictError",
    "CorruptionError",
    "DriftError",
    "LeaseLost",
    "RefusedError",
    "RollbackIncomplete",
    "RunBusy",
    "TakebackError",
    "UsageError",
    "Workspace",
    "__version__",
    "open",
]
