"""Changes that could not be looked at, because the server was unreachable when their action ended.

There may be some, or none at all. A rollback looks again; while the server is unreachable, they do not block others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from takeback.core.change import OUTSIDE, Change, Target, Version
from takeback.core.history import History
from takeback.core.rollback import Do, Planned
from takeback.core.selection import Filter, Selection, last_action
from takeback.errors import BackendError

See = Callable[[Iterable[Target]], Mapping[Target, Version]]

WHY = "the server cannot be reached; what was done there, if anything, is unknown and stays"


def last(history: History, wanted: Filter, see: See) -> tuple[Selection, tuple[str, ...]]:
    """Return the latest action known to have changed something, and the later ones that were skipped.

    An action is skipped if its changes are unreachable; one that changed nothing does not count. If only skipped
    actions are left, raise the connection error: we cannot claim that there is nothing to take back.
    """
    passed: list[str] = []
    nothing: list[str] = []
    errors: list[BackendError] = []
    while chosen := last_action(history, wanted, [*passed, *nothing]):
        changes = [entry.change for entry in chosen.entries]
        if not all(change.after.is_unknown for change in changes):
            break
        seen, hidden = _look(changes, see)
        if any(seen.values()):
            break
        (passed if hidden else nothing).extend(chosen.actions)
        errors += hidden.values()
    if errors and not chosen:
        raise errors[0]
    return chosen, tuple(passed)


def without(chosen: Selection, see: See) -> tuple[Selection, list[Planned]]:
    """Return these changes without the unreachable ones, and the items that report those.

    If all are unreachable, raise the connection error, because nothing can be done.
    """
    changes = {entry.target: entry.change for entry in chosen.entries if entry.change.after.is_unknown}
    if not changes:
        return chosen, []
    _, hidden = _look(changes.values(), see)
    rest = tuple(entry for entry in chosen.entries if entry.target not in hidden)
    if hidden and not rest:
        raise next(iter(hidden.values()))
    left = [Planned(t, Do.LEAVE, changes[t].after, changes[t].after, (), why=WHY) for t in hidden]
    return msgspec.structs.replace(chosen, entries=rest), left


def _look(changes: Iterable[Change], see: See) -> tuple[dict[Target, Version], dict[Target, BackendError]]:
    seen: dict[Target, Version] = {}
    hidden: dict[Target, BackendError] = {}
    for change in changes:
        try:
            seen |= see([change.target])
        except BackendError as error:
            hidden[change.target] = error
    return seen, hidden


def without_foreign(history: History, chosen: Selection) -> tuple[Selection, list[Planned]]:
    """Return these changes without those made outside the workspace on another machine, and items for those."""
    moved = history.moves.moved
    far = [entry for entry in chosen.entries if entry.target.resource == OUTSIDE and entry.seq < moved]
    if not far:
        return chosen, []
    left = []
    for target, entry in {entry.target: entry for entry in far}.items():
        place = history.moves.at(entry.seq)
        why = f"it is outside the workspace, on {place.said if place else 'another machine'}"
        left.append(Planned(target, Do.LEAVE, entry.change.after, entry.change.after, (), why=why))
    near = tuple(entry for entry in chosen.entries if entry not in far)
    return msgspec.structs.replace(chosen, entries=near), left
