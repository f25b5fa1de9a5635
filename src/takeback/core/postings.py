"""Postings: which records of the journal speak of what.

A history of a million events is not folded to answer one question. What a question is about has a topic, and the
records that speak of that topic, folded alone, are the answer. Here are the postings of a history: those of an index,
which was made earlier and covers the journal up to a position, and those of the records after that position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from heapq import merge
from itertools import chain, takewhile
from typing import TypeVar, overload

from takeback.core import ids
from takeback.core.change import Target
from takeback.core.record import Record

T = TypeVar("T")
Guard = AbstractContextManager[object]
"""Held while a record is applied, and while something is read again: another thread might do either."""

_NUMBER_BITS = 56
_NUMBER = (1 << _NUMBER_BITS) - 1

END = 2**63 - 1
"""A number above that of any record."""


class Topic(IntEnum):
    """What a posting can be about. The numbers are part of the format of an index."""

    ACTION = 1
    """The records that speak of an action: its beginning, its end, and what others say of it."""
    RUN = 2
    APPROVAL = 3
    INTENT = 4
    IN_RUN = 5
    """The beginnings of the actions of a run."""
    UNDER = 6
    """The beginnings of the actions inside another action."""
    TARGET = 7
    """The records with a change of a target."""
    RUN_KEY = 8
    CALL_KEY = 9
    INTENT_KEY = 10
    MEMORY = 11
    """The records with a change of a run's memory."""
    ASKED = 12
    """The requests of a run."""
    HELD = 13
    """The intents that a run deferred."""
    LEFT = 14
    """The intents of a run that it does not hold any more, each by its own number."""
    BY = 15
    """The beginnings of the actions of an actor."""
    BESIDE = 16
    """Of a change outside any action: an agent's session was open."""
    ACTIONS = 17
    RUNS = 18
    ROLLBACKS = 19
    CHECKPOINTS = 20
    APPROVALS = 21
    INTENTS = 22
    CHANGES = 23
    """The records with changes that a tool made."""
    DOUBTS = 24
    """The actions of which it was unknown whether they happened."""
    DECISIONS = 25
    """The decisions about dead letters."""
    IN_STEP = 26
    """The beginnings of the actions of a step."""
    STEPS = 27
    LISTED_RUNS = 28
    """The runs that are more than one command, each by its own number."""
    CALLED = 29
    """The calls of a tool in a run."""
    ADDED = 30
    """The records with changes of an action that goes on: the body of a run may have very many."""
    UNSEEN = 31
    """The ends of actions that may have changed files, where nobody looked at the files."""
    BRANDED = 32
    """The beginnings of the actions of a run that put a brand on a process."""
    OPEN_THEN = 33
    """The runs that were open when a checkpoint was taken, each by its own number."""
    LOOKS = 34
    """The records with a look at the files."""
    PLAN = 35
    """The approvals of a plan, by its digest."""


def numbered(topic: Topic, id: str) -> int:
    """Return the key of a topic that is about something with an id."""
    return topic << _NUMBER_BITS | ids.seq_of(id)


def begun_by(topic: Topic, record: Record) -> int:
    """Return the key of a topic that is about what a record begins."""
    return topic << _NUMBER_BITS | record.envelope.seq


@lru_cache(maxsize=1024)
def named(topic: Topic, *names: str) -> int:
    """Return the key of a topic that is about names. Two names may have one key: what is read is compared.

    A call asks for the same few keys several times.
    """
    digest = blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=_NUMBER_BITS // 8)
    return topic << _NUMBER_BITS | int.from_bytes(digest.digest(), "big")


def every(topic: Topic) -> int:
    """Return the one key of a topic that lists everything of a kind, such as all actions or all runs."""
    return topic << _NUMBER_BITS


def of_target(target: Target) -> int:
    return named(Topic.TARGET, target.resource, target.root, target.name)


class Flag(IntEnum):
    """A fact about an action that later records can change. The numbers are part of the format of an index, too."""

    UNDOABLE = 1
    """A tool's changes that are not taken back, and not reported as unknown by an undo."""
    REDOABLE = 2
    """An undo or a restore that has not been redone as a whole."""
    UNKNOWN = 4
    """An unknown effect that was not taken back."""
    UNSETTLED = 8
    """All that is left of it was reported as unknown by an undo."""


