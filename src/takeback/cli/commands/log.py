"""`takeback log`."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from takeback.cli.runs import step_changed, waits_for_a_decision
from takeback.cli.session import Session, TakebackCommand, ago, plural
from takeback.cli.views import (
    action_data,
    checkpoint_data,
    counted,
    is_worth_a_row,
    made,
    run_data,
    table,
    what,
    what_run,
    what_step,
    who_short,
)
from takeback.core import ids
from takeback.core.history import History
from takeback.core.subjects import Action, Checkpoint, Run, Step
from takeback.engine.wording import body_of


class StepOf(NamedTuple):
    """A step, with the run that it is of."""

    id: str
    run: Run
    step: Step


Entry = Action | Checkpoint | Run | StepOf


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
    used = {getattr(action.began, "step", "") for action in history.actions.values()}
    steps = [StepOf(s.id, run, s) for run in runs for s in run.steps.values() if s.id in used]
    # For a person the body of a run or a step is that run or step; a machine gets every action.
    actions = [a for a in history.actions.values() if session.json or not _is_body(history, a)]
    entries: list[Entry] = [*actions, *history.checkpoints.values(), *runs]
    entries += [] if session.json else steps
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
    if standing := sum(waits_for_a_decision(history, run) for run in history.runs.values()):
        session.line(
            f" {plural(standing, 'run waits', 'runs wait')} for you; `takeback status` tells how to go on"
        )


def _is_body(history: History, action: Action) -> bool:
    return bool(body_of(history, action)) and is_worth_a_row(history.runs[action.stream])


def _data(history: History, entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Run):
        return run_data(entry)
    if isinstance(entry, Action):
        return action_data(history, entry) | {"body_of": body_of(history, entry) or None}
    assert isinstance(entry, Checkpoint)
    return checkpoint_data(entry)


def _row(history: History, entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, StepOf):
        when = ago(entry.step.began_us)
        actor = entry.run.began.actor or "agent"
        changed = step_changed(history, entry.run, entry.step)
        return entry.id, when, actor, what_step(history, entry.step), changed
    if isinstance(entry, Run):
        changes = [change for id in entry.actions for change in history.actions[id].changes]
        actor = entry.began.actor or "agent"
        return entry.id, ago(entry.began_us), actor, what_run(history, entry), counted(changes)
    if isinstance(entry, Checkpoint):
        name = f'checkpoint "{entry.taken.message}"' if entry.taken.message else "checkpoint"
        return entry.id, ago(entry.at_us), entry.taken.actor or "you", name, ""
    return (
        entry.id,
        ago(entry.began_us),
        who_short(entry),
        what(history, entry),
        counted(made(history, entry)),
    )
