"""What lies outside the workspace is of the machine on which it was changed: another one has other files there."""

from __future__ import annotations

import msgspec

from takeback.core.history import History
from takeback.core.rollback import Do, Planned
from takeback.core.selection import Selection
from takeback.engine.paths import OUTSIDE


def without(history: History, chosen: Selection) -> tuple[Selection, list[Planned]]:
    """These changes without those that were made outside on another machine, and what is to be said of them."""
    moved = history.moves.moved
    far = [entry for entry in chosen.entries if entry.target.resource == OUTSIDE and entry.seq < moved]
    if not far:
        return chosen, []
    left = []
    for target, entry in {entry.target: entry for entry in far}.items():
        place = history.moves.at(entry.seq)
        why = f"it lies outside the workspace, on the machine of {place.said if place else 'then'}"
        left.append(Planned(target, Do.LEAVE, entry.change.after, entry.change.after, (), why=why))
    near = tuple(entry for entry in chosen.entries if entry not in far)
    return msgspec.structs.replace(chosen, entries=near), left
