"""Ids for the shell's completion, each with what it is. Whatever goes wrong, nothing is offered and nothing said."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from takeback.cli.render.history import is_worth_a_row, what, what_run, what_step
from takeback.cli.text import ago, shortened
from takeback.core import ids
from takeback.core.entities import Approval, Checkpoint, RecordedAction, RecordedRun, RecordedStep
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.workspace.describe import call_text, in_doubt
from takeback.workspace.opening import find_workspace

OFFERED_MAX = 50

Entry = RecordedAction | Checkpoint | RecordedRun | Approval | RecordedStep

_LIVES = {"handovers": {Life.HANDED_OVER}, "resumable": {Life.INTERRUPTED, Life.HANDED_OVER}}


def offered(kind: str, ctx: click.Context, begun: str) -> list[CompletionItem]:
    """The ids that fit, latest first. `diff` takes paths too: where no id fits, the shell offers files."""
    try:
        found = _found(kind, ctx, begun)
    except Exception:  # noqa: BLE001  a half-typed line is no place for an error
        found = []
    return found if found or kind != "moments" else [CompletionItem(begun, type="file")]


def offered_agents(ctx: click.Context, begun: str) -> list[CompletionItem]:
    """The agents that did something that still stands."""
    try:
        history = _history(ctx)
    except Exception:  # noqa: BLE001  as above
        return []
    every = history.actions.values() if history else ()
    names = {action.actor: None for action in every if action.is_tool and history and history.live(action.id)}
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _history(ctx: click.Context) -> History | None:
    named, context = ctx.params.get("directory"), ctx.parent
    while context and not named:  # -C may stand before the command, or before the group that it is in
        named, context = context.params.get("directory"), context.parent
    workspace = find_workspace(named or ".")
    if workspace is None:
        return None
    with workspace:
        return workspace.history


def _found(kind: str, ctx: click.Context, begun: str) -> list[CompletionItem]:
    history = _history(ctx)
    if history is None:
        return []
    fitting = [entry for entry in _entries(kind, history) if entry.id.startswith(begun)]
    fitting.sort(key=lambda entry: ids.seq_of(entry.id), reverse=True)
    return [CompletionItem(entry.id, help=_described(history, entry)) for entry in fitting[:OFFERED_MAX]]


def _entries(kind: str, history: History) -> list[Entry]:
    checkpoints = list(history.checkpoints.values())
    actions = list(history.actions.values())
    runs = [run for run in history.runs.values() if is_worth_a_row(run)]
    if kind == "approvals":
        return [approval for approval in history.approvals.values() if approval.life is Life.OPEN]
    if kind in _LIVES:
        return [run for run in history.runs.values() if run.life in _LIVES[kind]]
    if kind == "in_doubt":
        return [action for action in actions if action.is_tool and in_doubt(history, action)]
    if kind == "runs":
        return [*runs]
    if kind == "checkpoints":
        return [*checkpoints]
    if kind == "undoable":
        steps = [step for run in runs for step in run.steps.values()]
        return [*(a for a in actions if a.kind != "outside" and history.live(a.id)), *runs, *steps]
    if kind == "everything":
        steps = [step for run in runs for step in run.steps.values()]
        return [*actions, *checkpoints, *runs, *steps, *history.approvals.values()]
    return [*actions, *checkpoints]


def _described(history: History, entry: Entry) -> str:
    if isinstance(entry, Checkpoint):
        return f"{ago(entry.at_us)}: checkpoint {shortened(entry.taken.message, 50)}".rstrip()
    if isinstance(entry, RecordedStep):
        return what_step(history, entry)
    if isinstance(entry, Approval):
        return f"{ago(entry.asked_us)}: {call_text(entry.asked.name, entry.asked.arguments, 50)}"
    name = what_run(history, entry) if isinstance(entry, RecordedRun) else what(history, entry)
    return f"{ago(entry.began_us)}: {name}"
