"""Who wrote each line of a text, from the recorded changes of its file.

The changes are followed from the latest to the first. A line that a change did not find there is that change's; one
that it found is followed further. A rollback writes nothing of its own where it puts an earlier version back: its
lines are followed from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from enum import IntEnum

import msgspec

from takeback.core.change import Change, Version

Read = Callable[[Version], bytes | None]
"""Returns the content of a version; None if it has none, or if it is no longer kept."""


class Whose(IntEnum):
    """Who wrote a line that no recorded change wrote."""

    FIRST = -1
    """It was there before the first recorded change."""
    UNRECORDED = -2
    """It came after one recorded change and before the next, or after the last: nobody looked in between."""
    GONE = -3
    """The content that would tell is no longer kept."""


class Written(msgspec.Struct, frozen=True):
    """A recorded change of a file, for blame."""

    change: Change
    is_rollback: bool = False


def blame(text: bytes, made: Sequence[Written], read: Read) -> list[int]:
    """Return for each line of a text which of the changes wrote it, by its number in `made`, or a `Whose`."""
    left = _UnclaimedLines(text)
    at = len(made) - 1
    while at >= 0 and left.lines:
        change = made[at].change
        after = _text(change.after, read)
        if after is None:
            break
        left.follow(after, Whose.UNRECORDED)
        earlier = _same_before(made, at) if made[at].is_rollback else None
        if earlier is not None:
            at = earlier
            continue
        before = _text(change.before, read)
        if before is None:
            break
        left.follow(before, at)
        at -= 1
    left.all_are(Whose.FIRST if at < 0 else Whose.GONE)
    return left.found


def _text(version: Version, read: Read) -> bytes | None:
    """Return the content of a version; None if it is no longer kept."""
    return read(version) if version else b""


def _same_before(made: Sequence[Written], at: int) -> int | None:
    """Return the latest change before this one that left the version which this one put back."""
    version = made[at].change.after
    return next((n for n in reversed(range(at)) if made[n].change.after == version), None)


class _UnclaimedLines:
    """The lines whose writer is not known yet, as they stand in the version that is looked at."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.lines: dict[int, int] = {n: n for n in range(len(lines_of(text)))}
        """From their place in that version to their place in the text of today."""
        self.found = [int(Whose.FIRST)] * len(self.lines)

    def all_are(self, whose: int) -> None:
        for line in self.lines.values():
            self.found[line] = whose
        self.lines = {}

    def follow(self, earlier: bytes, whose: int) -> None:
        """Go on to an earlier version: what is not in it was written by `whose`."""
        if earlier == self._text:
            return
        places = _places(lines_of(earlier), lines_of(self._text))
        kept: dict[int, int] = {}
        for place, line in self.lines.items():
            if place in places:
                kept[places[place]] = line
            else:
                self.found[line] = whose
        self._text, self.lines = earlier, kept


def lines_of(text: bytes) -> list[bytes]:
    """Return the lines of a text with their ends; they end at a newline and nowhere else."""
    *lines, last = text.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _places(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Return where lines of a new text stood in the old one."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    found = {n: n for n in range(start)}
    found |= {len(new) - 1 - n: len(old) - 1 - n for n in range(end)}
    matcher = SequenceMatcher(None, old[start : len(old) - end], new[start : len(new) - end], autojunk=False)
    for block in matcher.get_matching_blocks():
        found |= {start + block.b + n: start + block.a + n for n in range(block.size)}
    return found
