"""Three-way merge of text, by lines.

The difference from the base to each side is a list of hunks: base lines that were replaced by other lines. Hunks
of the two sides that overlap or touch form one region, because their order is undefined; this is git's rule. A
region that both sides turned into the same lines is merged, any other region that both sides changed is an
overlap. With a single overlap there is no result: never half a merge, never markers.

Lines end at a newline and keep it, so CRLF and a missing last newline are content like any other. Data with a
NUL byte is not text; it merges only if one side changed it, or both in the same way.

How hunks are found only decides between an overlap and a merge, never the content of either side. The shortest
edit script is tried first; its cost grows with the number of edits. If there are too many, lines that occur once
on each side divide the text (patience diff), and what cannot be divided is one hunk: coarse but correct, and in
bounded time for any input.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

EDITS_MAX = 256
"""The most edits for which the shortest script is searched. Time and space are at most the square of this."""

Lines = Sequence[bytes]
Pair = tuple[int, int]


class Overlap(msgspec.Struct, frozen=True):
    """Lines that both sides changed, each as (first, last), counted from 1.

    An empty range, where one side removed lines or the other inserted some, is (n + 1, n): after line n.
    """

    base_lines: tuple[int, int]
    our_lines: tuple[int, int]
    their_lines: tuple[int, int]


class Merged(msgspec.Struct, frozen=True):
    """The merged text; or None with the overlaps, and without overlaps if it is not text."""

    data: bytes | None
    conflicts: tuple[Overlap, ...] = ()


class Hunk(NamedTuple):
    """Lines [start, end) of the base became lines [first, last) of the other."""

    start: int
    end: int
    first: int
    last: int


class Region(NamedTuple):
    """Lines [start, end) of the base that are covered by hunks of one side or both."""

    start: int
    end: int
    ours: list[Hunk]
    theirs: list[Hunk]


def merge(base: bytes, ours: bytes, theirs: bytes) -> Merged:
    """Combine the changes from `base` to `ours` with those from `base` to `theirs`."""
    if ours == theirs or theirs == base:
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    if b"\0" in base or b"\0" in ours or b"\0" in theirs:
        return Merged(None)
    return _merge(_split(base), _split(ours), _split(theirs))


def _merge(base: Lines, ours: Lines, theirs: Lines) -> Merged:
    parts: list[bytes] = []
    overlaps: list[Overlap] = []
    at = 0
    for region in _regions(hunks(base, ours), hunks(base, theirs)):
        parts += base[at : region.start]
        at = region.end
        our_lines, their_lines = _span(region, region.ours), _span(region, region.theirs)
        if not region.theirs:
            parts += ours[slice(*our_lines)]
        elif not region.ours or ours[slice(*our_lines)] == theirs[slice(*their_lines)]:
            parts += theirs[slice(*their_lines)]
        else:
            spans = (region.start, region.end), our_lines, their_lines
            overlaps.append(Overlap(*((start + 1, end) for start, end in spans)))
    parts += base[at:]
    return Merged(None, tuple(overlaps)) if overlaps else Merged(b"".join(parts))


def _split(data: bytes) -> list[bytes]:
    # Not splitlines(), which also splits at a lone carriage return.
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _regions(ours: list[Hunk], theirs: list[Hunk]) -> list[Region]:
    """Group hunks that overlap or touch. Hunks of one side never do."""
    regions: list[Region] = []
    for hunk, is_ours in sorted([*((hunk, True) for hunk in ours), *((hunk, False) for hunk in theirs)]):
        if regions and hunk.start <= regions[-1].end:
            region = regions.pop()
            regions.append(region._replace(end=max(region.end, hunk.end)))
        else:
            regions.append(Region(hunk.start, hunk.end, [], []))
        (regions[-1].ours if is_ours else regions[-1].theirs).append(hunk)
    return regions


def _span(region: Region, changes: list[Hunk]) -> tuple[int, int]:
    """Return the range of one side's lines that corresponds to the region.

    For a side without hunks the result is not used.
    """
    if not changes:
        return region.start, region.end
    first, last = changes[0], changes[-1]
    return first.first - (first.start - region.start), last.last + (region.end - last.end)


# From lines to hunks


def hunks(base: Lines, other: Lines) -> list[Hunk]:
    """Return the differences from the base to the other, in order. Two hunks are separated by a common line."""
    head = _common(base, other)
    tail = _common(base[head:][::-1], other[head:][::-1])
    ends = len(base) - tail, len(other) - tail
    pairs = sorted(_aligned(base, other, range(head, ends[0]), range(head, ends[1])))
    found: list[Hunk] = []
    start = first = head
    for mate, twin in [*pairs, ends]:
        if mate > start or twin > first:
            found.append(Hunk(start, mate, first, twin))
        start, first = mate + 1, twin + 1
    return _settled(found, base, other)


def _common(one: Lines, other: Lines) -> int:
    """Return how many lines both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def _settled(found: list[Hunk], base: Lines, other: Lines) -> list[Hunk]:
    """Move each insertion and removal as far down as possible.

    Inserting a line next to an equal one can be expressed in several ways. Both sides must use the same one, or
    the same insertion would count twice.
    """
    settled: list[Hunk] = []
    for hunk in reversed(found):
        moved = _slid(hunk, base, other, settled)
        while settled and moved.end == settled[-1].start:
            below = settled.pop()
            moved = _slid(Hunk(moved.start, below.end, moved.first, below.last), base, other, settled)
        settled.append(moved)
    return settled[::-1]


