"""Checking and running an agent's plan in a workspace.

The tools of a plan are found, and work, as if Python had been started at the top of the workspace.
"""

from __future__ import annotations

import os
from pathlib import Path

from takeback.core.codec import one_line
from takeback.core.events import PlanApproved
from takeback.core.lifecycle import Life
from takeback.core.plan import Plan
from takeback.core.redact import redact
from takeback.core.rules import PlanRuling
from takeback.engine import plans
from takeback.engine.gate.foresight import Foresight
from takeback.engine.plans import PreparedPlan, Ran, Tell, told
from takeback.engine.plans import digest_of as plan_digest
from takeback.errors import (
    BackendError,
    ConflictError,
    RefusedError,
    RollbackIncomplete,
    TakebackError,
    UsageError,
)
from takeback.settings import environment, toml
from takeback.workspace.locate import find_modules_at, find_root, registry_of_user
from takeback.workspace.opening import find_workspace
from takeback.workspace.refusal import refuse_agent
from takeback.workspace.store.journal import held_unopened
from takeback.workspace.workspace import Workspace

__all__ = [
    "PreparedPlan",
    "Ran",
    "approve_plan",
    "check_plan",
    "is_approved",
    "plan_digest",
    "run_plan",
    "told",
]

NOTE = "Takeback: "
"""The beginning of the note that a run adds to the error that ended it."""
SAID_MAX = 500


def check_plan(
    plan: Plan, *, autopilot: bool, start: str | os.PathLike[str] = ".", opened: Workspace | None = None
) -> tuple[PreparedPlan, Workspace | None]:
    """Check a plan against the rules of the workspace here, and run nothing. Return the workspace closed.

    If nothing is protected here, return no workspace, and use the settings that would hold. A workspace that the
    caller has `opened` stays open.
    """
    if opened is not None:
        return prepare_plan(plan, opened.root, opened.settings, autopilot=autopilot), opened
    workspace = find_workspace(start)
    if workspace is None:
        registry = registry_of_user()
        root = find_root(start, registry)
        settings = held_unopened(registry.state_of(root), root).settings
    else:
        with workspace:
            root, settings = workspace.root, workspace.settings
    return prepare_plan(plan, root, settings, autopilot=autopilot), workspace


def approve_plan(workspace: Workspace, plan: Plan, *, key: str = "", digest: str = "") -> str:
    """Record that a human approves a plan as a whole, to be run under this key. Return its digest.

    Raise RefusedError inside an action, for a plan that breaks a rule, or if it is not the one with this `digest`.
    """
    inside = environment.parent_action() or workspace.inside_action()
    refuse_agent(inside, "an agent cannot approve a plan", done="approved")
    prepared = prepare_plan(plan, workspace.root, workspace.settings, autopilot=False)
    plans.refuse_broken(prepared)
    exactly = plan_digest(prepared, key)
    if digest and digest != exactly:
        raise RefusedError("the plan or a tool of it changed while you looked at it; nothing was approved")
    approved = PlanApproved(exactly, redact(plan.name), environment.actor())
    workspace.known.ledger.append([approved])
    return exactly


def is_approved(workspace: Workspace, prepared: PreparedPlan, key: str = "") -> bool:
    """Return whether a human has approved exactly this plan, to be run under this key."""
    exactly = plan_digest(prepared, key)
    found = (workspace.journal.get(seq) for seq in workspace.history.plan_approvals(exactly))
    return any(r and isinstance(r.event, PlanApproved) and r.event.digest == exactly for r in found)


