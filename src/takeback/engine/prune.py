"""What content is still needed, and letting go of the rest.

The journal is never cut. What goes is the content of old marks: older than `keep_days`, beyond the newest
`keep_checkpoints`, or what makes the store larger than its quota. The last mark always stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from takeback.core.events import Mark
from takeback.core.record import Record
from takeback.ports.content import BlobStore
from takeback.ports.progress import Progress, silent

Dated = tuple[int, Mark]

DAY_US = 86_400_000_000


class RetentionLimits(msgspec.Struct, frozen=True):
    """How much is kept. Zero means no limit."""

    keep_days: int
    keep_checkpoints: int
    quota_bytes: int


class Keeper(Protocol):
    """A resource that keeps content."""

    def keeps(self, mark: Mark) -> bool:
        """Whether what this mark needs is still kept."""

    def blobs(self, marks: Iterable[Mark]) -> set[bytes]:
        """The names of all content that these marks need. The first one must be whole."""


class Pruned(msgspec.Struct, frozen=True):
    """What a clean-up did."""

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
    """Let go of what the limits do not keep. Under the lock. Pinned marks and values stay whatever their age."""
    pinned = list(pinned)
    marks = {name: found for name, found in _marks(records, keepers).items() if found}
    kept = {name: _within(found, limits, now_us) for name, found in marks.items()}
    before = store.size_bytes()

    def sweep() -> None:
        store.sweep(_blobs(kept, pinned, keepers, values, progress), thorough=True, progress=progress)

    sweep()
    # Over the quota the oldest half goes, again and again, until it fits or only the last marks are left.
    while (
        limits.quota_bytes
        and store.size_bytes() > limits.quota_bytes
        and any(len(dated) > 1 for dated in kept.values())
    ):
        kept = {name: dated[len(dated) // 2 :] for name, dated in kept.items()}
        sweep()
    # Each state is one mark of every resource; how many states there are, the one that changed most often tells.
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
    """The names of all content that `prune` would keep, but for the quota."""
    marks = {name: found for name, found in _marks(records, keepers).items() if found}
    kept = {name: _within(found, limits, now_us) for name, found in marks.items()}
    return _blobs(kept, list(pinned), keepers, values, progress)


def _blobs(
    kept: Mapping[str, list[Dated]],
    pinned: Sequence[Mark],
    keepers: Mapping[str, Keeper],
    values: AbstractSet[bytes],
    progress: Progress,
) -> set[bytes]:
    found = set(values)
    for name, dated in kept.items():
        # The latest first: what it shares with one that is only half there has then been followed to its end.
        latest_first = [mark for _, mark in reversed(dated)]
        latest_first += [mark for mark in pinned if mark.resource == name]
        looked_at = progress("Looking at what is needed", latest_first, len(latest_first))
        found |= keepers[name].blobs(looked_at)
    return found


def _marks(records: Iterable[Record], keepers: Mapping[str, Keeper]) -> dict[str, list[Dated]]:
    """Every different state of each resource, with the time at which it was last seen; in that order.

    What an earlier clean-up let go is neither needed nor let go again.
    """
    seen: dict[str, dict[str, Dated]] = {name: {} for name in keepers}
    for record in records:
        for mark in getattr(record.event, "marks", ()):
            if mark.resource in keepers:
                seen[mark.resource].pop(mark.state, None)
                seen[mark.resource][mark.state] = (record.at_us, mark)
    return {
        name: [dated for dated in found.values() if keepers[name].keeps(dated[1])]
        for name, found in seen.items()
    }


def _within(marks: list[Dated], limits: RetentionLimits, now_us: int) -> list[Dated]:
    kept = marks[-limits.keep_checkpoints :] if limits.keep_checkpoints else marks
    if limits.keep_days:
        oldest = now_us - limits.keep_days * DAY_US
        kept = [pair for pair in kept if pair[0] >= oldest] or kept[-1:]
    return kept
