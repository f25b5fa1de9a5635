"""Takeback: the undo layer for AI agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback._version import __version__
from takeback.core.change import ABSENT
from takeback.errors import (
    BackendError,
    ConflictError,
    CorruptionError,
    DeliveryFailed,
    DriftError,
    HandedOver,
    InvalidOutput,
    InvariantBroken,
    LeaseLost,
    RefusedError,
    RollbackIncomplete,
    RunBusy,
    TakebackError,
    UsageError,
)

if TYPE_CHECKING:
    from takeback.core.subjects import Checkpoint
    from takeback.engine.actions import action, current_call
    from takeback.engine.diff import Diff
    from takeback.engine.report import RollbackReport
    from takeback.engine.runs import Run
    from takeback.engine.seam import Action, Ask, Denied
    from takeback.engine.sessions import Session
    from takeback.engine.steps import Step
    from takeback.opening import open_workspace as open  # noqa: A004  takeback.open is the name
    from takeback.resources.calls.resource import Call
    from takeback.workflows.steps import Workflow, workflow
    from takeback.workspace import Workspace
else:
    _LATER = {
        "open": "opening:open_workspace",
        "Call": "resources.calls.resource:Call",
        "Action": "engine.seam:Action",
        "Ask": "engine.seam:Ask",
        "Denied": "engine.seam:Denied",
        "Run": "engine.runs:Run",
        "Session": "engine.sessions:Session",
        "Step": "engine.steps:Step",
        "action": "engine.actions:action",
        "current_call": "engine.actions:current_call",
        "Checkpoint": "core.subjects:Checkpoint",
        "Diff": "engine.diff:Diff",
        "RollbackReport": "engine.report:RollbackReport",
        "Workflow": "workflows.steps:Workflow",
        "Workspace": "workspace:Workspace",
        "workflow": "workflows.steps:workflow",
    }

    def __getattr__(name: str) -> object:
        # What opens files is loaded when it is used, so that `import takeback` stays light.
        if name not in _LATER:
            raise AttributeError(f"module 'takeback' has no attribute {name!r}")
        from importlib import import_module

        module, _, attribute = _LATER[name].partition(":")
        found = getattr(import_module(f"takeback.{module}"), attribute)
        globals()[name] = found  # so that it is looked for once
        return found


__all__ = [
    "ABSENT",
    "Action",
    "Ask",
    "BackendError",
    "Call",
    "Checkpoint",
    "ConflictError",
    "CorruptionError",
    "DeliveryFailed",
    "Denied",
    "Diff",
    "DriftError",
    "HandedOver",
    "InvalidOutput",
    "InvariantBroken",
    "LeaseLost",
    "RefusedError",
    "RollbackIncomplete",
    "RollbackReport",
    "Run",
    "RunBusy",
    "Session",
    "Step",
    "TakebackError",
    "UsageError",
    "Workflow",
    "Workspace",
    "__version__",
    "action",
    "current_call",
    "open",
    "workflow",
]
