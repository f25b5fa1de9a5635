"""The plan of a restore: all changes from the present to a moment, whoever made the differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from takeback.core import events as e
from takeback.core.change import ABSENT, OUTSIDE, Change, Target
from takeback.core.history import History
from takeback.core.moments import Moment
from takeback.core.rollback import Do, Planned
from takeback.core.selection import Filter
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import ConflictError


def refuse_pruned(tracker: Tracker, moment: Moment, marks: Iterable[e.Mark]) -> None:
    """Raise ConflictError if content of the moment was pruned."""
    for mark in marks:
        if not tracker.observed[mark.resource].keeps(mark):
            raise ConflictError(
                f"the {mark.resource} of {moment.name} were pruned, so nothing was changed",
                hint="the limits in takeback.toml say how long content is kept",
            )


def planned(tracker: Tracker, moment: Moment, marks: Iterable[e.Mark], wanted: Filter) -> tuple[Planned, ...]:
    """Return the plan that restores the tree of a moment, target by target. `marks` is what was seen then."""
    found = ways_back(tracker, moment, marks)
    return tuple(_restored(tracker, change, moment.position) for change in found if wanted(change.target))


def ways_back(tracker: Tracker, moment: Moment, marks: Iterable[e.Mark]) -> Iterator[Change]:
    """Yield the changes that lead from the last recorded tree to that of a moment."""
    of_the_tree = [mark for mark in marks if tracker.resources[mark.resource].traits.of_the_tree]
    refuse_pruned(tracker, moment, of_the_tree)
    for mark in of_the_tree:
        yield from _way_back(tracker, mark)


def left_alone(tracker: Tracker, moment: Moment, marks: Iterable[e.Mark]) -> Iterator[Planned]:
    """Yield what differs from the moment and stays so. Otherwise the report would look complete."""
    why = "a restore does not move branches; `takeback undo` takes back what an action did to it"
    for mark in marks:
        if mark.resource == OUTSIDE:
            continue
        resource = tracker.observed[mark.resource]
        moved = not resource.traits.of_the_tree and resource.keeps(mark)
        if moved and any(not tracker.follows(change.target) for change in _way_back(tracker, mark)):
            yield Planned(Target(mark.resource, "the repository"), Do.KEEP, ABSENT, ABSENT, (), why=why)
    yield from _left_outside(tracker.ledger.history, moment.position)


def _left_outside(history: History, position: int) -> Iterator[Planned]:
    """Yield what actions changed outside the workspace since a position, which a restore does not cover."""
    why = "it is outside the workspace; `takeback undo` takes back what an action did to it"
    for target in history.targets(OUTSIDE):
        since = history.timeline(target, after=position)
        made = [entry for entry in since if history.actions[entry.action].is_tool]
        if any(not history.taken_back(entry.action, target, entry.seq) for entry in made):
            yield Planned(target, Do.KEEP, ABSENT, ABSENT, (), why=why)


def _way_back(tracker: Tracker, mark: e.Mark) -> Iterable[Change]:
    """Return the changes that lead from the present to a mark."""
    return tracker.observed[mark.resource].changes(tracker.ledger.history.marks[mark.resource], mark)


def _restored(tracker: Tracker, change: Change, position: int) -> Planned:
    history = tracker.ledger.history
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
