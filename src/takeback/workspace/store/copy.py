"""Copying a history from one place to another: record by record, then read back and compared.

Nothing here decides where a workspace is. A journal is copied into one that is shut, and both are proved to be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import msgspec

from takeback.core.intents import Queued
from takeback.errors import ConflictError, CorruptionError
from takeback.ports.journal import Head, Journal
from takeback.ports.outbox import Outbox
from takeback.ports.progress import Progress
from takeback.ports.relocation import Stored

PIECE_ROWS = 500
PIECE_BYTES = 4 << 20
PAGE = 500


class Copied(msgspec.Struct, frozen=True):
    """The counts of what was compared and found equal in both places."""

    events: int
    streams: int
    intents: int


def begins_alike(source: Journal, target: Journal, progress: Progress) -> int:
    """Return how many records the target has. Raise ConflictError if they are not the first ones of the source."""
    there, here = target.head().count, source.head().count
    rows = progress("Comparing what is there", target.moving.rows(), there)
    for ours, theirs in zip(source.moving.rows(), rows, strict=False):
        if ours != theirs:
            raise ConflictError(
                f"the target has another history: event {theirs[0]} differs; nothing was moved",
                hint="choose another name with --workspace, or another database",
            )
    if there > here:
        raise ConflictError(
            f"the history in the target has {there - here:,} more events than the one here; nothing was moved",
            hint="choose another name with --workspace; or continue with the target's, which is newer",
        )
    return there


def carry(source: Journal, target: Journal, progress: Progress) -> None:
    """Copy all records that the target does not have yet."""
    after = target.head().count
    rows = progress("Copying events", source.moving.rows(after=after), source.head().count - after)
    for piece in _pieces(rows):
        target.moving.adopt(piece)


def carry_queue(source: Journal, target: Journal) -> None:
    """Copy what no event records: claims of intents, answers of their receivers, the number of the last lease."""
    after = 0
    while rows := source.moving.queue(after=after):
        target.moving.adopt((), rows)
        after = rows[-1].id
    target.moving.adopt((), (), source.moving.fence())


def compare(source: Journal, target: Journal, progress: Progress) -> Copied:
    """Read everything back from the target and compare it with the source. Raise CorruptionError if it differs."""
    count, ends = 0, dict[str, Head]()
    rows = progress("Reading back", source.moving.rows(), source.head().count)
    for ours, theirs in zip_longest(rows, target.moving.rows()):
        count += 1
        if ours != theirs:
            raise _differs(f"event {count}")
        ends[ours[1]] = Head(ours[2], ours[4])
    if source.head() != target.head():
        raise _differs("the end of the journal")
    for stream, end in ends.items():
        if source.head(stream) != end or target.head(stream) != end:
            raise _differs(f"the end of {stream}")
    if target.moving.fence() < source.moving.fence():
        raise _differs("the number of the last lock")
    return Copied(count, len(ends), _compare_intents(source.outbox, target.outbox))


def _compare_intents(source: Outbox, target: Outbox) -> int:
    count = 0
    for ours, theirs in zip_longest(_intents(source), _intents(target)):
        count += 1
        if ours is None or theirs is None or _told(ours) != _told(theirs):
            raise _differs(f"intent number {count}")
        if ours.fence and list(source.attempts(ours.id)) != list(target.attempts(ours.id)):
            raise _differs(f"an attempt of {ours.id}")
    return count


def _differs(what: str) -> CorruptionError:
    return CorruptionError(
        f"verification failed: {what} in the new place differs from the original; nothing was moved, and the "
        "workspace stays in the old place",
        hint="check the log of the database server; `takeback verify --all` checks the old place",
    )


def _pieces(rows: Iterable[Stored]) -> Iterator[list[Stored]]:
    piece, size = list[Stored](), 0
    for row in rows:
        piece.append(row)
        size += len(row[5])
        if len(piece) >= PIECE_ROWS or size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _intents(outbox: Outbox) -> Iterator[Queued]:
    after = ""
    while page := outbox.page(after=after, limit=PAGE):
        yield from page
        after = page[-1].id


def _told(one: Queued) -> Queued:
    """Return an intent without its due time, which each store keeps by its own clock."""
    return msgspec.structs.replace(one, due_us=0)
