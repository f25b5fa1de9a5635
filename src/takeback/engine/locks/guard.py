"""What is locked by one agent is guarded against the others: told or refused before, and told after."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from takeback.core.entities import RecordedAction
from takeback.core.leases import EVERYTHING, Lease, covers
from takeback.engine.ledger import Ledger
from takeback.engine.locks.leases import Leases, family_of, who
from takeback.errors import UsageError
from takeback.ports.foresight import Reached

FILES = "files"


class Trespass(msgspec.Struct, frozen=True):
    """Something that is locked by another."""

    path: str
    lease: Lease

    def __str__(self) -> str:
        return f"{self.path} is locked by {who(self.lease)}"


class LockGuard:
    """Knows what an action must keep off."""

    def __init__(self, leases: Leases, ledger: Ledger, on_foreign: Callable[[], str]) -> None:
        self._leases = leases
        self._ledger = ledger
        self._on_foreign = on_foreign

    @property
    def refuses(self) -> bool:
        """Whether what would write there is refused; else it is told."""
        return self._on_foreign() == "refuse"

    def before(self, touched: Sequence[Reached], *, run: str = "", parent: str = "") -> list[Trespass]:
        """Return what of the paths that an action says it writes is locked by others.

        `run` or `parent` say whose it is. Calls are frequent, so where no path is named no lock is read.
        """
        foreign = self._foreign(run, parent) if touched else []
        if not foreign:
            return []
        found = [Trespass(one.path, lease) for one in touched if (lease := self._against(one, foreign))]
        return list(dict.fromkeys(found))

    def after(self, action: RecordedAction) -> list[Trespass]:
        """What an action changed all the same, although others have it locked."""
        made = (c for c in action.changes if c.target.resource == FILES and c.before.id != c.after.id)
        names = sorted({change.target.name for change in made})
        foreign = self._foreign(action.stream, "") if names else []
        return [
            Trespass(name, lease)
            for name in names
            if (lease := next((one for one in foreign if covers(one.name, name)), None))
        ]

    def how(self, found: list[Trespass]) -> str:
        """What a human can do about the first of these."""
        return self._leases.how_to_free(found[0].lease)

    def _foreign(self, run: str, parent: str) -> list[Lease]:
        """What a human locked by hand is of no run, also of none that the same human started."""
        live = self._leases.live()
        if not live:
            return []
        family = family_of(self._ledger.refresh(), run, parent)
        return [lease for lease in live if lease.holder.run not in family]

    def _against(self, one: Reached, foreign: list[Lease]) -> Lease | None:
        for path in filter(os.path.isabs, (one.path, one.really)):
            try:
                place = self._leases.place(path)
            except UsageError:
                place = EVERYTHING  # above the workspace
            for lease in foreign:
                if covers(lease.name, place) or (one.deletes and covers(place, lease.name)):
                    return lease
        return None


def told(found: list[Trespass]) -> str:
    """Who has what, in words."""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{found[0]}{more}"
