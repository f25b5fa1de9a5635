"""The outcome of a rollback for each target: planned, then actual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from takeback.core import events as e
from takeback.core.change import OF_PATHS, Change
from takeback.core.folds import is_doubtful
from takeback.core.history import History
from takeback.core.rollback import Do, OnConflict, Planned
from takeback.ports.resource import Resource, Swap, Swapped

_DID = {
    Do.ALREADY: e.Did.ALREADY,
    Do.KEEP: e.Did.KEPT,
    Do.LEAVE: e.Did.KEPT,
    Do.MERGE: e.Did.MERGED,
    Do.COMPENSATE: e.Did.COMPENSATED,
    Do.CANCEL: e.Did.CANCELLED,
    Do.CONFLICT: e.Did.CONFLICT,
}

WRITES = (Do.RESTORE, Do.REMOVE, Do.MERGE, Do.COMPENSATE, Do.CANCEL)


def foreseen(item: Planned) -> e.Did:
    """Return the outcome to record if the swap succeeds.

    It is UNVERIFIABLE if nothing can check it, so that a human can decide.
    """
    if item.do is Do.LEAVE and (is_doubtful(item.present) or item.present.is_unknown):
        return e.Did.UNVERIFIABLE
    return _DID.get(item.do) or (e.Did.RESTORED if item.goal else e.Did.REMOVED)


def done(planned: e.Item, swapped: Swapped | None) -> e.Item:
    if swapped is None:
        return planned
    merged = planned.did is e.Did.MERGED and swapped.did is e.Did.RESTORED
    did = e.Did.MERGED if merged else swapped.did
    why = swapped.why or planned.why
    return msgspec.structs.replace(planned, did=did, verified=swapped.verified, why=why)


def written(planned: Change, swapped: Swapped) -> Change:
    """Return the rollback's own change of a target. Any other version there was written by someone else later."""
    only_stamp = planned.before == planned.after
    unchanged = swapped.now.alike(planned.before) if only_stamp else swapped.now == planned.before
    if swapped.did is e.Did.CONFLICT or unchanged:
        return Change(planned.target, planned.before, planned.before)
    after = swapped.now if swapped.now == planned.after else planned.after
    return Change(planned.target, planned.before, after)


def otherwise(item: Planned, do: Do, why: str, on_conflict: OnConflict) -> Planned:
    """Return an item with what its resource foresees."""
    if do is Do.CONFLICT and on_conflict is OnConflict.KEEP:
        do = Do.KEEP
    goal = item.goal if do in WRITES else item.present
    return msgspec.structs.replace(item, do=do, goal=goal, why=why)


def in_order(resources: Iterable[Resource], began: e.RollbackBegan) -> Iterator[tuple[Resource, list[Swap]]]:
    """Yield each resource with its swaps, in order.

    What lies in a folder is removed before the folder, and restored after it.
    """
    every, later = swaps_of(began.swaps, OnConflict(began.on_conflict)), []
    for resource in resources:
        swaps = [swap for swap in every if swap.target.resource == resource.name]
        if resource.traits.within_files:
            later.append((resource, [swap for swap in swaps if swap.goal]))
            swaps = [swap for swap in swaps if not swap.goal]
        yield resource, swaps
    yield from later


def swaps_of(changes: Iterable[Change], choice: OnConflict) -> list[Swap]:
    """Return the writes of a plan, each with whether another one writes the same path."""
    every = list(changes)
    at = Counter(change.target.name for change in every if change.target.resource in OF_PATHS)
    return [Swap(c.target, c.before, c.after, choice, at[c.target.name] > 1) for c in every]


def as_whose(swap: Swap, history: History) -> Swap:
    """Return the swap, marked if it overwrites a version that no action wrote: a human's."""
    if not swap.present:
        return swap  # there is nothing to overwrite, and nobody to ask for
    last = next(history.latest_entries(swap.target), None)
    is_agents = last and history.actions[last.action].is_tool and last.change.after == swap.present
    return msgspec.structs.replace(swap, overwrites_others=not is_agents)
