"""Deleting content that is no longer needed.

The content of old marks is deleted: older than `keep_days`, beyond the newest `keep_checkpoints`, or more than the
quota allows. The last mark always stays. What becomes of old records is decided elsewhere (engine/compaction.py).

Content that a human had forgotten is needed only by what was recorded afterwards. So every clean-up, on any machine,
removes what a forgetting was meant to remove, and keeps what was captured again since.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from takeback.core.events import ContentForgotten, Mark
from takeback.core.record import Record
from takeback.ports.content import BlobStore
from takeback.ports.progress import Progress, silent
from takeback.ports.resource import Keeper

DAY_US = 86_400_000_000


class Dated(NamedTuple):
    """A mark, and the time and the number of the last record that names it."""

    at_us: int
    mark: Mark
    seq: int = 0


Forgotten = Mapping[bytes, int]
"""Content that was forgotten, with the number of the last record that says so."""


class RetentionLimits(msgspec.Struct, frozen=True):
    """Limits on what is kept. Zero means no limit."""

    keep_days: int
    keep_checkpoints: int
    quota_bytes: int


class Pruned(msgspec.Struct, frozen=True):
    """The result of a clean-up."""

    marks_kept: int
    marks_pruned: int
    bytes_before: int
    bytes_after: int
    bucket_bytes_freed: int = 0

    @property
    def freed(self) -> int:
        return max(0, self.bytes_before - self.bytes_after)


def prune(
    records: Iterable[Record],
    pinned: Iterable[Mark],
    keepers: Mapping[str, Keeper],
    store: BlobStore,
    limits: RetentionLimits,
    now_us: int,
    progress: Progress = silent,
    values: AbstractSet[bytes] = frozenset(),
) -> Pruned:
    """Delete what the limits do not keep, except pinned marks and values. The caller holds the lock."""
    marks, forgotten = _marks(records, keepers)
    pins = _pins(pinned, marks)
    kept = {name: _within(found, limits, now_us) for name, found in marks.items()}
    before = store.size_bytes()

    def sweep() -> None:
        store.sweep(
            _blobs(kept, pins, keepers, forgotten, values, progress), thorough=True, progress=progress
        )

    sweep()
    # Over the quota, delete the oldest half again and again until it fits or only the last marks are left.
    while (
        limits.quota_bytes
        and store.size_bytes() > limits.quota_bytes
        and any(len(dated) > 1 for dated in kept.values())
    ):
        kept = {name: dated[len(dated) // 2 :] for name, dated in kept.items()}
        sweep()
    # A state is one mark of every resource, so the resource with the most marks says how many states there are.
    counts = [max(map(len, some.values()), default=0) for some in (marks, kept)]
    return Pruned(counts[1], counts[0] - counts[1], before, store.size_bytes())


def needed(
    records: Iterable[Record],
    pinned: Iterable[Mark],
    keepers: Mapping[str, Keeper],
    limits: RetentionLimits,
    now_us: int,
    progress: Progress = silent,
    values: AbstractSet[bytes] = frozenset(),
) -> set[bytes]:
    """Return the names of all blobs that `prune` would keep if there were no quota."""
    marks, forgotten = _marks(records, keepers)
    kept = {name: _within(found, limits, now_us) for name, found in marks.items()}
    return _blobs(kept, _pins(pinned, marks), keepers, forgotten, values, progress)


def kept_marks(records: Iterable[Record], keepers: Mapping[str, Keeper]) -> dict[str, list[Mark]]:
    """Return the marks of each resource whose content is still kept, latest first."""
    marks, _ = _marks(records, keepers)
    return {name: [dated.mark for dated in reversed(found)] for name, found in marks.items()}


def _blobs(
    kept: Mapping[str, list[Dated]],
    pinned: Sequence[Dated],
    keepers: Mapping[str, Keeper],
    forgotten: Forgotten,
    values: AbstractSet[bytes],
    progress: Progress,
) -> set[bytes]:
    found = set(values)
    for name, dated in kept.items():
        # Latest first: what it shares with an incomplete mark has then been followed completely.
        latest_first = [*reversed(dated), *(pin for pin in pinned if pin.mark.resource == name)]
        for marks, gone in _alike(latest_first, forgotten):
            looked_at = progress("Looking at what is needed", marks, len(marks))
            found |= keepers[name].blobs(looked_at, gone)
    return found


def _alike(latest_first: Sequence[Dated], forgotten: Forgotten) -> Iterator[tuple[list[Mark], set[bytes]]]:
    """Yield the marks in groups, each with what was forgotten after all marks of the group were recorded."""
    seqs = sorted(set(forgotten.values()))
    groups: dict[int, list[Mark]] = {}
    for dated in latest_first:
        groups.setdefault(bisect_right(seqs, dated.seq), []).append(dated.mark)
    for earlier, marks in groups.items():
        later = set(seqs[earlier:])
        gone = {name for name, seq in forgotten.items() if seq in later}
        # The first mark of a group must be complete, and only the latest one is for certain.
        yield [*({latest_first[0].mark: None} | dict.fromkeys(marks))], gone


def _pins(pinned: Iterable[Mark], marks: Mapping[str, list[Dated]]) -> list[Dated]:
    """Return pinned marks with the records that name them last."""
    known = {(dated.mark.resource, dated.mark.state): dated for found in marks.values() for dated in found}
    return [known.get((mark.resource, mark.state), Dated(0, mark)) for mark in pinned]


def _marks(
    records: Iterable[Record], keepers: Mapping[str, Keeper]
) -> tuple[dict[str, list[Dated]], dict[bytes, int]]:
    """Return the distinct marks of each resource, ordered by when each was last seen, and what was forgotten.

    Marks whose content an earlier clean-up deleted are left out.
    """
    seen: dict[str, dict[str, Dated]] = {name: {} for name in keepers}
    forgotten: dict[bytes, int] = {}
    for record in records:
        if isinstance(record.event, ContentForgotten):
            forgotten |= dict.fromkeys(record.event.names, record.seq)
        for mark in () if record.compacted_us else getattr(record.event, "marks", ()):
            if mark.resource in keepers:
                seen[mark.resource].pop(mark.state, None)
                seen[mark.resource][mark.state] = Dated(record.at_us, mark, record.seq)
    kept = {
        name: [dated for dated in found.values() if keepers[name].keeps(dated.mark)]
        for name, found in seen.items()
    }
    return {name: found for name, found in kept.items() if found}, forgotten


def _within(marks: list[Dated], limits: RetentionLimits, now_us: int) -> list[Dated]:
    kept = marks[-limits.keep_checkpoints :] if limits.keep_checkpoints else marks
    if limits.keep_days:
        oldest = now_us - limits.keep_days * DAY_US
        kept = [pair for pair in kept if pair.at_us >= oldest] or kept[-1:]
    return kept
