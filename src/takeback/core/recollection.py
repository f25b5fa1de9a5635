"""What a history has at hand, and what it reads again from the journal when it is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from typing import Any

from takeback.core import events as e
from takeback.core import folds, ids
from takeback.core.change import Change, Entry, Target
from takeback.core.entities import Approval, Checkpoint, ManyEntries, RecordedAction, RecordedRun
from takeback.core.memory import RESOURCE as MEMORY
from takeback.core.memory import value_after
from takeback.core.outbox_fold import Intents
from takeback.core.postings import Guard, IdsInRun, Index, Postings, Recalled, Topic, numbered, of_target
from takeback.core.record import Record

MANY = 64
"""A record with more changes than this is not searched from end to end for each target."""


class Recollection:
    """The things that a journal tells of, each folded from its own records alone unless it is at hand."""

    def __init__(self, index: Index | None, guard: Guard | None = None) -> None:
        self.postings = postings = Postings(index, guard)
        self.runs = Recalled(postings, ids.RUN, Topic.RUNS, self._run)
        self.actions = Recalled(postings, ids.ACTION, Topic.ACTIONS, self._action)
        self.checkpoints = Recalled(postings, ids.CHECKPOINT, Topic.CHECKPOINTS, self._checkpoint)
        self.approvals = Recalled(postings, ids.APPROVAL, Topic.APPROVALS, self._approval)
        self.intents = Intents(postings)
        self._timelines: dict[Target, list[Entry]] = {}
        self._memory: dict[str, dict[str, Any]] = {}
        self._by_target: dict[int, dict[Target, list[Change]]] = {}
        """The changes of a record with very many."""

    @property
    def at_hand(self) -> int:
        """How many things are at hand."""
        kinds = (self.runs, self.actions, self.checkpoints, self.approvals, self.intents.every)
        return sum(len(things.at_hand) for things in kinds)

    def keep(self, *, actions: Collection[str], runs: Collection[str], approvals: Collection[str]) -> None:
        """Keep only these at hand: everything else can be read again."""
        for things, wanted in ((self.actions, actions), (self.runs, runs), (self.approvals, approvals)):
            _keep(things, wanted)
        for action in self.actions.at_hand.values():
            self._shed(action)
        _keep(self.checkpoints, ())
        self.intents.keep_nothing()
        self._timelines.clear()
        self._memory = {run: values for run, values in self._memory.items() if run in runs}

    # Timelines and memory

    def timeline(self, target: Target, after: int = 0) -> list[Entry]:
        """Return the recorded changes of a target in order, whoever made them; only those after a record."""
        known = self._timelines.get(target)
        if known is None:
            seqs = [seq for seq in self.postings.seqs(of_target(target)) if seq > after]
            known = [entry for record in self.postings.read(seqs) for entry in self._entries(record, target)]
            if not after:
                self._timelines[target] = known
        return [entry for entry in known if entry.seq > after] if after else known

    def latest_entries(self, target: Target) -> Iterator[Entry]:
        """Yield the recorded changes of a target, the latest first, and read no more than is taken."""
        if target in self._timelines:
            yield from reversed(self._timelines[target])
            return
        for seq in self.postings.newest(of_target(target)):
            found = [entry for record in self.postings.read([seq]) for entry in self._entries(record, target)]
            yield from reversed(found)

    def memory_of(self, run: str) -> dict[str, Any]:
        """Return the memory of a run: values by their paths. It is a copy: another thread may record a change."""
        with self.postings.guard:
            if run not in self._memory:
                self._memory[run] = self._read_memory(run)
            return dict(self._memory[run])

    def _read_memory(self, run: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        timelines: dict[Target, list[Entry]] = {}
        for record in self.postings.records(numbered(Topic.MEMORY, run)):
            for change in folds.changes_of(record):
                if change.target.resource == MEMORY and change.target.root == run:
                    timeline = timelines.setdefault(change.target, [])
                    timeline.append(Entry(record.seq, "", change))
                    _apply(values, timeline)
        return values

    def changed(self, record: Record, action: str, change: Change) -> bool:
        """Take in a change that has just been recorded; False if the value that it leaves is unknown."""
        target = change.target
        if target in self._timelines or not self.postings.position:
            self._timelines.setdefault(target, []).append(Entry(record.seq, action, change))
        if target.resource != MEMORY:
            return True
        if target.root not in self._memory and self.postings.position:
            return True  # it is read when somebody asks
        return _apply(self._memory.setdefault(target.root, {}), self.timeline(target))

    def _entries(self, record: Record, target: Target) -> list[Entry]:
        """Return the changes of a target that a record tells of."""
        changes = folds.changes_of(record)
        if len(changes) > MANY:
            if record.seq not in self._by_target:
                self._by_target = {record.seq: defaultdict(list)}  # one at a time: they are large
                for change in changes:
                    self._by_target[record.seq][change.target].append(change)
            changes = tuple(self._by_target[record.seq].get(target, ()))
        maker = folds.owner(record.event) or record.id
        return [Entry(record.seq, maker, change) for change in changes if change.target == target]

    # Reading again what is not at hand

    def _action(self, id: str) -> RecordedAction | None:
        seqs = self.postings.seqs(numbered(Topic.ACTION, id))
        added = list(islice(self.postings.after(numbered(Topic.ADDED, id)), MANY + 1))
        is_long = len(added) > MANY
        first, *more = self.postings.read(seqs if is_long else [*seqs, *added]) or (None,)
        if first is None or first.id != id:
            return None
        action = folds.begun(first, first.event)  # type: ignore[arg-type]
        action.beside = bool(self.postings.seqs(numbered(Topic.BESIDE, id)))
        for record in more:
            folds.next_of_action(action, record)
        if is_long:
            action.made = ManyEntries(partial(self._earlier, id, folds.made_in), self.postings.last)
        return action

    def _shed(self, action: RecordedAction) -> None:
        """Keep few changes of an open action at hand: the body of a run may make very many."""
        action.made = self._shorter(action.made, partial(self._earlier, action.id, folds.made_in))
        action.shared = self._shorter(action.shared, partial(self._earlier, action.id, folds.shared_in))

    def _shorter(
        self, entries: list[Entry] | ManyEntries, earlier: Callable[[int], Iterator[Entry]]
    ) -> list[Entry] | ManyEntries:
        if isinstance(entries, ManyEntries):
            entries.shed()
        elif len(entries) > MANY:
            return ManyEntries(earlier, entries[-1].seq)
        return entries

    def _earlier(
        self, id: str, told: Callable[[str, Record], Iterator[Entry]], until: int
    ) -> Iterator[Entry]:
        """Yield the changes of an action that records up to one tell of, and read no more than is taken."""
        about = (self.postings.after(numbered(topic, id)) for topic in (Topic.ACTION, Topic.ADDED))
        seqs = takewhile(lambda seq: seq <= until, merge(*about))
        while some := list(islice(seqs, MANY)):
            for record in self.postings.read(some):
                yield from told(id, record)

    def _run(self, id: str) -> RecordedRun | None:
        first, *more = self.postings.records(numbered(Topic.RUN, id)) or (None,)
        if first is None or not isinstance(first.event, e.RunBegan):
            return None
        run = self.begun(id, first.at_us, first.event)
        for record in more:
            folds.next_of_run(run, record)
        return run

    def begun(self, id: str, at_us: int, event: e.RunBegan) -> RecordedRun:
        """Return a run that has just begun."""
        run = RecordedRun(id, event, at_us)
        run.actions = IdsInRun(self.postings, ids.ACTION, Topic.IN_RUN, id)
        return run

    def _checkpoint(self, id: str) -> Checkpoint | None:
        (record,) = self.postings.read([ids.seq_of(id)]) or (None,)
        if (
            record is None
            or not isinstance(record.event, e.CheckpointTaken)
            or record.seq > self.postings.last
        ):
            return None
        return Checkpoint(id, record.stream, record.at_us, record.event, record.compacted_us)

    def _approval(self, id: str) -> Approval | None:
        first, *more = self.postings.records(numbered(Topic.APPROVAL, id)) or (None,)
        if first is None or not isinstance(first.event, e.ApprovalAsked):
            return None
        approval = Approval(id, first.stream, first.at_us, first.event)
        for record in more:
            folds.next_of_approval(approval, record.event)  # type: ignore[arg-type]
        return approval


def _apply(values: dict[str, Any], timeline: list[Entry]) -> bool:
    """Apply the last change of a timeline to what a run remembers; False if its value is unknown."""
    change = timeline[-1].change
    current = values.pop(change.target.name, None)
    if change.after:
        try:
            values[change.target.name] = value_after(timeline, len(timeline) - 1, current)
        except (KeyError, TypeError):
            return False
    return True


def _keep(things: Recalled[Any], wanted: Collection[str]) -> None:
    things.at_hand = {id: thing for id in wanted if (thing := things.at_hand.get(id))}
