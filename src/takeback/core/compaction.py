"""Compaction: which old records nothing needs in detail any more, and what is left of them for audit.

What is left of a record depends on that record alone, and must never change: an interrupted compaction may be
finished by a later version, and `verify` compares what is there with what was recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import folds, ids
from takeback.core import intents as i
from takeback.core.change import Target
from takeback.core.folds import is_doubtful
from takeback.core.history import History
from takeback.core.lifecycle import SETTLING, Life
from takeback.core.memory import RESOURCE as MEMORY
from takeback.core.record import Record
from takeback.core.seats import TREE
from takeback.core.values import SUBJECTS

SUBJECT_MAX = 200
BLOCK = 256
"""So many compacted records have one digest."""

Ranges = Sequence[tuple[int, int]]
"""Numbers of records: the first and the last of each range, in order."""

_OVER = (Life.DONE, Life.FAILED, Life.STOPPED)
_GONE = (i.IntentState.DELIVERED, *i.GONE)
_ENDS: dict[str, Any] = {"changes": (), "result": None, "full": ""}
_EMPTIED: dict[type, dict[str, Any]] = {
    e.ActionBegan: {
        "full": "",
        "process": None,
        "handlers": None,
        "outside": (),
        "uncaptured": (),
        "brand": 0,
        "paths": (),
    },
    e.ActionEnded: _ENDS,
    e.ActionSettled: _ENDS,
    e.ActionTold: _ENDS,
    e.ActionDetached: _ENDS | {"processes": ()},
    e.ActionNoted: {"result": None, "full": ""},
    e.ActionRefused: {},
    e.ApprovalAsked: {},
    e.CheckpointTaken: {},
    e.DriftSeen: {"changes": ()},
    e.ChangesSeen: {"changes": ()},
    e.RollbackBegan: {"swaps": (), "items": (), "process": None},
    e.RollbackEnded: {"items": (), "changes": ()},
    i.IntentDeferred: {"full": ""},
}
"""The events that lose something, and the fields that are emptied. Marks and arguments come on top."""


def reduced(event: e.Event) -> e.Event:
    """Return what is left of an event: the same event if it has nothing that audit does not need."""
    empty = _EMPTIED.get(type(event))
    if empty is None:
        return event
    left = dict(empty)
    if marks := getattr(event, "marks", ()):
        # Somebody looked at the files: that is known, but not what they saw.
        left["marks"] = tuple(e.Mark(TREE, "") for mark in marks if mark.resource == TREE)
    if (given := getattr(event, "arguments", None)) is not None:
        left["arguments"] = _subject(given)
    if all(getattr(event, name) == value for name, value in left.items()):
        return event
    return msgspec.structs.replace(event, **left)


def _subject(arguments: Any) -> Any:
    """Return only the command or the file of an agent's call; None if there is neither."""
    given = arguments.get("kwargs") if isinstance(arguments, dict) else None
    if not isinstance(given, dict):
        return None
    for name in SUBJECTS:
        if isinstance(text := given.get(name), str) and text:
            return {"kwargs": {name: text[:SUBJECT_MAX]}}
    return None


# Ranges