class RecentFlags:
    """The flags of the actions that records since the index speak of."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        """All flags of an action, by its number."""
        self._having: dict[Flag, set[int]] = {flag: set() for flag in Flag}
        self._changed: dict[str, None] = {}

    def change(self, action: str) -> None:
        """Note that the flags of an action may have changed."""
        self._changed[action] = None

    def settle(self, flags_of: Callable[[str], int]) -> None:
        """Find out the flags of those that may have changed."""
        for action in self._changed:
            seq, flags = ids.seq_of(action), flags_of(action)
            self.known[seq] = flags
            for flag, having in self._having.items():
                (having.add if flags & flag else having.discard)(seq)
        self._changed.clear()

    def having(self, flag: Flag) -> list[int]:
        """Return the numbers of the actions that have a flag, the latest first."""
        return sorted(self._having[flag], reverse=True)

    def clear(self) -> None:
        """Forget what an index has taken in."""
        self.known.clear()
        for having in self._having.values():
            having.clear()


class Index(ABC):
    """What is known of the journal up to a position without reading it from its beginning.

    Another process may add to it at any time; what it adds is of records after `position`.
    """

    position: int
    guard: Guard

    @abstractmethod
    def seqs(self, key: int) -> list[int]:
        """Return the records of a topic, in order."""

    @abstractmethod
    def after(self, key: int, seq: int) -> Iterator[int]:
        """Yield the records of a topic that come after a record, in order, and read no more than is taken."""

    @abstractmethod
    def newest(self, key: int, below: int = END) -> Iterator[int]:
        """Yield the records of a topic before a record, the latest first, and read no more than is taken."""

    @abstractmethod
    def size(self, key: int, until: int) -> int:
        """Return how many records a topic has, up to a record."""

    @abstractmethod
    def flagged(self, flag: Flag, *, oldest: bool = False) -> Iterator[int]:
        """Yield the numbers of the actions that have this flag, the latest first or the oldest."""

    @abstractmethod
    def count_flagged(self, flag: Flag) -> int:
        """Return how many actions have this flag."""

    @abstractmethod
    def flags(self, action: int) -> int:
        """Return all flags of an action."""

    @abstractmethod
    def targets(self, resource: str, within: str) -> Iterator[Target]:
        """Yield the paths of a resource that were ever changed: `within` and those below it."""

    @abstractmethod
    def records(self, seqs: Sequence[int]) -> list[Record]:
        """Read records from the journal, in the order of their numbers."""


class Postings:
    """The postings of a history: those of an index up to its position, and those of what came after.

    With position 0 nothing is indexed, and everything is at hand.
    """

    def __init__(self, index: Index | None, guard: Guard | None = None) -> None:
        """`guard` is held in place of the index's where there is no index."""
        self.index = index
        self.position = self.last = index.position if index else 0
        """How far the index goes, and how far the history has come."""
        self.guard = index.guard if index else guard or nullcontext()
        self.since: dict[int, list[int]] = {}
        self.counts: dict[int, int] = {}
        """The number of postings under each key that `every` made."""
        self._asked: tuple[tuple[int, int], list[int]] | None = None
        """The key that the index was asked for last and how far it went, with the answer."""

    def post(self, key: int, seq: int) -> None:
        if not key & _NUMBER:
            self.counts[key] = self.counts.get(key, 0) + 1
        found = self.since.get(key)
        if found is None:
            self.since[key] = [seq]
        else:
            found.append(seq)

    def seqs(self, key: int, of_run: str = "") -> list[int]:
        """Return the records of a topic, in order. All of them are `of_run`, if it is given."""
        since = self.since.get(key, ())
        return [*self._indexed(key), *since] if self._reaches(of_run) else list(since)

    def _indexed(self, key: int) -> list[int]:
        """Return what the index has. The last answer is kept: a call is looked for, and then it begins."""
        asked = (key, self.position)
        if self._asked is None or self._asked[0] != asked:
            self._asked = asked, list(self._known(index.seqs(key))) if (index := self._earlier) else []
        return self._asked[1]

    def _reaches(self, run: str) -> bool:
        """Return whether the index goes so far that it may have records of this run."""
        return not ids.is_id(run) or ids.seq_of(run) <= self.position

    def after(self, key: int, seq: int = 0) -> Iterator[int]:
        """Yield the records of a topic that come after a record, in order; none that is posted from now on."""
        with self.guard:  # from now on the index may take in more, while this is read
            index, position = self._earlier, self.position
            since = [later for later in self.since.get(key, ()) if later > seq]
        earlier = index.after(key, seq) if index else iter(())
        return chain(takewhile(lambda at: at <= position, earlier), since)

    def size(self, key: int, of_run: str = "") -> int:
        """Return how many records a topic has; `of_run` as in `seqs`."""
        index = self._earlier if self._reaches(of_run) else None
        earlier = index.size(key, self.position) if index else 0
        return earlier + len(self.since.get(key, ()))

    def newest(self, key: int, of_run: str = "", *, below: int = END) -> Iterator[int]:
        """Yield the records of a topic before a record, the latest first; `of_run` as in `seqs`."""
        since = self.since.get(key, [])
        yield from reversed(since if below == END else since[: bisect_left(since, below)])
        if self._reaches(of_run) and (index := self._earlier):
            yield from self._known(index.newest(key, below))

    def highest(self, key: int) -> Iterator[int]:
        """Yield the numbers of a topic that posts the things' own numbers, not those of records: highest first."""
        since = iter(sorted(self.since.get(key, ()), reverse=True))
        earlier = self._known(index.newest(key)) if (index := self._earlier) else iter(())
        return newest_of(since, earlier)

    def count(self, key: int) -> int:
        """Return how many postings there are under a key that `every` made."""
        return self.counts.get(key, 0)

    def records(self, key: int) -> list[Record]:
        """Read the records of a topic."""
        return self.read(self.seqs(key))

    def read(self, seqs: Sequence[int]) -> list[Record]:
        """Read records; none where the history began with the journal, and everything is at hand."""
        return index.records(seqs) if (index := self._earlier) else []

    @property
    def _earlier(self) -> Index | None:
        """The index, unless it holds nothing yet."""
        return self.index if self.position else None

    def _known(self, seqs: Iterable[int]) -> Iterator[int]:
        """Leave out what another process has added to the index since: here it comes with its record."""
        return (seq for seq in seqs if seq <= self.position)


