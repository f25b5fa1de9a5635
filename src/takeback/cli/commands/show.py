"""`takeback show`."""

from __future__ import annotations

import click

from takeback.cli.choices import ids_of
from takeback.cli.session import Session, TakebackCommand, ago, plural
from takeback.cli.views import action_data, change_data, checkpoint_data, run_data, what, what_run, who
from takeback.core import ids
from takeback.core.history import History
from takeback.core.subjects import Action, Checkpoint, Run
from takeback.engine.diff import verb
from takeback.errors import UsageError

LINES_MAX = 50


@click.command("show", cls=TakebackCommand)
@click.argument("id", shell_complete=ids_of("everything"))
@click.option("--all", "everything", is_flag=True, help=f"List every change, not only the first {LINES_MAX}")
@click.pass_obj
def command(session: Session, id: str, everything: bool) -> None:
    """Show one run, action or checkpoint"""
    kind, _ = ids.parse(id)
    with session.workspace() as workspace:
        history = workspace.history
    found = history.actions.get(id) or history.runs.get(id) or history.checkpoints.get(id)
    if found is None:
        raise UsageError(f"there is no {ids.KINDS[kind]} {id}", hint="`takeback log` lists what there is")
    if session.json:
        return session.data(_data(history, found))
    for line in _lines(history, found, 0 if everything else LINES_MAX):
        session.line(line)


def _data(history: History, found: Action | Run | Checkpoint) -> dict[str, object]:
    if isinstance(found, Run):
        return run_data(found)
    if isinstance(found, Checkpoint):
        return checkpoint_data(found)
    return action_data(history, found) | {"changed": [change_data(change) for change in found.changes]}


def _lines(history: History, found: Action | Run | Checkpoint, most: int) -> list[str]:
    if isinstance(found, Run):
        lines = [f"{found.id}  {what_run(history, found)}, {ago(found.began_us)}"]
        lines += [f"  {step.id}  step {step.name}  {step.life}" for step in found.steps.values()]
        return lines + [f"  {a}  {what(history, history.actions[a])}" for a in found.actions]
    if isinstance(found, Checkpoint):
        lines = [f"{found.id}  checkpoint {found.taken.message!r}, {ago(found.at_us)}"]
        for mark in found.taken.marks:
            lines.append(f"  {mark.resource}  {mark.state}  proved by {mark.evidence or 'nothing'}")
            lines += [f"    not covered: {text}" for text in mark.stated]
        return lines
    lines = [f"{found.id}  {what(history, found)}  by {who(found)}, {ago(found.began_us)}"]
    if found.why:
        lines.append(f"  {found.why}")
    shown = found.changes[:most] if most else found.changes
    lines += [f"  {verb(change):9}{change.target}" for change in shown]
    if len(shown) < len(found.changes):
        lines.append(f"  … {plural(len(found.changes) - len(shown), 'more change')}; --all lists them")
    return lines