def ranges_of(seqs: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return ascending numbers as ranges."""
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return tuple(found)


def is_in(ranges: Ranges, seq: int) -> bool:
    """Return whether a number is in one of these ranges."""
    at = bisect_right(ranges, seq, key=itemgetter(0)) - 1
    return at >= 0 and seq <= ranges[at][1]


def count(ranges: Ranges) -> int:
    """Return how many numbers these ranges have."""
    return sum(last - first + 1 for first, last in ranges)


# Which records


class CompactionSurvey:
    """Finds the records up to one of them whose details nothing needs any more.

    Show it these records in order, and settle it. Then it says of each whether its details can go.
    """

    def __init__(
        self,
        history: History,
        through: int,
        later: Iterable[Record],
        is_setting: Callable[[Target], bool],
    ) -> None:
        """`later` are the records after `through`. `is_setting` knows files that a human may have to accept."""
        self.through = through
        self._history = history
        self._is_setting = is_setting
        self._kept: set[int] = set()
        """The actions that stay whole, by their numbers."""
        self._near: dict[int, set[int]] = {}
        """Actions that tell how others stand. The memory of a run has the number of the run."""
        self._unclear: set[str] = set()
        """Actions that rollbacks or later answers speak of: it must be clear how they stand."""
        self._marked: dict[str, tuple[int, str]] = {}
        """For each resource the last record with a mark of it, and the action that the record is about."""
        self._unused = {approval.id for approval in history.unused_approvals()}
        self._is_held = lru_cache(1024)(self._held)
        self._recent: set[str] = set()
        """Actions and streams of which later records speak."""
        self._seen_later: set[str] = set()
        """Resources of which later records have marks."""
        for record in later:
            self._look_later(record)

    def _look_later(self, record: Record) -> None:
        self._seen_later.update(mark.resource for mark in getattr(record.event, "marks", ()))
        self._recent.update((record.stream, _owner(record), *_named(record.event)))
        for change in folds.changes_of(record):
            self._recent.update(change.shared_with)

    def look_at(self, record: Record) -> None:
        """Take the next record into account."""
        event, owner = record.event, _owner(record)
        for mark in getattr(event, "marks", ()):
            if mark.resource not in self._seen_later:
                self._marked[mark.resource] = record.seq, owner
        if record.compacted_us or not ids.is_id(owner):
            return
        if owner in self._recent or self._is_held(record.stream) or self._history.is_unended(owner):
            self._keep(owner)
        if isinstance(event, i.IntentDeferred) and self._history.intents.every[record.id].state not in _GONE:
            self._keep(owner)
        self._look_at_changes(record, owner)
        if named := _named(event):
            self._unclear.update((owner, *named))
            self._join(owner, *named)
        elif isinstance(event, e.ActionTold):
            self._unclear.add(owner)

    def _look_at_changes(self, record: Record, owner: str) -> None:
        for change in folds.changes_of(record):
            target = change.target
            if self._is_setting(target):
                self._keep(owner)
            if target.resource == MEMORY and ids.is_id(target.root):
                # A value may be told as what differs from the value before it: all of them stay, or none.
                self._join(owner, target.root)
                if self._is_held(target.root):
                    self._keep(owner)
            if is_doubtful(change.after):
                self._unclear.add(owner)
            if isinstance(record.event, e.DriftSeen) and target.resource in ("calls", i.RESOURCE, MEMORY):
                self._keep(owner)  # it says what is left of a call that may still be asked about
            self._join(owner, *_actions(change.shared_with))

    def _join(self, *joined: str) -> None:
        """Note that these stay whole together: the first with each of the others."""
        first, *others = map(ids.seq_of, joined)
        for other in others:
            self._near.setdefault(first, set()).add(other)
            self._near.setdefault(other, set()).add(first)

    def settle(self) -> None:
        """Decide, after the last record: what stays whole keeps whole what its answers depend on."""
        for _, owner in self._marked.values():
            self._keep(owner)
        for id in self._unclear:
            if not self._is_clear(id):
                self._keep(id)
        pending = list(self._kept)
        while pending:
            fresh = self._near.get(pending.pop(), set()) - self._kept
            self._kept |= fresh
            pending += fresh

    def compacts(self, record: Record) -> bool:
        """Return whether the details of a record can go."""
        if record.compacted_us or record.id in self._unused:
            return False
        if any(seq == record.seq for seq, _ in self._marked.values()):
            return False
        owner = _owner(record)
        if owner and (not ids.is_id(owner) or ids.seq_of(owner) in self._kept):
            return False
        return reduced(record.event) is not record.event

    def _keep(self, action: str) -> None:
        if ids.is_id(action):
            self._kept.add(ids.seq_of(action))

    def _held(self, run: str) -> bool:
        """Return whether a run is not over, was not then, or can be called again by its key."""
        known = self._history.runs.get(run)
        if known is None:
            return False
        began = known.began  # a thread goes on after its end, and a session does not
        can_be_called = began.thread or (bool(began.key) and not began.detached)
        return known.life not in _OVER or can_be_called or run in self._recent

    def _is_clear(self, id: str) -> bool:
        """Return whether an action was taken back as a whole, or not at all, and nothing about it is in doubt."""
        history, action = self._history, self._history.actions.get(id)
        if action is None:
            return True
        if action.never or history.kept(id) or history.is_half_undone(id):
            return False
        if any(is_doubtful(history.latest(entry.target)) for entry in action.made):
            return False
        every, live = len(history.entries(id)), len(history.live(id))
        if not action.is_rollback:
            return history.is_undone(id) or live == every
        if any(item.did not in SETTLING or not item.verified for item in action.items):
            return False
        settles = len(history.settled_by(id))
        return (live, settles) == ((0, 0) if history.is_redone(id) else (every, len(action.items)))


def _named(event: e.Event) -> list[str]:
    """Return the actions that a record of a rollback speaks of."""
    if isinstance(event, e.RollbackBegan):
        return _actions(event.of)
    if isinstance(event, e.RollbackEnded):
        return list(dict.fromkeys(id for item in event.items for id in _actions(item.settles)))
    return []


def _owner(record: Record) -> str:
    """Return the action that a record begins or is about; empty if it is about none."""
    return folds.owner(record.event) or (record.id if record.id[:1] == ids.ACTION else "")


def _actions(named: Iterable[str]) -> list[str]:
    return [id for id in named if id[:1] == ids.ACTION and ids.is_id(id)]
