"""What lies between two moments, path by path and line by line."""

from __future__ import annotations

import difflib
import io
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from takeback.core.change import Change, Version

Read = Callable[[Change, Version], bytes | None]
"""The text of a version, as its change has it; None where there is none (a folder, a fifo, nothing at all)."""

Tell = Callable[[Change], str]
"""A change in words, where neither lines nor its name would tell it; else nothing."""

TEXT_BYTES_MAX = 2 << 20


class Diff(msgspec.Struct, frozen=True):
    """The changes from one moment to another. `str` gives a unified diff, `stat` a line for each path."""

    changes: tuple[Change, ...]
    read: Read
    tell: Tell

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "".join(line for change in self.changes for line in self.unified(change))

    def __repr__(self) -> str:
        return f"<Diff of {len(self.changes)} changes>"

    def unified(self, change: Change) -> Iterator[str]:
        """One change as a unified diff; in a sentence where lines would not tell it."""
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
        """The lines of a text; None for what is not text."""
        data = self.read(change, version) if version else b""
        if data is None or len(data) > TEXT_BYTES_MAX or b"\0" in data[:8192]:
            return None
        try:
            return [line.decode() for line in io.BytesIO(data)]  # a form feed ends no line
        except UnicodeDecodeError:
            return None

    def stat(self, change: Change) -> tuple[int, int] | None:
        """Lines added and removed; None for what is not text."""
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
    """What a change did to its target, in a word."""
    if not change.before:
        return "created"
    if not change.after:
        return "deleted"
    return "touched" if change.before == change.after else "changed"


def _modes(change: Change) -> list[str] | None:
    """The old and the new mode of a file, where it changed."""
    if not change.before or not change.after or change.target.resource not in ("files", "outside"):
        return None
    before, after = (version.id.split(":")[1] for version in (change.before, change.after))
    return [before, after] if before != after else None


def kind(change: Change) -> str:
    """What the target is, in a word."""
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
