"""The reviews of shadows: recorded in the log of the workspace, kept with their views, and found again."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.engine.describe.accounts import CHANGES
from takeback.engine.shadow.review import ShadowDeed, ShadowResult, ShadowReview
from takeback.errors import CorruptionError, UsageError
from takeback.settings import environment
from takeback.system import processes
from takeback.system.private_files import write_whole
from takeback.workspace.staging import Stage, StageLook
from takeback.workspace.workspace import Workspace

FILE = "shadow.json"


def keep(workspace: Workspace, stage: Stage, result: ShadowResult, look: StageLook) -> ShadowReview:
    """Record a shadow in the log of the real workspace, and keep its review with its view."""
    changed = [
        (change, said)
        for change, said, minor in zip(look.changes, look.said, look.minor, strict=True)
        if not minor
    ]
    run = _record(workspace, stage.name, result, [change for change, _ in changed])
    review = ShadowReview(
        run=run,
        view=stage.name,
        result=result,
        changes=tuple(said or f"{_verb(change)} {change.target.said}" for change, said in changed),
        meanwhile=tuple(sorted(change.target.said for change in stage.moved())),
    )
    write_whole(stage.folder.path / FILE, msgspec.json.encode(review))
    return review


def _verb(change: Any) -> str:
    if not change.before:
        return "create"
    return "change" if change.after else "delete"


def find(workspace: Workspace, run: str) -> ShadowReview:
    """Return the review of a shadow. Raise UsageError if the run is not one, or its view is gone."""
    recorded = workspace.history.runs.get(run)
    if recorded is None:
        raise UsageError(
            f"there is no run {run}; nothing was done", hint="`takeback log` lists what there is"
        )
    if not recorded.began.shadow:
        raise UsageError(
            f"{run} is not a shadow; nothing was done", hint="tb.run(..., shadow=True) begins one"
        )
    path: Path = workspace.stages[recorded.began.shadow].folder.path / FILE
    try:
        review = msgspec.json.decode(path.read_bytes(), type=ShadowReview)
    except (OSError, msgspec.DecodeError) as error:
        raise CorruptionError(f"the review of {run} cannot be read: {error}; nothing was done") from error
    if review.run != run:
        raise UsageError(f"the view {review.view} belongs to another shadow, {review.run}; nothing was done")
    return review


def _record(workspace: Workspace, view_name: str, result: ShadowResult, changes: list[Any]) -> str:
    """Record what a shadow intended and changed as notes without any effect. Return its id."""
    append = workspace.known.ledger.append
    began = e.RunBegan(
        result.name,
        actor=environment.actor(),
        shadow=view_name,
        detached=True,
        process=processes.this_process(),
    )
    run = append([began], "")[0].id
    for number, (name, some) in enumerate(groupby(result.deeds, key=lambda deed: deed.step)):
        step = append([e.StepBegan(name)], run)[0].id if name else ""
        body = [e.ActionNoted(name, e.Outcome.DONE, step)] if name else []
        notes = [_noted(deed, f"{number}.{n}", step) for n, deed in enumerate(some)]
        append([*body, *notes, *([e.StepEnded(step, e.Outcome.DONE)] if name else [])], run)
    told = [[change.target.said, change.before.id, change.after.id] for change in changes]
    kept = workspace.parts.calls.keep(told)
    noted = e.ActionNoted(
        "changes in the view", e.Outcome.DONE, key="changes", result=kept.view, full=kept.full, tool=CHANGES
    )
    append([noted, e.RunEnded(result.outcome, result.why)], run)
    return run


def _noted(deed: ShadowDeed, number: str, step: str) -> e.ActionNoted:
    return e.ActionNoted(
        deed.name,
        e.Outcome.DONE,
        step,
        key=deed.key or number,
        arguments=deed.arguments,
        result=deed.result,
        tool=deed.tool,
        intended=None if deed.effect is e.Effect.NONE else deed.effect,
        why=deed.why,
    )
