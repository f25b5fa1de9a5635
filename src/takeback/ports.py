"""What the engine needs from the outside, in sentences that every implementation keeps.

The contract of each port is a public test suite in `takeback.testing`; the in-memory implementation passes the
same suite as the durable ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from takeback.core.change import Change, Target, Version
from takeback.core.events import Did, Event, Mark
from takeback.core.record import Record
from takeback.core.rollback import Do, OnConflict
from takeback.ports_leases import LeaseStore
from takeback.ports_moving import Moving
from takeback.ports_outbox import Outbox
from takeback.ports_seats import Seats

T = TypeVar("T")


class Progress(Protocol):
    """Whoever wants to know how far long work has come."""

    def __call__(self, what: str, items: Iterable[T], total: int, /) -> Iterable[T]:
        """These items, one after another; meanwhile it may be told how many of the total have been dealt with."""


def silent(_what: str, items: Iterable[T], _total: int, /) -> Iterable[T]:
    """Nobody wants to know."""
    return items


class Clock(Protocol):
    def now_us(self) -> int:
        """Microseconds since 1970, UTC."""


class Head(msgspec.Struct, frozen=True):
    """The end of a stream, or of the whole journal: how many records, and the digest of the last."""

    count: int
    digest: str


class Finding(msgspec.Struct, frozen=True):
    """Something that `verify` found wrong. `place` is where, `what` is what, both in words."""

    place: str
    what: str
    seq: int = 0


class Journal(Protocol):
    """Append-only events, hash-chained for each stream, in one workspace-wide order.

    A stream is a run, or the workspace itself (`ids.WORKSPACE`). The sequence number of the whole workspace has
    no gaps. Any number of threads and processes may append and read at once.
    """

    @property
    def outbox(self) -> Outbox:
        """The intents that its events tell of."""

    @property
    def leases(self) -> LeaseStore:
        """Who may work on what."""

    @property
    def seats(self) -> Seats | None:
        """In which folder the workspace is. None where it is always in the same one: its journal is with it."""

    @property
    def moving(self) -> Moving:
        """Its way to another place, or in from one."""

    def append(
        self,
        events: Sequence[Event],
        *,
        stream: str,
        expect: int | None = None,
        key: str = "",
        durable: bool = True,
        fences: Collection[int] = (),
    ) -> tuple[Record, ...]:
        """Write these events at the end of a stream, all or none, durable when this returns.

        With `durable=False` they survive the end of this process, and a power cut only once a later append has
        been durable; that is much quicker.

        With `stream=""` the first event must be RunBegan: it begins a new stream, named after its own id.
        `expect` is the number of records that the caller has seen in the stream; if others have appended
        since, JournalMoved is raised and nothing is written. `key` makes the append idempotent: a key that
        was used before returns what was written then, and writes nothing. May be called again after any error.
        `fences` are leases that must still be held, else LeaseLost is raised and nothing is written.
        """

    def read(self, *, after: int = 0, stream: str | None = None) -> Iterator[Record]:
        """The records with a sequence number above `after`, in order, as they stood when this was called.

        Raises CorruptionError at a record that cannot be read or does not match its digest.
        """

    def get(self, seq: int) -> Record | None:
        """One record by its sequence number."""

    def find(self, key: str) -> tuple[Record, ...]:
        """The records that were appended under this key, or none."""

    def head(self, stream: str | None = None) -> Head:
        """The end of one stream, or of the whole journal. Of an unknown stream: no records."""

    def check(self) -> Iterator[Finding]:
        """Read everything and name whatever is not as it was written. Nothing is changed."""

    def sync(self) -> None:
        """Make the anchor as durable as the records: called at checkpoints."""

    def close(self) -> None:
        """Sync and let go. May be called twice."""


FileId = tuple[int, int, int, int, int]
"""What tells that a file is the one that was seen: device, inode, size, mtime and ctime in nanoseconds."""


class BlobStore(Protocol):
    """Bytes by their name, which is their digest. What was put and synced comes back unchanged, or not at all."""

    def put(self, data: bytes, *, packed: bool = True) -> bytes:
        """Keep these bytes and return their name. Harmless if we die now: nothing refers to it yet.

        `packed=False` says that compressing them is not worth the time.
        """

    def get(self, name: bytes) -> bytes:
        """The bytes of this name, checked. Raises CorruptionError if they are damaged or gone."""

    def has(self, name: bytes) -> bool:
        """Whether `get` would find it."""

    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        """Those that `get` would not find."""

    def sync(self) -> None:
        """Everything put so far survives a power cut when this returns."""


class Shelf(Protocol):
    """Bytes by name where other machines find them. What was put never changes."""

    def put_new(self, name: str, data: bytes) -> None:
        """Put them there, unless they are there. Durable when this returns."""

    def get(self, name: str) -> bytes:
        """What was put there, unchanged; raises CorruptionError where it is not."""

    def names(self, under: str) -> Iterable[str]:
        """All names that begin so."""


class Contents(Protocol):
    """What is in files, large or sparse, by name."""

    def put(self, fd: int, size: int) -> bytes:
        """Keep the first `size` bytes of an open file and return the name of this content."""

    def name(self, fd: int, size: int) -> bytes:
        """The name that `put` would return. Nothing is kept."""

    def put_many(
        self, files: Iterable[tuple[bytes, int]], root_fd: int
    ) -> Iterator[tuple[bytes, bytes, FileId]]:
        """Keep many files at once, given by path below `root_fd` and size; with several processes if that pays.

        Gives for each, in any order, its path, the name of its content, and what the file was while it was read.
        One that could not be read as a whole has no name. One that is given again had to be read again: the last
        word counts, and nothing is certain before the end. They are asked for one by one as there is room.
        """

    def put_bytes(self, data: bytes) -> bytes:
        """Keep these bytes as a file's content would be kept."""

    def write(self, name: bytes, size: int, fd: int, *, sparse: bool) -> None:
        """Write this content into an empty open file, with holes where there is nothing if `sparse`."""

    def read(self, name: bytes, size: int) -> bytes:
        """This content as a whole."""

    def blobs(self, name: bytes, size: int) -> Iterator[bytes]:
        """The names of all blobs that this content is made of."""


