"""Replaying a run: the same events in the same order, with the recorded results. Nothing is executed.

A replay folds the journal from its first record on, so each moment is exactly as it was: what a later undo took back
is still there before it. No function of the user is imported, and no resource is accessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from takeback.core.past import Pick

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
"""Events that end something, and the field that names it."""


class ReplayMoment(msgspec.Struct, frozen=True):
    """One event of a run, and the state of the run right after it."""

    seq: int
    at_us: int
    event: str
    id: str
    """What the event is about."""
    what: str
    """What happened, as text with secrets redacted."""
    result: Any
    """The whole result of a call."""
    memory: dict[str, Any]
    minor: bool = False
    """True if it only matters to readers who want every event."""

    @property
    def shown(self) -> Any:
        """The result as a log may show it."""
        return view(self.result)

    def __repr__(self) -> str:
        return f"<Moment {self.seq} {self.what[:80]!r}>"


class RunSnapshot(msgspec.Struct, frozen=True):
    """The state of a run at one moment: `history` up to event `seq`."""

    seq: int
    at_us: int
    run: RecordedRun
    history: History

    @property
    def memory(self) -> dict[str, Any]:
        return memory_of(self.history, self.run.id)


def memory_of(history: History, run: str) -> dict[str, Any]:
    """Return the memory of a run, nested as it was written."""
    return unflatten(history.memory_of(run))


def replay(read: Read, run: str, to: str, result: Result) -> Iterator[ReplayMoment]:
    """Return the moments of a run, up to and including `to`: an event's number, or an id (until that is over)."""
    until = position(read(), to) if to else 0
    first = position(read(), run, begun=True)
    if until and until < first:
        raise UsageError(f"{run} had not begun at {to}", hint=f"it began with event {first}")
    return _moments(read, run, until, result)


def states_at(history: History, pick: Pick, id: str, now_us: int) -> list[RunSnapshot]:
    """Return the state of the run that `id` belongs to when `id` was over; for a checkpoint, of each open run.

    For the id of a run it is the present state, because a run may have been taken back after it ended. `history` is
    the present one, last written at `now_us`. Only records that speak of these runs are read.
    """
    from takeback.core import past  # few commands show a past moment

    if id in history.runs:
        return [RunSnapshot(history.seq, now_us, history.runs[id], history)]
    is_checkpoint = id in history.checkpoints
    if id in history.actions and not run_of(history, id):
        return []
    about = pick(past.records_about(history, id))
    until = position(about, id)
    then = past.at(history, until, pick)
    at_us = next(record.at_us for record in about if record.seq == until)
    runs = history.runs_open_at(id) if is_checkpoint else [run_of(history, id)]
    return [RunSnapshot(until, at_us, then.runs[run], then) for run in runs]


def run_of(history: History, id: str) -> str:
    """Return the run that `id` belongs to; empty if there is none."""
    if id in history.runs:
        return id
    if id in history.actions:
        return history.actions[id].stream if history.actions[id].stream in history.runs else ""
    if id in history.approvals:
        return history.approvals[id].run
    return history.run_of_step(id) if ids.parse(id)[0] == ids.STEP else ""


def position(records: Iterable[Record], named: str, *, begun: bool = False) -> int:
    """Return the number of the last event of `named`, or of its first event with `begun`."""
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
    """Return whether an event belongs to the run: its own, or part of a rollback of it by anyone."""
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
        return action.result  # the whole result is no longer kept; the redacted one in the log is
