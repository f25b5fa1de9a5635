"""`takeback status`."""

from __future__ import annotations

import os

import click

from takeback.cli.session import Session, TakebackCommand, ago, iso, plural
from takeback.cli.views import run_data, what
from takeback.core.events import Item
from takeback.core.history import SETTLING, History
from takeback.core.lifecycle import Life
from takeback.core.selection import last_action
from takeback.core.subjects import Action, Run
from takeback.errors import RunBusy
from takeback.opening import find_workspace
from takeback.workspace import Workspace


@click.command("status", cls=TakebackCommand)
@click.pass_obj
def command(session: Session) -> None:
    """Show how things stand"""
    workspace = find_workspace(".")
    if workspace is None:
        root = os.getcwd()
        if session.json:
            return session.data({"protected": False, "root": root})
        session.line(f"{root} is not protected yet.")
        return session.line("  begin   takeback init   or   takeback run -- COMMAND")
    session.opened.append(workspace)
    with workspace:
        if workspace.history.open_actions():
            _settle(workspace)
        history = workspace.history
    if session.json:
        return session.data({"protected": True, "root": str(workspace.root), **_data(history)})
    for line in _lines(str(workspace.root), history):
        session.line(line)


def _settle(workspace: Workspace) -> None:
    """Say what is true now of what a crash left open; not while somebody is at work."""
    try:
        workspace.recover()
    except RunBusy:
        return


def _data(history: History) -> dict[str, object]:
    checkpoint = next(reversed(history.checkpoints.values()), None)
    return {
        "events": history.seq,
        "actions": sum(action.is_tool for action in history.actions.values()),
        "undo_would_take_back": list(last_action(history).actions),
        "checkpoint": {"id": checkpoint.id, "at": iso(checkpoint.at_us)} if checkpoint else None,
        "remaining": [
            {"target": str(item.target), "did": item.did.value, "why": item.why}
            for item in (_remaining(history) or (None, []))[1]
        ],
        "background": [action.id for action in history.open_actions(Life.BACKGROUND)],
        "open_actions": [action.id for action in history.open_actions()],
        "runs": [run_data(run) for run in _unfinished(history)],
    }


def _lines(root: str, history: History) -> list[str]:
    done = sum(action.is_tool for action in history.actions.values())
    lines = [f"{root} is protected: {plural(done, 'action')} recorded."]
    if chosen := last_action(history):
        action = history.actions[chosen.actions[0]]
        lines.append(
            f"`takeback undo` would take back {action.id}: {what(history, action)}, {ago(action.began_us)}."
        )
    if checkpoint := next(reversed(history.checkpoints.values()), None):
        message = f' "{checkpoint.taken.message}"' if checkpoint.taken.message else ""
        lines.append(f"Last checkpoint {checkpoint.id}{message}, {ago(checkpoint.at_us)}.")
    if remaining := _remaining(history):
        action, items = remaining
        lines.append(f"The last {action.kind} ({action.id}) is incomplete. Not as before:")
        lines += [f"  {item.target}: {item.why or item.did}" for item in items[:10]]
        lines.append(
            "  try again   takeback undo"
            if action.kind == "undo"
            else f"  try again   takeback {action.kind}"
        )
    for run in _unfinished(history):
        verb = "was interrupted" if run.life is Life.INTERRUPTED else "is open"
        lines.append(f"Run {run.id} {verb} {ago(run.ended_us or run.began_us)}: {run.began.name}")
    for action in history.open_actions():
        lines.append(
            f"Action {action.id} has no recorded end: {what(history, action)}, {ago(action.began_us)}"
        )
    for action in history.open_actions(Life.BACKGROUND):
        lines.append(
            f"Action {action.id} has ended, but processes that it started are still running: {action.name}"
        )
    return lines


def _remaining(history: History) -> tuple[Action, list[Item]] | None:
    """What the last rollback could not do."""
    last = next((a for a in reversed(history.actions.values()) if a.is_rollback), None)
    if last is None:
        return None
    items = [item for item in last.items if item.did not in SETTLING or not item.verified]
    return (last, items) if items else None


def _unfinished(history: History) -> list[Run]:
    return [run for run in history.runs.values() if run.life in (Life.OPEN, Life.INTERRUPTED)]
