"""`takeback log`."""

from __future__ import annotations

from typing import Any, NamedTuple

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.render.history import (
    action_data,
    checkpoint_data,
    counted,
    is_worth_a_row,
    run_data,
    table,
    what,
    what_run,
    what_step,
    who_short,
)
from takeback.cli.render.runs import step_changed, waits_for_a_decision
from takeback.cli.text import ago, plural, shortened
from takeback.core import ids
from takeback.core.entities import Checkpoint, RecordedAction, RecordedRun, RecordedStep
from takeback.core.history import History
from takeback.core.intents import RESOURCE, Decided, IntentDropped
from takeback.core.selection import made
from takeback.workspace.describe import body_of

NAMED_MAX = 3


class StepOf(NamedTuple):
    """A step, with the run that it is of."""

    id: str
    run: RecordedRun
    step: RecordedStep


class DecisionOf(NamedTuple):
    """What a human did with dead letters, in one go."""

    first: Decided
    intents: list[str]


Entry = RecordedAction | Checkpoint | RecordedRun | StepOf | DecisionOf


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
def command(session: CommandContext, limit: int) -> None:
    """List what happened, latest first"""
    with session.workspace() as workspace:
        history = workspace.history
    runs = [run for run in history.runs.values() if is_worth_a_row(run)]
    used = {getattr(action.began, "step", "") for action in history.actions.values()}
    steps = [StepOf(s.id, run, s) for run in runs for s in run.steps.values() if s.id in used]
    # For a person the body of a run or a step is that run or step; a machine gets every action.
    actions = [a for a in history.actions.values() if session.json or not _is_told_elsewhere(history, a)]
    entries: list[Entry] = [*actions, *history.checkpoints.values(), *runs]
    entries += [] if session.json else [*steps, *_decisions(history.intents.decided)]
    entries.sort(key=_seq, reverse=True)
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


def _seq(entry: Entry) -> int:
    return entry.first.seq if isinstance(entry, DecisionOf) else ids.seq_of(entry.id)


def _decisions(decided: list[Decided]) -> list[DecisionOf]:
    """Those that stand one after the other in the journal, and say the same, are one command."""
    found: list[DecisionOf] = []
    for one in decided:
        last = found[-1] if found else None
        if last and last.first.seq + len(last.intents) == one.seq and _same(last.first, one):
            last.intents.append(one.event.intent)
        else:
            found.append(DecisionOf(one, [one.event.intent]))
    return found


def _same(one: Decided, other: Decided) -> bool:
    return msgspec.structs.replace(one.event, intent=other.event.intent) == other.event


def _is_told_elsewhere(history: History, action: RecordedAction) -> bool:
    """A body is its run or its step. Intents that an undo found gone were dropped by somebody, who has a row."""
    if action.kind == "outside":
        return {change.target.resource for change in action.changes} == {RESOURCE}
    return bool(body_of(history, action)) and is_worth_a_row(history.runs[action.stream])


def _data(history: History, entry: Entry) -> dict[str, Any]:
    if isinstance(entry, RecordedRun):
        return run_data(entry)
    if isinstance(entry, RecordedAction):
        return action_data(history, entry) | {"body_of": body_of(history, entry) or None}
    assert isinstance(entry, Checkpoint)
    return checkpoint_data(entry)


def _row_of_decision(decision: DecisionOf) -> tuple[str, ...]:
    event, named = decision.first.event, ", ".join(decision.intents[:NAMED_MAX])
    more = f" and {len(decision.intents) - NAMED_MAX} more" if len(decision.intents) > NAMED_MAX else ""
    word = "drop" if isinstance(event, IntentDropped) else "retry"
    why = f": {shortened(event.why, 50)}" if isinstance(event, IntentDropped) and event.why else ""
    count = plural(len(decision.intents), "intent")
    return event.intent, ago(decision.first.at_us), event.actor or "you", f"{word} {named}{more}{why}", count


def _row(history: History, entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, DecisionOf):
        return _row_of_decision(entry)
    if isinstance(entry, StepOf):
        when = ago(entry.step.began_us)
        actor = entry.run.began.actor or "agent"
        changed = step_changed(history, entry.run, entry.step)
        return entry.id, when, actor, what_step(history, entry.step), changed
    if isinstance(entry, RecordedRun):
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