class Traits(msgspec.Struct, frozen=True):
    """What a resource can do, declared and not discovered by failing."""

    exact: bool
    """Taking back and redoing give the very same version."""
    detects_drift: bool
    """It can tell that somebody else wrote."""
    external: bool = False
    """Its changes are in other systems: taken back one at a time, and never made again by a redo."""
    divisible: bool = False
    """A target has parts with versions of their own, as a database has rows: where somebody else changed other
    parts, those stay and the rest is taken back, without a conflict."""
    of_the_tree: bool = True
    """Belongs to what `restore` makes equal to a checkpoint. A branch does not: it moves only in an undo of exactly
    what an action did to it."""
    minor: str = ""
    """A pattern. Targets whose names match it follow from others: they are put back without a word."""
    within_files: bool = False
    """Its targets lie in folders: they are removed before these are taken back, and put back after."""


class Swap(msgspec.Struct, frozen=True):
    """Put `goal` where `present` is now; anything else there is a conflict."""

    target: Target
    present: Version
    goal: Version
    choice: OnConflict = OnConflict.STOP
    """What to do about parts of the target, rows of a database, that somebody else has changed."""
    shares_place: bool = False
    """Whether another resource writes to the same place in the same plan: an empty file that became a database."""
    overwrites_others: bool = False
    """Whether what is there now is not what an agent's action left there. Known when a plan is simulated."""


class Swapped(msgspec.Struct, frozen=True):
    """What became of one swap, read back from the world."""

    target: Target
    did: Did
    now: Version
    verified: bool
    why: str = ""


Latest = Callable[[Target], Version]
"""The version that the journal last recorded of a target."""


class Resource(Protocol):
    """One kind of thing that can be changed and taken back. It reads and writes versions."""

    @property
    def name(self) -> str:
        """The first word of its targets."""

    @property
    def traits(self) -> Traits: ...

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        """The version of each target at the last mark; of what has no marks, at present."""

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        """Apply to `mine` what leads from `base` to `goal`; or say why that cannot be done. Writes nothing."""

    def tell(self, change: Change, *, back: bool) -> str:
        """A change as a person would say it: `branch main from 3fa9c1e to 9be01d2, 2 commits added`.

        `back` says that it is a rollback's: `branch main back at 3fa9c1e, 2 commits dropped`. Empty where the name
        of the target says all.
        """

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        """Which of these swaps could not be carried out, or need not be, and why. Writes nothing.

        `kept` are targets of the same plan that stay as they are.
        """

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        """Carry out each swap as a compare-and-swap, and verify it against the world.

        `fresh` says that a mark was taken a moment ago, under the same lock, so that what it saw is the present.
        Else an earlier attempt was cut short; it had begun at the mark `since`.
        One that fails does not stop the others. May be called again after a crash, with the same swaps and the
        same rollback id: what is already at its goal counts as done.
        """


