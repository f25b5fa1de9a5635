"""Ids for the shell's completion, each with a description. If anything fails, nothing is offered or printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from heapq import merge
from itertools import islice

import click
from click.shell_completion import CompletionItem

from takeback.cli.render.history import what, what_run, what_step
from takeback.cli.text import ago
from takeback.core import ids
from takeback.core.codec import one_line
from takeback.core.entities import Approval, Checkpoint, RecordedAction, RecordedRun, RecordedStep
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.moments import AFTER, BEFORE
from takeback.workspace.describe import call_text, in_doubt
from takeback.workspace.opening import find_workspace
from takeback.workspace.workspace import Workspace

OFFERED_MAX = 50

Entry = RecordedAction | Checkpoint | RecordedRun | Approval | RecordedStep

MOMENTS, PATHS_TOO = "moments", "moments or paths"
_WORDS = ("last-clean", "today", "yesterday")
"""Moments without an id. None has a space in it, which not every shell would quote."""

_HAVE_ENDS = (ids.ACTION, ids.STEP, ids.RUN, ids.CHECKPOINT)

_LIVES = {"handovers": {Life.HANDED_OVER}, "resumable": {Life.INTERRUPTED, Life.HANDED_OVER}}


def offered(kind: str, ctx: click.Context, begun: str) -> list[CompletionItem]:
    """Return the matching ids, latest first. `diff` also takes paths: if no id matches, the shell offers files."""
    try:
        with _workspace(ctx) as workspace:
            found = _found(kind, workspace.history, begun) if workspace else []
    except Exception:  # noqa: BLE001  an error must not appear in a half-typed line
        found = []
    return found if found or kind != PATHS_TOO else [CompletionItem(begun, type="file")]


def offered_agents(ctx: click.Context, begun: str) -> list[CompletionItem]:
    """Return the agents with changes that were not taken back."""
    try:
        with _workspace(ctx) as workspace:
            names = _at_work(workspace.history) if workspace else []
    except Exception:  # noqa: BLE001  as above
        return []
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _at_work(history: History) -> list[str]:
    return [name for name in history.actors if any(history.live(action.id) for action in history.by([name]))]


def _workspace(ctx: click.Context) -> AbstractContextManager[Workspace | None]:
    named, context = ctx.params.get("directory"), ctx.parent
    while context and not named:  # -C may come before the command, or before its group
        named, context = context.params.get("directory"), context.parent
    return find_workspace(named or ".") or nullcontext()


def _found(kind: str, history: History, begun: str) -> list[CompletionItem]:
    if kind in (MOMENTS, PATHS_TOO) and (moments := _moments(kind, history, begun)):
        return moments
    every = merge(*_entries(kind, history, begun), key=lambda entry: ids.seq_of(entry.id), reverse=True)
    fitting = islice((entry for entry in every if entry.id.startswith(begun)), OFFERED_MAX)
    return [CompletionItem(entry.id, help=_described(history, entry)) for entry in fitting]


def _moments(kind: str, history: History, begun: str) -> list[CompletionItem]:
    """Return the moments that a half-typed text may become."""
    side, space, id = begun.partition(" ")
    if space and side in (BEFORE, AFTER):
        found = [one for one in _found("everything", history, id) if one.value[0] in _HAVE_ENDS]
        return [CompletionItem(f"{side} {one.value}", help=one.help) for one in found]
    words = [CompletionItem(word) for word in _WORDS if word.startswith(begun)]
    if kind == PATHS_TOO:  # bare ids of actions are offered, too
        return words if begun and words else []
    return [*_found("checkpoints", history, begun), *words]


def _entries(kind: str, history: History, begun: str) -> list[Iterator[Entry]]:
    """Return what is of a kind, the latest first, and reads no more of it than is taken."""
    actions = (history.actions[id] for id in reversed(history.actions) if id.startswith(begun))
    checkpoints = (history.checkpoints[id] for id in reversed(history.checkpoints) if id.startswith(begun))
    runs = history.listed_runs()
    steps = (step for run, step in history.steps() if run.is_listed)
    if kind == "approvals":
        return [reversed([one for one in history.unused_approvals() if one.life is Life.OPEN])]
    if kind in _LIVES:
        return [reversed([run for run in history.waiting_runs() if run.life in _LIVES[kind]])]
    if kind == "in_doubt":
        return [reversed([one for one in history.in_doubt() if one.is_tool and in_doubt(history, one)])]
    if kind == "runs":
        return [runs]
    if kind == "checkpoints":
        return [checkpoints]
    if kind == "undoable":
        return [(a for a in actions if a.kind != "outside" and history.live(a.id)), runs, steps]
    if kind == "everything":
        return [actions, checkpoints, runs, steps, reversed(history.approvals.values())]
    return [actions, checkpoints]


def _described(history: History, entry: Entry) -> str:
    if isinstance(entry, Checkpoint):
        return f"{ago(entry.at_us)}: checkpoint {one_line(entry.taken.message, 50)}".rstrip()
    if isinstance(entry, RecordedStep):
        return what_step(history, entry)
    if isinstance(entry, Approval):
        return f"{ago(entry.asked_us)}: {call_text(entry.asked.name, entry.asked.arguments, 50)}"
    name = what_run(history, entry) if isinstance(entry, RecordedRun) else what(history, entry)
    return f"{ago(entry.began_us)}: {name}"
