"""An earlier moment of a history, without the fold of everything before it.

The records of one thing up to a record are its postings up to that record. So a run, an action, a request or the
memory of a run is folded as it was then from its own records alone, however many others there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from takeback.core import ids
from takeback.core.change import Target
from takeback.core.history import History
from takeback.core.postings import END, Flag, Index, Postings, Topic, numbered
from takeback.core.record import Record
from takeback.core.standing import CurrentState

Pick = Callable[[Sequence[int]], list[Record]]
"""Reads the records with these numbers, in order."""


def at(history: History, until: int, pick: Pick) -> History:
    """Return a history as it was at an earlier record: its beginning, runs, actions, approvals and memory.

    What was open then, or was recorded last, is not known.
    """
    then = History()
    then.begin_at(EarlierIndex(history.postings, until, pick), CurrentState(seq=until, began=history.began))
    return then


def records_about(history: History, id: str) -> list[int]:
    """Return the numbers of the records that tell when something began and ended: anything but a run."""
    topics = {ids.ACTION: Topic.ACTION, ids.APPROVAL: Topic.APPROVAL}
    if topic := topics.get(id[:1]):
        return history.postings.seqs(numbered(topic, id))
    run = history.run_of_step(id) if id[:1] == ids.STEP else ""
    return history.postings.seqs(numbered(Topic.RUN, run)) if run else [ids.seq_of(id)]


class EarlierIndex(Index):
    """What was known at an earlier record, found in the postings of a later history.

    For topics that post records. One that posts the numbers of things does not say since when it does, and flags are
    those of the present. Whoever asks leaves out what came after the position, as with every index.
    """

    def __init__(self, postings: Postings, until: int, pick: Pick) -> None:
        self.position = until
        self.guard = postings.guard
        self._postings = postings
        self._pick = pick

    def seqs(self, key: int) -> list[int]:
        return self._postings.seqs(key)

    def after(self, key: int, seq: int) -> Iterator[int]:
        return self._postings.after(key, seq)

    def newest(self, key: int, below: int = END) -> Iterator[int]:
        return self._postings.newest(key, below=below)

    def size(self, key: int, until: int) -> int:
        return sum(1 for _ in takewhile(lambda at: at <= until, self._postings.after(key)))

    def flagged(self, flag: Flag, *, oldest: bool = False) -> Iterator[int]:
        raise NotImplementedError(flag)

    def count_flagged(self, flag: Flag) -> int:
        raise NotImplementedError(flag)

    def flags(self, action: int) -> int:
        raise NotImplementedError(action)

    def targets(self, resource: str, within: str) -> Iterator[Target]:
        raise NotImplementedError(resource, within)

    def records(self, seqs: Sequence[int]) -> list[Record]:
        return self._pick(sorted(set(seqs)))