class Attributed(Resource, Protocol):
    """A resource that knows whose a change is: it was told before, and need not be looked at before and after."""

    def made_by(self, action: str) -> Sequence[Change]:
        """Everything that this action changed and that lasts. May be asked again, also after a crash."""


class Transaction(Protocol):
    """An open transaction of a database."""

    @property
    def connection(self) -> Any:
        """What statements are executed with: the driver's own connection."""

    def commit(self) -> None:
        """Make it last, and let go of the connection. On an error nothing has lasted."""

    def abort(self) -> None:
        """Let it never have been, and let go of the connection."""


class Prepared(msgspec.Struct, frozen=True):
    """A database that is about to be written to."""

    name: str
    """Without any secret."""
    unguarded: str = ""
    """Why what is committed there cannot be taken back, in words."""


class Databases(Protocol):
    """Databases by their place: the path of a file, or an address."""

    def prepare(self, place: str) -> Prepared:
        """Take care that what is written there can be taken back, or say why it cannot."""

    def begin(self, place: str, action: str) -> Transaction:
        """Begin a transaction in the name of this action."""


class Reached(msgspec.Struct, frozen=True):
    """A path that an action is going to write or delete, as far as its words tell."""

    path: str
    """Absolute."""
    really: str = ""
    """Where it really leads, links followed, where that is known to be another place."""
    somewhere: bool = False
    """It is a folder, and something below it is written."""
    names: str | None = None
    """It is a folder, and what in it begins so is written."""
    makes: bool = False
    """Such names are meant too that are not there yet."""
    deletes: bool = False
    perhaps: bool = False
    """It is only named: nobody says that it is written."""


class Survey(msgspec.Struct, frozen=True):
    """What of the paths that an action names outside the workspace is captured."""

    places: tuple[str, ...] = ()
    """These, each with everything below it. One that ends in `*/` is all that begins so."""
    missed: tuple[str, ...] = ()
    """What is not captured although it may be lost, in words."""
    stated: tuple[str, ...] = ()
    """What is not captured either, but is no reason to hold the action back."""


class Surveyor(Protocol):
    """Finds out what of the paths that an action names is captured."""

    def __call__(self, named: Iterable[Reached], known: Iterable[str] = (), /) -> Survey:
        """`known` are places that are looked at anyway."""


class Observed(Resource, Protocol):
    """A resource whose changes are found by looking at the world before and after."""

    def mark(self) -> Mark:
        """Look at the world and keep what is needed to come back here. Durable when this returns."""

    def settled(self, mark: Mark) -> None:
        """This mark has been recorded, so the next changes will be asked from it. A hint, for speed."""

    def keeps(self, mark: Mark) -> bool:
        """Whether what this mark needs is still kept."""

    def blobs(self, marks: Iterable[Mark]) -> set[bytes]:
        """The names of all content that these marks need; the latest comes first, and must be whole."""

    def text(self, version: Version) -> bytes | None:
        """What a version reads as, to be shown line by line; None where lines would not tell it."""

    def audit(self) -> list[Finding]:
        """Read everything again and compare it with what was last recorded, whatever times and sizes say."""

    def remember(self) -> None:
        """Keep what is known for the next process. A hint, for speed."""

    def close(self) -> None:
        """Let go. May be called twice."""

    def changes(self, since: Mark, until: Mark) -> Iterable[Change]:
        """How the world at `until` differs from the world at `since`."""

    def read(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        """The present version of each target, read from the world and not from memory."""

    def changed_at(self, target: Target) -> int:
        """When the target last changed, in nanoseconds, as the system says; 0 where nobody knows."""


class Named(Observed, Protocol):
    """A resource without bounds, of which only what actions name is looked at."""

    def attend(
        self, places: Iterable[str], targets: Iterable[Target], more: Iterable[str], single: Iterable[Target]
    ) -> None:
        """What the next mark looks at: these places with everything below them, and these targets by themselves.

        They have been looked at since they were first named. `more` and `single` are places and targets that are
        named now: how they differ from an earlier mark is nobody's change, since nobody was looking.
        """
