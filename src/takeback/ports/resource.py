"""The port of resources: observe, read, and put back by compare-and-swap what can change."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from takeback.core.change import Change, Target, Version
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do, OnConflict
from takeback.ports.journal import Finding


class Traits(msgspec.Struct, frozen=True):
    """The declared abilities of a resource."""

    external: bool = False
    """Its changes are in other systems: taken back one at a time, and never made again by a redo."""
    divisible: bool = False
    """A target has parts with versions of their own, as a database has rows: if someone else changed other parts,
    those stay and the rest is taken back, without a conflict."""
    of_the_tree: bool = True
    """Belongs to what `restore` makes equal to a checkpoint. A branch does not: it moves only in an undo of exactly
    what an action did to it."""
    minor: str = ""
    """A pattern. Targets whose names match it follow from others: they are put back without being reported."""
    within_files: bool = False
    """Its targets lie in folders: they are removed before these are taken back, and put back after."""


class Swap(msgspec.Struct, frozen=True):
    """A write of `goal` where `present` is now; anything else there is a conflict."""

    target: Target
    present: Version
    goal: Version
    choice: OnConflict = OnConflict.STOP
    """What to do about parts of the target, rows of a database, that someone else has changed."""
    shares_place: bool = False
    """True if another resource writes to the same place in the same plan: an empty file that became a database."""
    overwrites_others: bool = False
    """True if what is there now was not left by an agent's action. Known when a plan is simulated."""


class Swapped(msgspec.Struct, frozen=True):
    """The outcome of one swap, read back from the world."""

    target: Target
    did: Did
    now: Version
    verified: bool
    why: str = ""
    opened: bool = False
    """True if what is below the target may have been out of sight until now."""


Latest = Callable[[Target], Version]
"""Returns the last recorded version of a target."""


class Resource(Protocol):
    """The adapter for one kind of target that can be changed and taken back. It reads and writes versions."""

    @property
    def name(self) -> str:
        """The first word of its targets."""

    @property
    def traits(self) -> Traits: ...

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        """Return the version of each target at the last mark; for a resource without marks, the present one."""

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        """Return `mine` with the difference from `base` to `goal` applied, or why that failed. Writes nothing.

        An empty reason means that there is no more to say than who changed it.
        """

    def tell(self, change: Change, *, back: bool) -> str:
        """Return a change as text for people: `branch main from 3fa9c1e to 9be01d2, 2 commits added`.

        `back` means that a rollback made it: `branch main back at 3fa9c1e, 2 commits dropped`. Empty if the name of
        the target is enough.
        """

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        """Return which of these swaps cannot or need not be carried out, and why. Writes nothing.

        `kept` are targets of the same plan that stay as they are.
        """

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        """Carry out each swap as a compare-and-swap, and verify it against the world.

        `fresh` means that a mark was taken a moment ago, under the same lock, so that it describes the present.
        Otherwise an earlier attempt was cut short; it had begun at the mark `since`.
        One that fails does not stop the others. May be called again after a crash, with the same swaps and the
        same rollback id: what is already at its goal counts as done.
        """


class Attributed(Resource, Protocol):
    """A resource that knows by itself which action made a change, and need not be looked at before and after."""

    def made_by(self, action: str) -> Sequence[Change]:
        """Return every committed change of this action. May be called again, even after a crash."""


class Observed(Resource, Protocol):
    """A resource whose changes are found by looking at the world before and after."""

    def mark(self) -> Mark:
        """Look at the world and keep what is needed to come back here. Durable when this returns."""

    def settled(self, mark: Mark) -> None:
        """Note that this mark has been recorded, so the next `changes` start from it. A hint, for speed."""

    def keeps(self, mark: Mark) -> bool:
        """Return whether the content of this mark is still kept."""

    def blobs(self, marks: Iterable[Mark], gone: AbstractSet[bytes] = frozenset()) -> set[bytes]:
        """Return the names of all blobs that these marks need, without those of the content `gone`.

        The latest comes first, and must be complete.
        """

    def text(self, version: Version) -> bytes | None:
        """Return the text of a version, to be shown line by line; None if it is not text."""

    def audit(self) -> list[Finding]:
        """Read everything again and compare it with what was last recorded, whatever times and sizes say."""

    def remember(self) -> None:
        """Keep what is known for the next process. A hint, for speed."""

    def close(self) -> None:
        """Release all resources. May be called twice."""

    def changes(self, since: Mark, until: Mark) -> Iterable[Change]:
        """Return how the world at `until` differs from the world at `since`."""

    def read(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        """Return the present version of each target, read from the world and not from memory."""

    def changed_at(self, target: Target) -> int:
        """Return when the target last changed according to the system, in nanoseconds; 0 if unknown."""


class Named(Observed, Protocol):
    """An unbounded resource: only what actions name is looked at."""

    def attend(
        self, places: Iterable[str], targets: Iterable[Target], more: Iterable[str], single: Iterable[Target]
    ) -> None:
        """Set what the next mark looks at: these places with everything below them, and these single targets.

        They have been looked at since they were first named. `more` and `single` are places and targets that are
        named only now: differences from an earlier mark are not changes, because they were not looked at since.
        """


class Keeper(Protocol):
    """A resource that keeps content."""

    def keeps(self, mark: Mark) -> bool:
        """Return whether the content of this mark is still kept."""

    def blobs(self, marks: Iterable[Mark], gone: AbstractSet[bytes] = frozenset()) -> set[bytes]:
        """Return the names of all blobs that these marks need, without those of the content `gone`.

        The first mark must be complete.
        """


class Claims(Protocol):
    """A resource that captures some files in another way."""

    def claims(self, path: bytes, folder_fd: int, found: os.stat_result) -> bool:
        """Return True if another resource captures this regular file in this open folder."""

    def beside(self, path: bytes) -> Iterable[bytes]:
        """Return paths that belong to a claimed one."""

    def again(self) -> Iterable[bytes]:
        """Return paths that must be looked at again, because the answer may have changed."""

    def leaves_out(self, path: bytes) -> bool:
        """Return True if a claimed path is not captured: what was an empty file before is not lost."""

    def holds(self, folder: bytes) -> bool:
        """Return True if a folder contains claimed files, so that its mtime changes for no visible reason."""

    def forget(self) -> None:
        """Forget everything, because everything is about to be looked at again."""

    def rules(self) -> str:
        """Return what the answers depend on."""
