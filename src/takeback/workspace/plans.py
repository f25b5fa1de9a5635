"""Checking and running an agent's plan in a workspace.

The tools of a plan are found, and work, as if Python had been started at the top of the workspace.
"""

from __future__ import annotations

import os
from pathlib import Path

from takeback.core.codec import one_line
from takeback.core.plan import Plan
from takeback.core.redact import redact
from takeback.engine import plans
from takeback.engine.gate.foresight import Foresight
from takeback.engine.plans import PreparedPlan, Ran, Tell, told
from takeback.errors import BackendError, RollbackIncomplete, TakebackError
from takeback.settings import environment, toml
from takeback.workspace.locate import find_modules_at, find_root, registry_of_user
from takeback.workspace.opening import find_workspace
from takeback.workspace.store.journal import held_unopened
from takeback.workspace.workspace import Workspace

__all__ = ["PreparedPlan", "Ran", "check_plan", "run_plan", "told"]

NOTE = "Takeback: "
"""The beginning of the note that a run adds to the error that ended it."""
SAID_MAX = 500


def check_plan(
    plan: Plan, *, autopilot: bool, start: str | os.PathLike[str] = "."
) -> tuple[PreparedPlan, Workspace | None]:
    """Check a plan against the rules of the workspace here, and run nothing. Return the workspace closed.

    If nothing is protected here, return no workspace, and use the settings that would hold.
    """
    workspace = find_workspace(start)
    if workspace is None:
        registry = registry_of_user()
        root = find_root(start, registry)
        settings = held_unopened(registry.state_of(root), root).settings
    else:
        with workspace:
            root, settings = workspace.root, workspace.settings
    return _prepared(plan, root, settings, autopilot=autopilot), workspace


def run_plan(workspace: Workspace, plan: Plan, *, key: str, autopilot: bool, tell: Tell) -> Ran:
    """Run a plan as one run. Raise an error that names the step that failed and what happened to the run."""
    prepared = _prepared(plan, workspace.root, workspace.settings, autopilot=autopilot)
    current = ""

    def follow(step: str, what: str) -> None:
        nonlocal current
        current = step
        tell(step, what)

    try:
        return plans.run_plan(workspace, prepared, key=key, autopilot=autopilot, tell=follow)
    except RollbackIncomplete as error:
        why = _failed(prepared, current, error.__cause__ or error)
        raise RollbackIncomplete(f"{why}. {error.message}", error.hint, report=error.report) from error
    except TakebackError:
        raise
    except Exception as error:
        notes = [note.removeprefix(NOTE) for note in getattr(error, "__notes__", ()) if note.startswith(NOTE)]
        raise BackendError(
            f"{_failed(prepared, current, error)}. {' '.join(notes) or 'The run was taken back.'}",
            hint="run the plan again to start over",
        ) from error


def _prepared(plan: Plan, root: Path, settings: toml.Config, *, autopilot: bool) -> PreparedPlan:
    find_modules_at(root)
    os.chdir(root)
    foresee = Foresight(root, environment.home_folder())
    rules, known = settings.rules, settings.tools
    return plans.prepare(plan, root=root, rules=rules, known=known, autopilot=autopilot, foresee=foresee)


def _failed(prepared: PreparedPlan, step: str, error: BaseException) -> str:
    what = redact(f"{type(error).__name__}: {error}")
    tool = f" ({prepared.imports[step]})" if step in prepared.imports else ""
    return f"step {step}{tool} failed: {one_line(what, SAID_MAX)}"
