"""`takeback log`."""

from __future__ import annotations

from typing import Any

import click

from takeback.cli.session import Session, TakebackCommand, ago
from takeback.cli.views import (
    action_data,
    checkpoint_data,
    counted,
    is_worth_a_row,
    run_data,
    table,
    what,
    what_run,
    who,
)
from takeback.core import ids
from takeback.core.history import History
from takeback.core.subjects import Action, Checkpoint, Run

Entry = Action | Checkpoint | Run


@click.command("log", cls=TakebackCommand)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    default=20,
    show_default=True,
    help="How many entries, 0 for all",
)
@click.pass_obj
def command(session: Session, limit: int) -> None:
    """List what happened, latest first"""
    with session.workspace() as workspace:
        history = workspace.history
    runs = [run for run in history.runs.values() if is_worth_a_row(run)]
    entries: list[Entry] = [*history.actions.values(), *history.checkpoints.values(), *runs]
    entries.sort(key=lambda entry: ids.seq_of(entry.id), reverse=True)
    shown = entries[:limit] if limit else entries
    if session.json:
        return session.data(
            {
                "entries": [_data(history, entry) for entry in shown],
                "total": len(entries),
            }
        )
    if not entries:
        return session.line("Nothing has happened yet.")
    head = ("id", "when", "who", "what", "changed")
    for line in table([head, *(_row(history, entry) for entry in shown)]):
        session.line(line)
    if len(shown) < len(entries):
        session.line(f" … {len(entries) - len(shown):,} older; `takeback log -n 0` shows all")


def _data(history: History, entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Run):
        return run_data(entry)
    return action_data(history, entry) if isinstance(entry, Action) else checkpoint_data(entry)


def _row(history: History, entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, Run):
        changes = [change for id in entry.actions for change in history.actions[id].changes]
        actor = entry.began.actor or "agent"
        return entry.id, ago(entry.began_us), actor, what_run(history, entry), counted(changes)
    if isinstance(entry, Checkpoint):
        name = f'checkpoint "{entry.taken.message}"' if entry.taken.message else "checkpoint"
        return entry.id, ago(entry.at_us), entry.taken.actor or "you", name, ""
    return entry.id, ago(entry.began_us), who(entry), what(history, entry), counted(entry.changes)
