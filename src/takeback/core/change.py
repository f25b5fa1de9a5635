"""The one idea: every effect is a change of a target from one version to another.

Files, git refs, rows, memory and calls all speak it, so that one rule (rollback.py) takes them all back.
"""

from __future__ import annotations

from typing import Any

import msgspec

OUTSIDE = "outside"
"""The resource of paths outside the workspace, as far as an action names them."""


class Target(
    msgspec.Struct, frozen=True, gc=False, order=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What a change is about. `name` means something to its resource: a path, a ref, a key.

    `root` names the tree that a path is relative to; the empty one is the workspace itself.
    """

    resource: str
    name: str
    root: str = ""

    def __str__(self) -> str:
        return self.name if not self.root else f"{self.root}:{self.name}"

    @property
    def said(self) -> str:
        """Its name for people: of what a run remembers, the key and whose it is."""
        if self.resource != "memory":
            return str(self)
        keys = self.name.removeprefix("/").replace("~1", "/").replace("~0", "~")
        return f"{keys} of {self.root}"


class Version(
    msgspec.Struct, frozen=True, gc=False, eq=False, omit_defaults=True, forbid_unknown_fields=True
):
    """One state of a target.

    `id` is what compare-and-swap compares: versions with equal ids are the same. `stamp` is restored with the
    version but is no conflict by itself (a file's mtime); it counts only in a change of nothing else. `data` is
    what the resource needs besides to put the version back; it is never compared.
    """

    id: str
    stamp: str = ""
    data: Any = None

    @property
    def is_unknown(self) -> bool:
        """Whether nobody could look when it was recorded: there may be something, or nothing at all."""
        return isinstance(self.data, dict) and bool(self.data.get("unknown"))

    def alike(self, other: Version) -> bool:
        """The same, down to the stamp."""
        return self.id == other.id and self.stamp == other.stamp

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and other.id == self.id

    def __ne__(self, other: object) -> bool:
        # A Struct has its own idea of this one, which does not follow from __eq__.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.id)

    def __bool__(self) -> bool:
        """True where something is there."""
        return self.id != ABSENT_ID


ABSENT_ID = "absent"
ABSENT = Version(ABSENT_ID)
"""The version of a target that is not there."""


class Change(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A target went from `before` to `after`.

    `shared_with` names other actions that were open at the same time and may have written it instead; it is
    recorded once, with the action that ended first. `in_doubt` says that nobody can prove whose it is.
    """

    target: Target
    before: Version
    after: Version
    shared_with: tuple[str, ...] = ()
    in_doubt: bool = False

    def __repr__(self) -> str:
        return f"<Change {str(self.target)[:80]} {self.before.id[:20]} to {self.after.id[:20]}>"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A change as history knows it: with the action that made it and its place in the workspace's order."""

    seq: int
    action: str
    change: Change

    @property
    def target(self) -> Target:
        return self.change.target
