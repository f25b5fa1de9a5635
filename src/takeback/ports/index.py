"""The port of the index: where the postings of a history are kept between processes. Never the truth."""

from __future__ import annotations

from abc import abstractmethod

from takeback.core.postings import Index
from takeback.core.standing import CurrentState, Unindexed


class KeptIndex(Index):
    """An index that outlives its process. Everything in it can be made again from the journal."""

    @abstractmethod
    def open(self, *, after: int = 0) -> tuple[CurrentState, str]:
        """Return what is so at the position of the index, and what to tell a human if an index was thrown away.

        An index that does not fit the journal, of another format, damaged or edited is thrown away: what is
        returned is then what is so before the first record. So is one that ends before record `after`.
        """

    @abstractmethod
    def again(self) -> KeptIndex:
        """Return another one in the same place, to be opened. This one answers as before until it is closed."""

    @abstractmethod
    def write(self, more: Unindexed) -> bool:
        """Take in what a history adds; False if that could not be, so that the history has to keep it at hand.

        Another process may have taken in some of it, or all of it, or more. May be killed at any time.
        """

    @abstractmethod
    def close(self) -> None:
        """Release what is open. May be called twice; a question opens it again."""
