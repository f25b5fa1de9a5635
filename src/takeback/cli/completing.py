"""Ids for the shell's completion, each with what it is. Whatever goes wrong, nothing is offered and nothing said."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from takeback.cli.session import ago, shortened
from takeback.cli.views import is_worth_a_row, what, what_run
from takeback.core import ids
from takeback.core.history import History
from takeback.core.subjects import Action, Checkpoint, Run
from takeback.opening import find_workspace

OFFERED_MAX = 50

Entry = Action | Checkpoint | Run


def offered(kind: str, ctx: click.Context, begun: str) -> list[CompletionItem]:
    """The ids that fit, latest first. `diff` takes paths too: where no id fits, the shell offers files."""
    try:
        found = _found(kind, ctx, begun)
    except Exception:  # noqa: BLE001  a half-typed line is no place for an error
        found = []
    return found if found or kind != "moments" else [CompletionItem(begun, type="file")]


def _found(kind: str, ctx: click.Context, begun: str) -> list[CompletionItem]:
    above = ctx.parent.params.get("directory") if ctx.parent else None
    workspace = find_workspace(ctx.params.get("directory") or above or ".")
    if workspace is None:
        return []
    with workspace:
        history = workspace.history
    fitting = [entry for entry in _entries(kind, history) if entry.id.startswith(begun)]
    fitting.sort(key=lambda entry: ids.seq_of(entry.id), reverse=True)
    return [CompletionItem(entry.id, help=_described(history, entry)) for entry in fitting[:OFFERED_MAX]]


def _entries(kind: str, history: History) -> list[Entry]:
    checkpoints = list(history.checkpoints.values())
    actions = list(history.actions.values())
    runs = [run for run in history.runs.values() if is_worth_a_row(run)]
    if kind == "checkpoints":
        return [*checkpoints]
    if kind == "undoable":
        return [*(a for a in actions if a.kind != "outside" and history.live(a.id)), *runs]
    return [*actions, *checkpoints, *(runs if kind == "everything" else ())]


def _described(history: History, entry: Entry) -> str:
    if isinstance(entry, Checkpoint):
        return f"{ago(entry.at_us)}: checkpoint {shortened(entry.taken.message, 50)}".rstrip()
    name = what_run(history, entry) if isinstance(entry, Run) else what(history, entry)
    return f"{ago(entry.began_us)}: {name}"
