"""`takeback log`."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.render.history import (
    COMPACTED,
    action_data,
    checkpoint_data,
    counted,
    run_data,
    table,
    what,
    what_run,
    what_step,
    who_short,
)
from takeback.cli.render.runs import step_changed
from takeback.cli.render.worktrees import worktree_data, worktree_lines
from takeback.cli.text import ago, plural
from takeback.core import ids
from takeback.core.codec import one_line
from takeback.core.entities import Checkpoint, RecordedAction, RecordedRun, RecordedStep
from takeback.core.history import History
from takeback.core.intents import RESOURCE, Decided, IntentDropped
from takeback.core.postings import Topic
from takeback.core.selection import made
from takeback.workspace.describe import body_of, waits_for_a_decision

NAMED_MAX = 3


class StepOf(NamedTuple):
    """A step, with its run."""

    id: str
    run: RecordedRun
    step: RecordedStep


class DecisionOf(NamedTuple):
    """What a human did with dead letters, in one command."""

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
    help="The number of entries; 0 for all",
)
@click.pass_obj
def command(session: CommandContext, limit: int) -> None:
    """List what happened, latest first"""
    with session.workspace() as workspace:
        history = workspace.history
        if session.json:
            return session.data(_as_data(history, limit) | {"worktrees": worktree_data(workspace.root)})
        _print(session, history, limit)
        for line in worktree_lines(workspace.root):
            session.line(line)


def _as_data(history: History, limit: int) -> dict[str, Any]:
    """Return the latest entries as a machine gets them: every action is one."""
    entries = merge(*_common(history), reversed(history.actions.values()), key=_seq, reverse=True)
    kinds = (Topic.ACTIONS, Topic.CHECKPOINTS, Topic.LISTED_RUNS)
    return {
        "entries": [_data(history, entry) for entry in islice(entries, limit or None)],
        "total": sum(history.count(kind) for kind in kinds),
    }


def _common(history: History) -> tuple[Iterator[Entry], ...]:
    return reversed(history.checkpoints.values()), history.listed_runs()


def _print(session: CommandContext, history: History, limit: int) -> None:
    """Print the latest entries. For a person the body of a run or a step is that run or step."""
    actions = (a for a in reversed(history.actions.values()) if not _has_another_row(history, a))
    steps = (StepOf(s.id, run, s) for run, s in history.steps() if run.is_listed and history.actions_in(s.id))
    decided = iter(_decisions(history.intents.decided)[::-1])
    entries = merge(*_common(history), actions, steps, decided, key=_seq, reverse=True)
    shown = list(islice(entries, limit or None))
    if not shown:
        return session.line("Nothing has happened yet.")
    head = ("id", "when", "who", "what", "changed")
    for line in table([head, *(_row(history, entry) for entry in shown)]):
        session.line(line)
    if next(entries, None):
        session.line(" … there is more; `takeback log -n 0` shows all")
    if standing := sum(waits_for_a_decision(history, run) for run in history.waiting_runs()):
        session.line(
            f" {plural(standing, 'run waits', 'runs wait')} for you; `takeback status` shows how to continue"
        )


def _seq(entry: Entry) -> int:
    return entry.first.seq if isinstance(entry, DecisionOf) else ids.seq_of(entry.id)


def _decisions(decided: list[Decided]) -> list[DecisionOf]:
    """Group decisions: equal ones in a row in the journal are one command."""
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


def _has_another_row(history: History, action: RecordedAction) -> bool:
    """Return True for a body, shown as its run or step, and for dropped intents, shown as the drop."""
    if action.kind == "outside":
        return {change.target.resource for change in action.changes} == {RESOURCE}
    return bool(body_of(history, action)) and history.runs[action.stream].is_listed


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
    why = f": {one_line(event.why, 50)}" if isinstance(event, IntentDropped) and event.why else ""
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
        name += f"  {COMPACTED}" if entry.compacted_us else ""
        return entry.id, ago(entry.at_us), entry.taken.actor or "you", name, ""
    return (
        entry.id,
        ago(entry.began_us),
        who_short(entry),
        what(history, entry),
        counted(made(history, entry)),
    )
