"""Differences between two moments, path by path and line by line."""

from __future__ import annotations

import difflib
import io
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from takeback.core.change import Change, Version

Read = Callable[[Change, Version], bytes | None]
"""Reads the text of a version of a change; None if it has none (a folder, a fifo, absent)."""

Tell = Callable[[Change], str]
"""Describes a change for people if lines cannot; otherwise returns an empty string."""

TEXT_BYTES_MAX = 2 << 20


class Diff(msgspec.Struct, frozen=True):
    """The changes from one moment to another. `str()` is a unified diff, `stat` counts lines."""

    changes: tuple[Change, ...]
    read: Read
    tell: Tell

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "".join(self.lines())

    def __repr__(self) -> str:
        return f"<Diff of {len(self.changes)} changes>"

    def lines(self) -> Iterator[str]:
        """Yield the unified diff line by line; only what it takes is read."""
        return (line for change in self.changes for line in self.unified(change))

    def unified(self, change: Change) -> Iterator[str]:
        """Yield one change as a unified diff, or as one sentence if lines cannot describe it."""
        name = str(change.target)
        if says := self.tell(change):
            yield f"{says}\n"
            return
        old, new = self._lines(change, change.before), self._lines(change, change.after)
        if old is None or new is None:
            if change.before == change.after:
                return
            yield f"{_headline(change)} {name}\n"
            return
        if change.before and change.after and (old == new or _modes(change)):
            yield f"{_headline(change)} {name}\n"
        before, after = (
            f"a/{name}" if change.before else "/dev/null",
            f"b/{name}" if change.after else "/dev/null",
        )
        for line in difflib.unified_diff(old, new, before, after):
            yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"

    def _lines(self, change: Change, version: Version) -> list[str] | None:
        """Return the lines of a text; None for what is not text."""
        data = self.read(change, version) if version else b""
        if data is None or len(data) > TEXT_BYTES_MAX or b"\0" in data[:8192]:
            return None
        try:
            return [line.decode() for line in io.BytesIO(data)]  # splits at \n only, not at a form feed
        except UnicodeDecodeError:
            return None

    def stat(self, change: Change) -> tuple[int, int] | None:
        """Return the number of lines added and removed; None for what is not text."""
        old, new = self._lines(change, change.before), self._lines(change, change.after)
        if self.tell(change) or old is None or new is None:
            return None
        lines = list(difflib.unified_diff(old, new, n=0))[2:]
        return sum(line[0] == "+" for line in lines), sum(line[0] == "-" for line in lines)

    def data(self) -> list[dict[str, Any]]:
        found = []
        for change in self.changes:
            counts = self.stat(change)
            says = self.tell(change)
            found.append(
                {
                    "resource": change.target.resource,
                    "target": str(change.target),
                    "did": verb(change),
                    "added": counts[0] if counts else None,
                    "removed": counts[1] if counts else None,
                    "binary": counts is None and not says,
                    "mode": _modes(change),
                }
                | ({"says": says} if says else {})
            )
        return found


def verb(change: Change) -> str:
    """Return what a change did to its target: "created", "deleted", "touched" or "changed"."""
    if not change.before:
        return "created"
    if not change.after:
        return "deleted"
    return "touched" if change.before == change.after else "changed"


def _modes(change: Change) -> list[str] | None:
    """Return the old and the new mode of a file if it changed."""
    if not change.before or not change.after or change.target.resource not in ("files", "outside"):
        return None
    before, after = (version.id.split(":")[1] for version in (change.before, change.after))
    return [before, after] if before != after else None


def kind(change: Change) -> str:
    """Return the kind of the target: "folder", "link", "fifo" or "binary"."""
    words = {"d": "folder", "l": "link", "p": "fifo"}
    return words.get((change.after or change.before).id[0], "binary")


def _headline(change: Change) -> str:
    kinds = {"d": "folder", "l": "link", "p": "fifo"}
    version = change.after or change.before
    kind = kinds.get(version.id[0], "file")
    if change.before and change.after and change.before.id[0] != change.after.id[0]:
        return f"{kinds.get(change.before.id[0], 'file')} became {kind}:"
    if change.before and change.after and kind == "file":
        if modes := _modes(change):
            return f"mode {modes[0]} became {modes[1]}:"
        same = change.before.id.split(":")[2] == change.after.id.split(":")[2]
        return "attributes changed:" if same else "binary file changed:"
    return f"{kind} {verb(change)}:"