class Recalled(Mapping[str, T]):
    """The things of one kind by their ids: those that are at hand, and those that are read again when asked for."""

    def __init__(self, postings: Postings, kind: str, listed: Topic, load: Callable[[str], T | None]) -> None:
        self.at_hand: dict[str, T] = {}
        self._postings = postings
        self._kind = kind
        self._listed = every(listed)
        self._load = load

    def __getitem__(self, id: str) -> T:
        found = self.get(id)
        if found is None:
            raise KeyError(id)
        return found

    def get(self, id: str, default: T | None = None) -> T | None:  # type: ignore[override]
        found = self.at_hand.get(id)
        if found is None and id[:1] == self._kind and ids.is_id(id):
            with self._postings.guard:
                found = self.at_hand.get(id) or self._load(id)
                if found is not None:
                    self.at_hand[id] = found
        return default if found is None else found

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.get(id) is not None

    def __iter__(self) -> Iterator[str]:
        return (ids.make(self._kind, seq) for seq in self._postings.seqs(self._listed))

    def __reversed__(self) -> Iterator[str]:
        return (ids.make(self._kind, seq) for seq in self._postings.newest(self._listed))

    def __len__(self) -> int:
        return self._postings.count(self._listed)

    def values(self) -> RecalledValues[T]:
        return RecalledValues(self)

    def put(self, record: Record, id: str, thing: T) -> None:
        """Add what a record has just begun."""
        self.at_hand[id] = thing
        self._postings.post(self._listed, record.envelope.seq)


class RecalledValues(ValuesView[T]):
    """The things of one kind, in order, also from the latest on."""

    def __init__(self, things: Recalled[T]) -> None:
        super().__init__(things)
        self._things = things

    def __reversed__(self) -> Iterator[T]:
        return (self._things[id] for id in reversed(self._things))


class IdsInRun(Sequence[str]):
    """The ids of the things of a run, in order, asked of the postings each time: there may be very many."""

    def __init__(self, postings: Postings, kind: str, topic: Topic, run: str) -> None:
        self._postings = postings
        self._kind = kind
        self._run = run
        self._key = numbered(topic, run)

    def __iter__(self) -> Iterator[str]:
        return (ids.make(self._kind, seq) for seq in self._postings.after(self._key))

    def __reversed__(self) -> Iterator[str]:
        return (ids.make(self._kind, seq) for seq in self._postings.newest(self._key, self._run))

    def __len__(self) -> int:
        return self._postings.size(self._key, self._run)

    def __bool__(self) -> bool:
        return next(self._postings.newest(self._key, self._run), None) is not None

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, str) or id[:1] != self._kind or not ids.is_id(id):
            return False
        return next(self._postings.after(self._key, ids.seq_of(id) - 1), 0) == ids.seq_of(id)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        return list(self)[at]


def newest_of(*descending: Iterator[int]) -> Iterator[int]:
    """Merge descending sequences of numbers into one, with each number once."""
    last = None
    for seq in merge(*descending, reverse=True):
        if seq != last:
            yield seq
        last = seq
