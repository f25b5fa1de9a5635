"""The one idea: every effect is a change of a target from one version to another.

Files, git refs, rows, memory and calls are all described this way, so one rule (rollback.py) takes them all back.
"""

from __future__ import annotations

from typing import Any

import msgspec

OUTSIDE = "outside"
"""The resource for paths outside the workspace that an action names."""
IN_ROOT = ("files", "sqlite")
"""The resources whose targets are paths below the root of the workspace."""
OF_PATHS = (*IN_ROOT, OUTSIDE)
"""The resources whose targets have paths for names."""


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
        """The name for people: of memory the key and its run, of a call its function, `branch main` of a ref."""
        if self.resource == "memory":
            keys = self.name.removeprefix("/").replace("~1", "/").replace("~0", "~")
            return f"{keys} of {self.root}"
        if self.resource == "calls":
            return self.name.rpartition(" ")[0] or self.name  # without the key, by which nobody knows it
        return ref_said(self.name) if self.resource == "git" else str(self)


class Version(
    msgspec.Struct, frozen=True, gc=False, eq=False, omit_defaults=True, forbid_unknown_fields=True
):
    """One state of a target.

    `id` is what compare-and-swap compares: versions with equal ids are the same. `stamp` is restored with the
    version but is not a conflict by itself (a file's mtime); it is compared only if nothing else changed. `data` is
    what else the resource needs to put the version back; it is never compared.
    """

    id: str
    stamp: str = ""
    data: Any = None

    @property
    def is_unknown(self) -> bool:
        """True if the target could not be looked at when this was recorded; it may or may not exist."""
        return isinstance(self.data, dict) and bool(self.data.get("unknown"))

    def alike(self, other: Version) -> bool:
        """Return whether both versions are the same, including the stamp."""
        return self.id == other.id and self.stamp == other.stamp

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and other.id == self.id

    def __ne__(self, other: object) -> bool:
        # A Struct defines its own __ne__, which does not follow from __eq__.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.id)

    def __bool__(self) -> bool:
        """Return True if the target exists in this version."""
        return self.id != ABSENT_ID


ABSENT_ID = "absent"
ABSENT = Version(ABSENT_ID)
"""The version of a target that does not exist."""


class Change(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The step of a target from version `before` to version `after`.

    `shared_with` names other actions that were open at the same time and may have made the change instead; the
    change is recorded once, with the action that ended first. `in_doubt` means that it cannot be proved who made it.
    """

    target: Target
    before: Version
    after: Version
    shared_with: tuple[str, ...] = ()
    in_doubt: bool = False

    def __repr__(self) -> str:
        return f"<Change {str(self.target)[:80]} {self.before.id[:20]} to {self.after.id[:20]}>"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A change in the history: with the action that made it and its sequence number in the workspace."""

    seq: int
    action: str
    change: Change

    @property
    def target(self) -> Target:
        return self.change.target


def ref_said(name: str) -> str:
    """Return the name of a ref for people."""
    if name == "refs/stash":
        return "stash"
    for prefix, word in _REFS.items():
        if name.startswith(prefix):
            return f"{word} {name.removeprefix(prefix)}"
    return name


_REFS = {"refs/heads/": "branch", "refs/tags/": "tag", "refs/remotes/": "remote branch"}


def is_within(name: str, within: str) -> bool:
    """Return whether a name is that of a path, or of something below it; an empty `within` holds every name."""
    return not within or name == within or name.startswith(f"{within}/")
