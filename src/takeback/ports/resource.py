"""The port of resources: what can change is observed, read, and put back by compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from takeback.core.change import Change, Target, Version
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do, OnConflict
from takeback.ports.journal import Finding


class Traits(msgspec.Struct, frozen=True):
    """What a resource can do, declared and not discovered by failing."""

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
