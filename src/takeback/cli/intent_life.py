"""The life of one intent: every step of it that stands in the journal, with its time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from takeback.cli.session import ago, iso
from takeback.core import ids
from takeback.core import intents as i
from takeback.core.events import Event, RollbackEnded
from takeback.core.record import Record
from takeback.ports import Journal

_MOVES = tuple(set(get_args(i.IntentEvent)) - {i.IntentDeferred, i.IntentsReleased})


class Moment(NamedTuple):
    """One step of its life, in words."""

    at_us: int
    what: str

    def __str__(self) -> str:
        return f"  {ago(self.at_us)}: {self.what}"

    def data(self) -> dict[str, Any]:
        return {"at": iso(self.at_us), "what": self.what}


def life_of(journal: Journal, id: str) -> list[Moment]:
    """All that became of an intent."""
    records = journal.read(after=ids.seq_of(id) - 1)
    return [Moment(record.at_us, what) for record in records for what in _told(record, id)]


def _told(record: Record, id: str) -> Iterator[str]:
    event = record.event
    if record.id == id and isinstance(event, i.IntentDeferred):
        yield f"deferred by {event.action}, until {'its step' if event.step else record.stream} commits"
    elif isinstance(event, i.IntentsReleased) and id in event.intents:
        yield "released: from now on a worker may deliver it"
    elif isinstance(event, _MOVES) and getattr(event, "intent", "") == id:
        yield _moved(event)
    elif isinstance(event, RollbackEnded):
        for item in event.items:
            if (item.target.resource, item.target.name) == (i.RESOURCE, id):
                proof = "verified" if item.verified else "not verified"
                yield f"{item.did} by {event.rollback}, {proof}{_because(item.why)}"


def _moved(event: Event) -> str:
    doubt = " (it may have been delivered)" if getattr(event, "unsure", False) else ""
    match event:
        case i.IntentAttempted():
            return f"attempt {event.attempt} failed: {event.why}{doubt}"
        case i.IntentDelivered():
            return "found delivered by its check" if event.found else f"delivered at attempt {event.attempt}"
        case i.IntentDied():
            return f"attempt {event.attempt} failed, for good: {event.why}{doubt}"
        case i.IntentCancelled():
            return f"cancelled{_by(event.rollback)}{doubt}"
        case i.IntentRevived():
            return f"to be tried again{_by(event.actor)}"
        case i.IntentDropped():
            return f"dropped{_by(event.actor)}{_because(event.why)}"
    raise AssertionError(event)


def _by(whom: str) -> str:
    return f" by {whom}" if whom else ""


def _because(why: str) -> str:
    return f": {why}" if why else ""
