"""Removing an action's changes from a database in which someone else changed other rows; and describing changes."""

from __future__ import annotations

import os
from collections import OrderedDict

import apsw

from takeback.core.change import Change, Version
from takeback.errors import CorruptionError
from takeback.ports.content import Contents
from takeback.resources.sqlite.image import HEADER_BYTES, ImageData, digest_in, dress, kept_of, replaced
from takeback.resources.sqlite.own_files import Scratch
from takeback.resources.sqlite.reading import finish, in_words
from takeback.resources.sqlite.rows import attach, compared, move
from takeback.resources.sqlite.schema import Clash, Objects, objects, value

TOLD_BYTES_MAX = 64 << 20
"""Larger databases are only named: comparing them row by row takes too long."""

PARTS_SHOWN = 3
_KEPT_TALES = 64


class Images:
    """Images from the store, for comparing and merging."""

    def __init__(self, contents: Contents, scratch: Scratch) -> None:
        self._contents = contents
        self._scratch = scratch
        self._told: OrderedDict[tuple[str, str], str] = OrderedDict()

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        """Apply the difference between `base` and `goal` to `mine`, or return why that is impossible."""
        kept = [kept_of(version) for version in (mine, base, goal)]
        if any(one is not None and one.raw for one in kept):
            return "it is damaged, so there are no rows to compare"
        if mine and kept[0] is None:
            return "it cannot be read now: another process has locked it, or you may not read it; try again later"
        if not all(kept):
            return (
                "it was created or removed since, or could not be captured, so there are no rows to compare"
            )
        with self._scratch.file() as a, self._scratch.file() as b, self._scratch.file() as c:
            paths = (a, b, c)
            try:
                for path, one in zip(paths, kept, strict=True):
                    assert one is not None
                    self.fetch(one, path)
                merged = _merge(*paths)
                return self._merged(merged, mine, base, goal)
            except Clash as clash:
                return str(clash)
            except CorruptionError as error:
                return f"its content is no longer stored: {error.message}"
            except (apsw.FullError, OSError) as error:
                return f"its rows cannot be compared: {in_words(error)}"
            except apsw.Error as error:
                return f"its rows cannot be compared: {error}"

    def _merged(self, path: bytes, mine: Version, base: Version, goal: Version) -> Version:
        ours, old, new = (kept_of(version) for version in (mine, base, goal))
        assert ours and old and new
        image = finish(path, bytes(HEADER_BYTES))
        wal = new.wal if ours.wal == old.wal else ours.wal
        mode = new.mode if ours.mode == old.mode else ours.mode
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = self._contents.put(fd, image.size)
        finally:
            os.close(fd)
        return replaced(mine, image, content, wal=wal, mode=mode)

    def tell(self, change: Change) -> str:
        """Return what differs, in plain words; empty if it was created or removed, or is too large."""
        before, after = kept_of(change.before), kept_of(change.after)
        if before and after and (before.raw or after.raw):
            return f"{change.target} ({'damaged' if after.raw else 'sound again'})"
        if before is None or after is None or max(before.size, after.size) > TOLD_BYTES_MAX:
            return ""
        key = (digest_in(change.before), digest_in(change.after))
        if key not in self._told:
            self._told[key] = self._compared(before, after) if key[0] != key[1] else ""
            if len(self._told) > _KEPT_TALES:
                self._told.popitem(last=False)
        return f"{change.target} ({self._told[key]})" if self._told[key] else ""

    def _compared(self, before: ImageData, after: ImageData) -> str:
        with self._scratch.file() as old, self._scratch.file() as new, self._scratch.file() as empty:
            try:
                self.fetch(before, old)
                self.fetch(after, new)
                db = attach(empty, old=old, new=new)
                try:
                    words = compared(db, "old", "new")
                finally:
                    db.close(True)
            except (apsw.Error, CorruptionError, Clash, OSError):
                # Pruned, damaged, of a kind that we cannot read, or too large for the disk: only its name is shown.
                return ""
        more = len(words) - PARTS_SHOWN
        return ", ".join(words[:PARTS_SHOWN]) + (f" and {more} more" if more > 0 else "")

    def fetch(self, kept: ImageData, path: bytes, *, header: bool = False, wal: bool = False) -> None:
        """Write an image into an empty file; with its old header and journal mode, it is the original file."""
        with open(path, "r+b") as file:
            self._contents.write(bytes.fromhex(kept.content), kept.size, file.fileno(), sparse=False)
            if not kept.raw:
                dress(file.fileno(), wal=wal, left_out=bytes.fromhex(kept.header) if header else b"")


def _merge(mine: bytes, base: bytes, goal: bytes) -> bytes:
    """Merge into one of these files, and return which."""
    db = attach(mine, base=base, goal=goal)
    try:
        ours, old, new = (objects(db, place) for place in ("main", "base", "goal"))
        if old == new:
            _move(db, "base", "goal")
            return mine
    finally:
        db.close(True)
    if ours != old:
        raise Clash(f"both changed its tables: {_named(old, new)} and {_named(old, ours)}")
    # The tables go back to their old form, so row changes made since are applied to that form.
    db = attach(goal, base=base, mine=mine)
    try:
        _move(db, "base", "mine")
    finally:
        db.close(True)
    return goal


def _move(db: apsw.Connection, base: str, goal: str) -> None:
    db.execute("BEGIN")
    move(db, base, goal)
    db.execute("COMMIT")
    if (said := value(db, "PRAGMA main.integrity_check(1)")) != "ok":
        raise Clash(f"the rows of both do not fit together: {said}")


def _named(old: Objects, new: Objects) -> str:
    different = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return ", ".join(f"{kind} {name}" for kind, name in different[:PARTS_SHOWN])