def run_plan(
    workspace: Workspace,
    plan: Plan,
    *,
    key: str,
    autopilot: bool,
    tell: Tell,
    going_on: str = "",
    on_failure: str = "undo",
) -> Ran:
    """Run a plan as one run. Raise an error that names the step that failed and what happened to the run.

    `going_on` is an earlier run that this plan continues: of what it completed, the same steps stay, and the others
    are taken back first.
    """
    environment.refuse_in_shadow("`takeback plan run`")
    prepared = prepare_plan(plan, workspace.root, workspace.settings, autopilot=autopilot)
    plans.refuse_broken(prepared)
    key = _continued(workspace, going_on, key) if going_on else key or prepared.key
    approved = is_approved(workspace, prepared, key)
    if not approved and workspace.settings.rules.plans is PlanRuling.APPROVED:
        again = f" --key {key}" if key != prepared.key else ""
        raise RefusedError(
            f"a human has not approved {plan.name!r} as it is now; nothing was done",
            hint="the rule is plans",
            how=f"`takeback plan approve FILE{again}`",
        )
    _settle_changes(workspace, prepared, key, take=bool(going_on))
    current = ""

    def follow(step: str, what: str) -> None:
        nonlocal current
        current = step
        tell(step, what)

    try:
        return plans.run_plan(
            workspace,
            prepared,
            key=key,
            autopilot=autopilot,
            approved=approved,
            on_failure=on_failure,
            tell=follow,
        )
    except RollbackIncomplete as error:
        why = _failed(prepared, current, error.__cause__ or error)
        raise RollbackIncomplete(f"{why}. {error.message}", error.hint, report=error.report) from error
    except TakebackError:
        raise
    except Exception as error:
        notes = [note.removeprefix(NOTE) for note in getattr(error, "__notes__", ()) if note.startswith(NOTE)]
        raise BackendError(
            f"{_failed(prepared, current, error)}. {' '.join(notes) or 'The run was taken back.'}",
            hint=_next(workspace, key),
        ) from error


def _next(workspace: Workspace, key: str) -> str:
    """Return what can be done about a plan that failed."""
    history = workspace.history
    run = history.runs[history.runs_of_key(key)[-1]]
    if run.life is Life.INTERRUPTED:
        return f"go on, with the plan as it is or changed: takeback plan run FILE --continue {run.id}"
    return "run the plan again to start over"


def _continued(workspace: Workspace, id: str, key: str) -> str:
    """Return the key of the run that a plan continues. Raise if it cannot be continued."""
    if key:
        raise UsageError("--key and --continue exclude each other: the run has its key; nothing was done")
    workspace.recover()
    run = workspace.history.runs.get(id)
    if run is None:
        raise UsageError(f"there is no run {id}; nothing was done", hint="`takeback log` lists what there is")
    if run.life is Life.DONE:
        raise UsageError(
            f"{id} is done, so there is nothing to continue; nothing was done",
            hint=f"run the changed plan by itself, or take {id} back first: takeback undo {id}",
        )
    if run.began.detached or not run.began.key or run.began.shadow:
        raise UsageError(f"{id} is not a run that a plan can continue; nothing was done")
    return run.began.key


def _settle_changes(workspace: Workspace, prepared: PreparedPlan, key: str, *, take: bool) -> None:
    """Take back what the unfinished run with this key completed and the plan does not keep; refuse if not `take`."""
    history = workspace.history
    found = history.runs_of_key(key)
    run = history.runs[found[-1]] if found else None
    if run is None or run.life is not Life.INTERRUPTED:
        return
    change = plans.compare_with_run(history, run, prepared, workspace.result)
    if not change.gone:
        return
    if not take:
        names = ", ".join(step.name for step in change.gone)
        raise ConflictError(
            f"{run.id} has this key, and completed steps that the plan has not, or not with these arguments: "
            f"{names}; nothing was done",
            hint=f"take them back and go on: add --continue {run.id}; or use another --key",
        )
    steps = [step.id for step in change.gone]
    workspace.undo(*steps, dependents="take")


def prepare_plan(plan: Plan, root: Path, settings: toml.Config, *, autopilot: bool) -> PreparedPlan:
    """Check a plan in the folder of a workspace, which becomes the current one."""
    find_modules_at(root)
    os.chdir(root)
    foresee = Foresight(root, environment.home_folder())
    rules, known = settings.rules, settings.tools
    return plans.prepare(plan, root=root, rules=rules, known=known, autopilot=autopilot, foresee=foresee)


def _failed(prepared: PreparedPlan, step: str, error: BaseException) -> str:
    what = redact(f"{type(error).__name__}: {error}")
    tool = f" ({prepared.imports[step]})" if step in prepared.imports else ""
    return f"step {step}{tool} failed: {one_line(what, SAID_MAX)}"
