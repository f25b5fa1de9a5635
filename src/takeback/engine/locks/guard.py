"""Guarding locked paths against other agents: an action is warned or refused before, and reported after."""

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
    """A path that another holder has locked."""

    path: str
    lease: Lease

    def __str__(self) -> str:
        return f"{self.path} is locked by {who(self.lease)}"


class LockGuard:
    """The check of an action's paths against the locks of others."""

    def __init__(self, leases: Leases, ledger: Ledger, on_foreign: Callable[[], str]) -> None:
        self._leases = leases
        self._ledger = ledger
        self._on_foreign = on_foreign

    @property
    def refuses(self) -> bool:
        """True if an action that would write a locked path is refused; otherwise it only gets a warning."""
        return self._on_foreign() == "refuse"

    def before(self, touched: Sequence[Reached], *, run: str = "", parent: str = "") -> list[Trespass]:
        """Return which of the paths that an action says it writes are locked by others.

        `run` or `parent` says whose action it is. Calls are frequent, so without paths no lock is read.
        """
        foreign = self._foreign(run, parent) if touched else []
        if not foreign:
            return []
        found = [Trespass(one.path, lease) for one in touched if (lease := self._against(one, foreign))]
        return list(dict.fromkeys(found))

    def after(self, action: RecordedAction) -> list[Trespass]:
        """Return what an action changed although others have it locked."""
        made = (c for c in action.changes if c.target.resource == FILES and c.before.id != c.after.id)
        names = sorted({change.target.name for change in made})
        foreign = self._foreign(action.stream, "") if names else []
        return [
            Trespass(name, lease)
            for name in names
            if (lease := next((one for one in foreign if covers(one.name, name)), None))
        ]

    def how(self, found: list[Trespass]) -> str:
        """Return what the user can do about the first of these."""
        return self._leases.how_to_free(found[0].lease)

    def _foreign(self, run: str, parent: str) -> list[Lease]:
        """Return the locks of others. A human's own lock is foreign even to a run that this human started."""
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
    """Return who has locked what, as text."""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{found[0]}{more}"
