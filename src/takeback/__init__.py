"""Takeback: the undo layer for AI agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback._version import __version__
from takeback.core.change import ABSENT
from takeback.errors import (
    BackendError,
    ConflictError,
    CorruptionError,
    Deadlock,
    DeliveryFailed,
    DriftError,
    HandedOver,
    InvalidOutput,
    InvariantBroken,
    LeaseHeld,
    LeaseLost,
    RefusedError,
    RollbackIncomplete,
    RunBusy,
    ShadowEnded,
    TakebackError,
    UsageError,
)

if TYPE_CHECKING:
    from takeback.core.entities import Checkpoint
    from takeback.engine.describe.diff import Diff
    from takeback.engine.rollback.report import RollbackReport
    from takeback.engine.runs.actions import Action, Ask, Denied
    from takeback.engine.runs.declare import action, current_call, handler
    from takeback.engine.runs.declare import declaration_in as declared
    from takeback.engine.runs.run import Run
    from takeback.engine.runs.session import Session
    from takeback.engine.runs.step import Step
    from takeback.engine.runs.thread import Thread, Turn
    from takeback.engine.shadow.stand_ins import stand_in
    from takeback.resources.calls.handlers import simulation
    from takeback.resources.calls.resource import Call
    from takeback.workflows.steps import Workflow, workflow
    from takeback.workspace.opening import open_workspace as open  # noqa: A004  takeback.open is the name
    from takeback.workspace.workspace import Workspace
else:
    _LATER = {
        "open": "workspace.opening:open_workspace",
        "Call": "resources.calls.resource:Call",
        "Action": "engine.runs.actions:Action",
        "Ask": "engine.runs.actions:Ask",
        "Denied": "engine.runs.actions:Denied",
        "Run": "engine.runs.run:Run",
        "Session": "engine.runs.session:Session",
        "Step": "engine.runs.step:Step",
        "Thread": "engine.runs.thread:Thread",
        "Turn": "engine.runs.thread:Turn",
        "action": "engine.runs.declare:action",
        "current_call": "engine.runs.declare:current_call",
        "declared": "engine.runs.declare:declaration_in",
        "handler": "engine.runs.declare:handler",
        "simulation": "resources.calls.handlers:simulation",
        "stand_in": "engine.shadow.stand_ins:stand_in",
        "Checkpoint": "core.entities:Checkpoint",
        "Diff": "engine.describe.diff:Diff",
        "RollbackReport": "engine.rollback.report:RollbackReport",
        "Workflow": "workflows.steps:Workflow",
        "Workspace": "workspace.workspace:Workspace",
        "workflow": "workflows.steps:workflow",
    }

    def __getattr__(name: str) -> object:
        # Modules that open files are loaded on first use, so that `import takeback` stays light.
        if name not in _LATER:
            raise AttributeError(f"module 'takeback' has no attribute {name!r}")
        from importlib import import_module

        module, _, attribute = _LATER[name].partition(":")
        found = getattr(import_module(f"takeback.{module}"), attribute)
        globals()[name] = found  # so that it is looked up only once
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
    "Deadlock",
    "DeliveryFailed",
    "Denied",
    "Diff",
    "DriftError",
    "HandedOver",
    "InvalidOutput",
    "InvariantBroken",
    "LeaseHeld",
    "LeaseLost",
    "RefusedError",
    "RollbackIncomplete",
    "RollbackReport",
    "Run",
    "RunBusy",
    "Session",
    "ShadowEnded",
    "Step",
    "TakebackError",
    "Thread",
    "Turn",
    "UsageError",
    "Workflow",
    "Workspace",
    "__version__",
    "action",
    "current_call",
    "declared",
    "handler",
    "open",
    "simulation",
    "stand_in",
    "workflow",
]
