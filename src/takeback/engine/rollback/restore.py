"""The plan of a restore: all changes from the present to a checkpoint, whoever made the differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import ABSENT, OUTSIDE, Change, Target
from takeback.core.entities import Checkpoint
from takeback.core.history import History
from takeback.core.rollback import Do, Planned
from takeback.core.selection import Filter, refuse_compacted
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import ConflictError


def refuse_pruned(tracker: Tracker, checkpoint: Checkpoint) -> None:
    """Raise ConflictError if the content of the checkpoint was pruned, or its record compacted."""
    refuse_compacted(checkpoint)
    for mark in _of_the_tree(tracker, checkpoint):
        if not tracker.observed[mark.resource].keeps(mark):
            raise ConflictError(
                f"the {mark.resource} of {checkpoint.id} were pruned, so nothing was changed",
                hint="the limits in takeback.toml say how long content is kept",
            )


def planned(tracker: Tracker, checkpoint: Checkpoint, wanted: Filter) -> tuple[Planned, ...]:
    """Return the plan that restores the tree of the checkpoint, target by target."""
    return tuple(
        _restored(tracker, change, checkpoint.id)
        for mark in _of_the_tree(tracker, checkpoint)
        for change in _way_back(tracker, mark)
        if wanted(change.target)
    )


def left_alone(tracker: Tracker, checkpoint: Checkpoint) -> Iterator[Planned]:
    """Yield what differs from the checkpoint and stays so. Otherwise the report would look complete."""
    why = "a restore does not move branches; `takeback undo` takes back what an action did to it"
    for mark in checkpoint.taken.marks:
        if mark.resource == OUTSIDE:
            continue
        resource = tracker.observed[mark.resource]
        moved = not resource.traits.of_the_tree and resource.keeps(mark)
        if moved and any(not tracker.follows(change.target) for change in _way_back(tracker, mark)):
            yield Planned(Target(mark.resource, "the repository"), Do.KEEP, ABSENT, ABSENT, (), why=why)
    yield from _left_outside(tracker.ledger.history, checkpoint.id)


def _left_outside(history: History, checkpoint: str) -> Iterator[Planned]:
    """Yield what actions changed outside the workspace since the checkpoint, which does not cover it."""
    why = "it is outside the workspace; `takeback undo` takes back what an action did to it"
    for target in history.targets(OUTSIDE):
        since = history.timeline(target, after=ids.seq_of(checkpoint))
        made = [entry for entry in since if history.actions[entry.action].is_tool]
        if any(not history.taken_back(entry.action, target, entry.seq) for entry in made):
            yield Planned(target, Do.KEEP, ABSENT, ABSENT, (), why=why)


def _of_the_tree(tracker: Tracker, checkpoint: Checkpoint) -> list[e.Mark]:
    return [mark for mark in checkpoint.taken.marks if tracker.resources[mark.resource].traits.of_the_tree]


def _way_back(tracker: Tracker, mark: e.Mark) -> Iterable[Change]:
    """Return the changes that lead from the present to a mark."""
    return tracker.observed[mark.resource].changes(tracker.ledger.history.marks[mark.resource], mark)


def _restored(tracker: Tracker, change: Change, checkpoint: str) -> Planned:
    history, position = tracker.ledger.history, ids.seq_of(checkpoint)
    undone = [
        entry
        for entry in history.timeline(change.target, after=position)
        if history.actions[entry.action].is_tool
        and not history.taken_back(entry.action, change.target, entry.seq)
    ]
    do = Do.RESTORE if change.after else Do.REMOVE
    settles = tuple(dict.fromkeys(entry.action for entry in undone))
    seqs = tuple(entry.seq for entry in undone)
    return Planned(change.target, do, change.before, change.after, settles, seqs)
