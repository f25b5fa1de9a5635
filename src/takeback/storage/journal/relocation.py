"""What a journal asks of records that come from another one: the same for every implementation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from takeback.core.leases import RESERVED, Lease
from takeback.core.record import Record
from takeback.errors import ConflictError, CorruptionError, JournalMoved, RunBusy, StoreMoved, UsageError
from takeback.ports.journal import Head
from takeback.ports.relocation import Stored
from takeback.storage.journal.anchor import Anchor
from takeback.storage.journal.batch import record_of
from takeback.system.crash_points import crash_point
from takeback.system.private_files import unusable

ADOPTING = crash_point("store-adopting")

STARTS_ANEW = (
    "start again what has had it open since before; in another folder with this history, "
    "`takeback store copy --to ADDRESS` follows it there"
)


def moved(notice: str) -> StoreMoved:
    """What whoever wants to write to a journal that is shut is told."""
    return StoreMoved(f"the history of this workspace {notice}; nothing was recorded", hint=STARTS_ANEW)


def refuse_shutting(at: int | None, count: int) -> None:
    if at is not None and at != count:
        raise JournalMoved(
            f"another process appended first: there are {count:,} records, not {at:,}; nothing was changed",
            hint="try again",
        )


def refuse_at_work(claimed: int, leases: Collection[Lease]) -> None:
    """Somebody who works with the old place would not know of the new one."""
    if claimed:
        raise RunBusy(
            "a worker is delivering what runs have deferred; nothing was moved",
            hint="stop `takeback outbox worker`, and try again; what a dead one held is free after a minute",
        )
    # Takeback's own are taken anew in the new place.
    if live := [one.name for one in leases if one.is_live and not one.name.startswith(RESERVED)]:
        raise RunBusy(
            f"{', '.join(live[:3])} {'is' if len(live) == 1 else 'are'} locked; nothing was moved",
            hint="`takeback locks list` shows by whom; `takeback locks release` lets go of them",
        )


def refuse_open(notice: str) -> None:
    if not notice:
        raise UsageError("only a journal that is shut takes in records of another; nothing was recorded")


def next_of(
    rows: Sequence[Stored], last: int, there: Callable[[int], Stored | None], end_of: Callable[[str], Head]
) -> tuple[list[Stored], list[Record]]:
    """Those of these rows that are not there yet, each proved to come next in the journal and in its stream."""
    for row in rows:
        if row[0] <= last and there(row[0]) != tuple(row):
            raise ConflictError(f"event {row[0]} is another one here; nothing was recorded")
    fresh = [row for row in rows if row[0] > last]
    records = [record_of(row) for row in fresh]
    ends: dict[str, Head] = {}
    for record in records:
        last += 1
        envelope = record.envelope
        end = ends.get(record.stream) or end_of(record.stream)
        if record.seq != last or (envelope.n, envelope.prev) != (end.count + 1, end.digest):
            raise CorruptionError(f"event {record.seq} does not come next here; nothing was recorded")
        ends[record.stream] = Head(envelope.n, record.digest)
    return fresh, records


def keep_anchor(anchor: Anchor) -> None:
    """What is taken in is proved. Without an anchor it would count as what an anchor has lost."""
    try:
        if not anchor.exists():
            anchor.start(lost=0)
    except OSError as error:
        raise unusable(anchor.path, error) from error
