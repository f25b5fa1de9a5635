"""The processes of this machine, and which of them recorded calls of the workspace started."""

from __future__ import annotations

import os
from collections.abc import Iterator

from takeback.core import events as e
from takeback.core.lifecycle import Life
from takeback.engine.tracking.tracker import Tracker
from takeback.shell.sink import RunningProcess
from takeback.system import processes


def running(tracker: Tracker) -> list[RunningProcess]:
    """Return every readable process. One without the brand or token of a call belongs to others."""
    table = processes.ProcessTable()
    own = _started_here(tracker, table)
    return list(_described(table.pids(), own))


def _started_here(tracker: Tracker, table: processes.ProcessTable) -> set[int]:
    history = tracker.ledger.refresh()
    actions = [*history.open_actions(), *history.open_actions(Life.BACKGROUND)]
    began = [action.began for action in actions if isinstance(action.began, e.ActionBegan)]
    found = table.branded({one.brand for one in began} - {0})
    for action in actions:
        found |= table.with_token(tracker.token(action.id)) | table.alive(action.processes)
    # An agent carries the brand of its own calls, but its calls started neither it nor its ancestors.
    above = {one.pid for one in processes.lineage()} | {one.process.pid for one in began if one.process}
    return table.with_offspring(found) - above


def _described(pids: set[int], own: set[int]) -> Iterator[RunningProcess]:
    for pid in sorted(pids - {os.getpid()}):
        name = processes.read_of(pid, "comm").decode(errors="replace").strip()
        words = processes.read_of(pid, "cmdline").rstrip(b"\0").split(b"\0")
        yield RunningProcess(pid, name, b" ".join(words).decode(errors="replace"), pid in own)
