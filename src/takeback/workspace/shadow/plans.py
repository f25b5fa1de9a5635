"""The shadow of a plan: all of its steps in a view, with calls only intended."""

from __future__ import annotations

from functools import partial
from typing import Any

from takeback.core.events import RunBegan
from takeback.core.plan import Plan
from takeback.engine import plans
from takeback.engine.runs.parts import Options
from takeback.engine.shadow.review import ShadowResult, ShadowReview
from takeback.engine.shadow.shadow import Shadow
from takeback.errors import RefusedError, UsageError
from takeback.settings import environment
from takeback.workspace.plans import prepare_plan
from takeback.workspace.shadow import records
from takeback.workspace.shadow.runs import ShadowRun, simulation_of
from takeback.workspace.workspace import Workspace


def shadow_plan(workspace: Workspace, plan: Plan, *, autopilot: bool = False) -> ShadowReview:
    """Run a plan as a shadow, in a process inside a view. Return the review."""
    stage = workspace.stages.new()
    try:
        result = stage.inside(partial(_shadowed, plan, autopilot=autopilot), ShadowResult)
    except BaseException:
        stage.drop()
        raise
    return records.keep(workspace, stage, result, stage.look())


class _Runs:
    """Begins shadows for a plan."""

    def __init__(self, inner: Workspace) -> None:
        self._inner = inner
        self.run_made: ShadowRun | None = None

    def run(self, name: str, *, key: str, autopilot: bool, **_: Any) -> ShadowRun:
        began = RunBegan(name, key=key, autopilot=autopilot, actor=environment.actor())
        inner = self._inner
        self.run_made = ShadowRun(inner, Options(began), Shadow(simulation_of(inner)), inner.root, {})
        return self.run_made


def _shadowed(plan: Plan, inner: Workspace, *, autopilot: bool) -> ShadowResult:
    prepared = prepare_plan(plan, inner.root, inner.settings, autopilot=autopilot)
    runs = _Runs(inner)
    try:
        plans.run_plan(runs, prepared, autopilot=autopilot)
    except (UsageError, RefusedError):
        if runs.run_made is None or not runs.run_made.id:
            raise
    except Exception:
        if runs.run_made is None:
            raise
    assert runs.run_made is not None
    return runs.run_made.result()
