"""Comparing the outbox with the journal that it is derived from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from takeback.core.history import History
from takeback.core.intents import RELEASED, IntentState, Queued
from takeback.ports.journal import Finding
from takeback.ports.outbox import Outbox

PAGE = 1000


def disagreements(now: Callable[[], History], outbox: Outbox) -> Iterator[Finding]:
    """Yield where the outbox differs from the journal. `now` returns the present history. Workers may be at work."""
    history = now()
    missing, after = set(history.intents.every), ""
    while page := outbox.page(after=after, limit=PAGE):
        after = page[-1].id
        missing -= {queued.id for queued in page}
        for queued in page:
            if not _agrees(history, queued) and not _agrees_by_now(now, outbox, queued.id):
                yield Finding(
                    "outbox", f"{queued.id} is {queued.state} in the outbox, but not in the journal"
                )
    for id in sorted(missing):
        yield Finding("outbox", f"{id} is missing from the outbox")


def _agrees(history: History, queued: Queued) -> bool:
    intent = history.intents.every.get(queued.id)
    # Only the outbox knows which worker has it and which intents wait behind others.
    return intent is not None and intent.state is (
        IntentState.DUE if queued.state in RELEASED else queued.state
    )


def _agrees_by_now(now: Callable[[], History], outbox: Outbox, id: str) -> bool:
    """Return whether both agree when read at the same moment, with no change in between."""
    queued = outbox.get(id)
    while queued:
        history, later = now(), outbox.get(id)
        if later and later.changed_us == queued.changed_us:
            return _agrees(history, queued)
        queued = later
    return False
