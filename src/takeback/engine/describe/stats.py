"""What agents did in a period, in numbers: by agent and tool, from the records of that period alone."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change
from takeback.core.history import History
from takeback.core.record import Record
from takeback.engine.describe.recent import first_after
from takeback.engine.describe.wording import taken_back
from takeback.engine.runs.actions import ASKED
from takeback.ports.journal import Journal
from takeback.ports.progress import Progress, silent
from takeback.resources.files.entry import entry_of

RUN_TOOL = "takeback run"
OWN_CODE = "own code"
"""What a program does in a run outside of its calls."""
_FAILED = (e.Outcome.FAILED, e.Outcome.STOPPED)


class AgentTally(msgspec.Struct):
    """The numbers of one agent, or of one of its tools."""

    actions: int = 0
    failed: int = 0
    taken_back: int = 0
    asked: int = 0
    refused: int = 0
    handed_over: int = 0
    undos: int = 0
    undo_us: int = 0
    bytes_kept: int = 0
    """New content that was stored because of it, each content once."""

    def add(self, other: AgentTally) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


Statistics = dict[str, dict[str, AgentTally]]
"""The tallies of each agent, by tool; what belongs to no tool, such as a handover, is under an empty name."""


def statistics(history: History, journal: Journal, since_us: int, progress: Progress = silent) -> Statistics:
    """Count what happened since a time. The records of that period are read, once and in order."""
    after = first_after(history, since_us - 1) - 1 if since_us else 0
    count = _Count(history)
    records = journal.read(after=max(after, 0))
    for record in progress("Counting", records, history.seq - max(after, 0)):
        if record.at_us >= since_us:
            count.add(record)
    return count.finished()


class _Count:
    def __init__(self, history: History) -> None:
        self._history = history
        self._found: Statistics = {}
        self._whose: dict[str, tuple[str, str]] = {}
        """The agent and the tool of each action of the period."""
        self._rollbacks: dict[str, int] = {}
        """When each rollback of the period began."""
        self._touched: dict[str, None] = {}
        """Actions of the period that a rollback dealt with."""
        self._contents: set[bytes] = set()

    def add(self, record: Record) -> None:
        event = record.event
        if isinstance(event, e.ActionBegan | e.ActionNoted):
            self._began(record, event)
        elif isinstance(event, e.ActionEnded | e.ActionDetached | e.ActionSettled | e.ChangesSeen):
            self._went_on(event)
        elif isinstance(event, e.RollbackBegan):
            self._rollbacks[record.id] = record.at_us
        elif isinstance(event, e.RollbackEnded):
            self._rolled_back(record, event)
        elif isinstance(event, e.ApprovalAsked):
            self._tally(self._agent(record.stream), event.name).asked += 1
        elif isinstance(event, e.ActionRefused):
            self._tally(self._agent(record.stream), event.name).refused += 1
        elif isinstance(event, e.RunHandedOver):
            self._tally(self._agent(record.stream), "").handed_over += 1

    def finished(self) -> Statistics:
        for id in self._touched:
            if taken_back(self._history, [id], "taken back") == "taken back":
                self._tally(*self._whose[id]).taken_back += 1
        return self._found

    def _tally(self, agent: str, tool: str) -> AgentTally:
        return self._found.setdefault(agent, {}).setdefault(tool, AgentTally())

    def _agent(self, stream: str, actor: str = "") -> str:
        run = None if actor else self._history.runs.get(stream)
        return (actor or (run.began.actor if run else "") or "agent").split(":")[0]

    def _began(self, record: Record, event: e.ActionBegan | e.ActionNoted) -> None:
        whose = (self._agent(record.stream, getattr(event, "actor", "")), self._tool(record.stream, event))
        self._whose[record.id] = whose
        tally = self._tally(*whose)
        tally.actions += 1
        if isinstance(event, e.ActionNoted):
            tally.failed += event.outcome in _FAILED
        elif ASKED in event.ref.split():
            tally.asked += 1

    def _tool(self, stream: str, event: e.ActionBegan | e.ActionNoted) -> str:
        if event.tool or event.key:
            return event.name
        run = self._history.runs.get(stream)
        return OWN_CODE if run and run.is_listed else RUN_TOOL

    def _went_on(self, event: e.ActionEnded | e.ActionDetached | e.ActionSettled | e.ChangesSeen) -> None:
        if event.action not in self._whose:
            return
        tally = self._tally(*self._whose[event.action])
        tally.failed += getattr(event, "outcome", None) in _FAILED
        tally.bytes_kept += self._new_bytes(event.changes)

    def _new_bytes(self, changes: Iterable[Change]) -> int:
        total = 0
        for change in changes:
            is_file = change.target.resource == "files" and isinstance(change.after.data, list)
            entry = entry_of(change.after) if is_file else None
            if entry and entry.content and entry.content not in self._contents:
                self._contents.add(entry.content)
                total += entry.size
        return total

    def _rolled_back(self, record: Record, event: e.RollbackEnded) -> None:
        settled = {id: None for item in event.items for id in item.settles}
        self._touched.update((id, None) for id in settled if id in self._whose)
        began_us = self._rollbacks.get(event.rollback)
        rollback = self._history.actions.get(event.rollback)
        first = next((id for id in sorted(settled, key=ids.seq_of) if id[:1] == ids.ACTION), "")
        if began_us is None or rollback is None or rollback.kind != e.RollbackKind.UNDO or not first:
            return
        whose = self._whose.get(first)
        if whose is None and (action := self._history.actions.get(first)):
            began = action.as_tool
            whose = (self._agent(action.stream, action.actor), self._tool(action.stream, began))
        if whose:
            tally = self._tally(*whose)
            tally.undos += 1
            tally.undo_us += record.at_us - began_us
