"""A run once more: the same events in the same order, with the results that were recorded. Nothing happens.

The journal is folded from its first record on, so each moment is known exactly as it was: what a later undo took
back is still there before it. No function of the user is imported, and no resource is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.entities import RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.memory import RESOURCE, unflatten
from takeback.core.record import Record
from takeback.core.values import view
from takeback.engine.describe import wording
from takeback.errors import ContentGone, UsageError

Read = Callable[[], Iterable[Record]]
Result = Callable[[RecordedAction], Any]

_OVER: dict[type, str] = {
    e.StepEnded: "step",
    e.ActionEnded: "action",
    e.ActionSettled: "action",
    e.ApprovalAnswered: "approval",
    e.ApprovalUsed: "approval",
    e.RollbackEnded: "rollback",
}
"""Events with which something is over, and the field that names it."""


class ReplayMoment(msgspec.Struct, frozen=True):
    """One event of a run, and how the run stood right after it."""

    seq: int
    at_us: int
    event: str
    id: str
    """What the event is about."""
    what: str
    """What happened, in words, without what looks like a secret."""
    result: Any
    """What a call gave, whole."""
    memory: dict[str, Any]
    minor: bool = False
    """Only of interest to whoever wants to see every event."""

    @property
    def shown(self) -> Any:
        """The result as it may stand in a log."""
        return view(self.result)

    def __repr__(self) -> str:
        return f"<Moment {self.seq} {self.what[:80]!r}>"


class RunSnapshot(msgspec.Struct, frozen=True):
    """How a run stood at one moment: what `history` says of `run`, when it had come as far as `seq`."""

    seq: int
    at_us: int
    run: RecordedRun
    history: History

    @property
    def memory(self) -> dict[str, Any]:
        return memory_of(self.history, self.run.id)


def memory_of(history: History, run: str) -> dict[str, Any]:
    """What a run remembers, nested as it was written."""
    return unflatten(history.memory.get(run, {}))


def replay(read: Read, run: str, to: str, result: Result) -> Iterator[ReplayMoment]:
    """The moments of a run, up to and with `to`: an id, which means until that is over, or an event's number."""
    until = position(read(), to) if to else 0
    first = position(read(), run, begun=True)
    if until and until < first:
        raise UsageError(f"{run} had not begun at {to}", hint=f"it began with event {first}")
    return _moments(read, run, until, result)


def states_at(read: Read, id: str) -> list[RunSnapshot]:
    """How things stood when what `id` names was over: the run that it belongs to; of a checkpoint, each open one.

    A run is not over for good: it may have been taken back since. So that is how it stands now.
    """
    until = position(read(), id)
    now = ids.parse(id)[0] == ids.RUN
    history, at_us = History(), 0
    for record in read():
        if record.seq > until and not now:
            break
        history.apply(record)
        at_us = record.at_us
    run = run_of(history, id)
    runs = [history.runs[run]] if run else history.open_runs() if id in history.checkpoints else []
    return [RunSnapshot(history.seq, at_us, each, history) for each in runs]


def run_of(history: History, id: str) -> str:
    """The run that something belongs to, or nothing."""
    if id in history.runs:
        return id
    if id in history.actions:
        return history.actions[id].stream if history.actions[id].stream in history.runs else ""
    if id in history.approvals:
        return history.approvals[id].run
    return next((run.id for run in history.runs.values() if id in run.steps), "")


def position(records: Iterable[Record], named: str, *, begun: bool = False) -> int:
    """The event with which something was over, or had come so far; with `begun` the one with which it began."""
    if named.isdecimal():
        last = 0
        for last in (record.seq for record in records):
            if last == int(named):
                return last
        raise UsageError(f"there is no event {named}", hint=f"they are numbered from 1 to {last}")
    kind, number = ids.parse(named)
    found = 0
    for record in records:
        if record.seq == number and record.id != named:
            break
        over = getattr(record.event, _OVER.get(type(record.event), ""), "")
        if record.id == named or over == named or (kind == ids.RUN and record.stream == named):
            found = record.seq
        if found and begun:
            break
    if not found:
        raise UsageError(f"there is no {ids.KINDS[kind]} {named}", hint="`takeback log` lists what there is")
    return found


def _moments(read: Read, run: str, until: int, result: Result) -> Iterator[ReplayMoment]:
    history = History()
    own: set[str] = set()
    memory: dict[str, Any] = {}
    for record in read():
        if until and record.seq > until:
            return
        history.apply(record)
        event = record.event
        if not _belongs(history, record, run, own):
            continue
        if record.id:
            own.add(record.id)
        if any(change.target.resource == RESOURCE for change in getattr(event, "changes", ())):
            memory = memory_of(history, run)
        told = wording.told(history, record)
        yield ReplayMoment(
            record.seq,
            record.at_us,
            type(event).__struct_config__.tag or "",  # type: ignore[arg-type]
            told.id,
            told.what,
            _given(history, event, told.id, result),
            memory,
            told.minor,
        )


def _belongs(history: History, record: Record, run: str, own: set[str]) -> bool:
    """Whether an event is one of the run: of its own, or a rollback of what it did, whoever asked for it."""
    event = record.event
    if record.stream == run:
        return True
    if isinstance(event, e.CheckpointTaken):
        return run in history.runs and history.runs[run] in history.open_runs()
    if isinstance(event, e.RollbackBegan):
        settled = {id for item in event.items for id in item.settles}
        return not own.isdisjoint({*event.of, *settled})
    return isinstance(event, e.RollbackProgressed | e.RollbackEnded) and event.rollback in own


def _given(history: History, event: e.Event, id: str, result: Result) -> Any:
    if not isinstance(event, e.ActionEnded | e.ActionNoted | e.ActionSettled | e.ActionTold):
        return None
    action = history.actions[id]
    try:
        return result(action)
    except ContentGone:
        return action.result  # the whole of it is not kept any more; what the log shows is
