"""An index kept in dictionaries, over the records of a story: what an index has to be, in its shortest form."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import msgspec

from takeback.core.change import Target, is_within
from takeback.core.history import History
from takeback.core.postings import END, Flag, Index
from takeback.core.record import Record
from takeback.core.standing import CurrentState


class ListIndex(Index):
    """What was taken in of a history, and the journal to read again from."""

    def __init__(self, journal: Sequence[Record]) -> None:
        self.position = 0
        self.guard = nullcontext()
        self.read: list[int] = []
        """Which records were read again, each time."""
        self._journal = journal
        self._standing = msgspec.json.encode(CurrentState())
        self._postings: dict[int, list[int]] = defaultdict(list)
        self._flags: dict[int, int] = {}
        self._targets: dict[Target, None] = {}

    def take_in(self, history: History) -> None:
        """Take in what a history has seen since, and let it go on from here."""
        more = history.unindexed()
        assert more.position == self.position
        self._standing = msgspec.json.encode(more.standing)
        for key, seqs in more.postings.items():
            for seq in seqs:
                insort(self._postings[key], seq)
        self._flags.update(more.flags)
        self._targets.update(more.targets)
        self.position = history.seq
        history.indexed()

    def opened(self) -> History:
        """Begin a history with this index, and bring it up to date."""
        return self.opened_until(len(self._journal))

    def opened_until(self, seq: int) -> History:
        """Begin a history with this index, and bring it up to a record."""
        history = History()
        history.begin_at(self, msgspec.json.decode(self._standing, type=CurrentState))
        for record in self._journal[self.position : seq]:
            history.apply(record)
        return history

    def seqs(self, key: int) -> list[int]:
        return list(self._postings.get(key, ()))

    def after(self, key: int, seq: int) -> Iterator[int]:
        return (at for at in self.seqs(key) if at > seq)

    def size(self, key: int, until: int) -> int:
        return sum(at <= until for at in self.seqs(key))

    def newest(self, key: int, below: int = END) -> Iterator[int]:
        return (at for at in reversed(self.seqs(key)) if at < below)

    def flagged(self, flag: Flag, *, oldest: bool = False) -> Iterator[int]:
        found = (seq for seq, flags in self._flags.items() if flags & flag)
        return iter(sorted(found, reverse=not oldest))

    def count_flagged(self, flag: Flag) -> int:
        return len(list(self.flagged(flag)))

    def flags(self, action: int) -> int:
        return self._flags.get(action, 0)

    def targets(self, resource: str, within: str) -> Iterator[Target]:
        for target in self._targets:
            if target.resource == resource and not target.root and is_within(target.name, within):
                yield target

    def records(self, seqs: Sequence[int]) -> list[Record]:
        found = [self._journal[seq - 1] for seq in sorted(set(seqs)) if seq <= len(self._journal)]
        self.read += [record.seq for record in found]
        return found
