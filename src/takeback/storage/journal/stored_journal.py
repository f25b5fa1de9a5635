"""What every journal in a database has: ways to look and to write, on which the outbox and the leases are built."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from takeback.core.events import Event

Db = TypeVar("Db")
"""What the statements of a backend are carried out on."""
T = TypeVar("T")


class StoredJournal(ABC, Generic[Db]):
    """A journal over the statements of one backend."""

    @abstractmethod
    def ask(self, work: Callable[[Db], T]) -> T:
        """Look at the database. May be carried out again where a connection is lost: looking changes nothing."""

    @abstractmethod
    def change(self, work: Callable[[Db], T]) -> T:
        """Change what no event tells, in one transaction. May be carried out again where a connection is lost.

        It survives the end of this process when this returns.
        """

    @abstractmethod
    def decide(
        self, work: Callable[[Db], Sequence[Event]], *, durable: bool = True, seated: bool = False
    ) -> None:
        """Look and write in a transaction that holds the end of the journal, and append what `work` returns.

        Where a connection is lost it may be carried out again; what was recorded then counts once. `seated` says
        that only the place in which the workspace sits may do it: others can deliver, not undo. Where it is not
        `durable`, a power cut may undo it.
        """