def _slid(hunk: Hunk, base: Lines, other: Lines, settled: list[Hunk]) -> Hunk:
    start, end, first, last = hunk
    if start < end and first < last:
        return hunk  # a replacement stays where it is
    lines, at, to = (base, start, end) if start < end else (other, first, last)
    room = (settled[-1].start if settled else len(base)) - end
    steps = 0
    while steps < room and lines[at + steps] == lines[to + steps]:
        steps += 1
    return Hunk(start + steps, end + steps, first + steps, last + steps)


def _aligned(base: Lines, other: Lines, left: Sequence[int], right: Sequence[int]) -> Iterator[Pair]:
    """Yield the pairs of equal lines in the base and the other, part by part."""
    parts = [(left, right)]
    while parts:
        left, right = _shared(base, other, *parts.pop())
        mine, others = [base[i] for i in left], [other[i] for i in right]
        pairs = _shortest(mine, others)
        if pairs is None:
            pairs = _unique(mine, others)
            cuts = [(-1, -1), *pairs, (len(left), len(right))]
            if pairs:
                parts += [(left[a + 1 : c], right[b + 1 : d]) for (a, b), (c, d) in pairwise(cuts)]
        yield from ((left[a], right[b]) for a, b in pairs)


def _shared(
    base: Lines, other: Lines, left: Sequence[int], right: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return only the lines that occur on both sides: others make the search longer."""
    mine, others = {base[i] for i in left}, {other[i] for i in right}
    return [i for i in left if base[i] in others], [i for i in right if other[i] in mine]


def _shortest(mine: Lines, others: Lines) -> list[Pair] | None:
    """Return the pairs of Myers' greedy search for the fewest edits; None if there are too many edits.

    A path goes right for a line removed, down for one inserted, and on along its diagonal for lines in
    common. `reach` says how far to the right each diagonal was reached, `trace` the same before each edit.
    """
    width, height = len(mine), len(others)
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(width + height, EDITS_MAX) + 1):
        trace.append(reach.copy())
        for diagonal in range(-edits, edits + 1, 2):
            x, _ = _edit(reach, diagonal, edits)
            y = x - diagonal
            while x < width and y < height and mine[x] == others[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= width and y >= height:
                return _walked_back(trace, width, height)
    return None


def _edit(reach: dict[int, int], diagonal: int, edits: int) -> tuple[int, int]:
    """Return where the edit that leads to this diagonal arrives, and the diagonal that it comes from."""
    if diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1]):
        return reach[diagonal + 1], diagonal + 1
    return reach[diagonal - 1] + 1, diagonal - 1


def _walked_back(trace: list[dict[int, int]], x: int, y: int) -> list[Pair]:
    """Return the common lines along the path that ends here."""
    pairs: list[Pair] = []
    for edits in range(len(trace) - 1, -1, -1):
        diagonal = x - y
        arrived, origin = _edit(trace[edits], diagonal, edits)
        pairs += ((at, at - diagonal) for at in range(x - 1, arrived - 1, -1))
        x = trace[edits][origin]
        y = x - origin
    return pairs[::-1]


def _unique(mine: Lines, others: Lines) -> list[Pair]:
    """Return the most lines that occur once on each side and in the same order on both."""
    counts, other_counts = Counter(mine), Counter(others)
    places = {line: index for index, line in enumerate(others) if other_counts[line] == 1}
    pairs = [(index, places[line]) for index, line in enumerate(mine) if counts[line] == 1 and line in places]
    return _rising(pairs)


def _rising(pairs: list[Pair]) -> list[Pair]:
    """Return the longest subsequence of pairs whose second numbers rise."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [index]
    chosen: list[Pair] = []
    index = last[-1] if last else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = before[index]
    return chosen[::-1]
