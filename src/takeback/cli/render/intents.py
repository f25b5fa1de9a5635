"""Intents as text for people, and as data for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, get_args

from takeback.cli.render.history import table
from takeback.cli.text import ago, iso, plural, until
from takeback.core import intents as i
from takeback.core.codec import one_line
from takeback.core.events import Event, RollbackEnded
from takeback.core.intents import RELEASED, IntentAttempted, IntentDied, IntentState, Queued
from takeback.core.record import Record
from takeback.workspace.describe import short

GIVEN_MAX = 2000
ON_THE_WAY = (IntentState.HELD, IntentState.QUEUED, IntentState.DUE, IntentState.CLAIMED, IntentState.DEAD)


def stands(queued: Queued) -> str:
    """Return the state of an intent as text."""
    match queued.state:
        case IntentState.HELD:
            return f"held until {'its step' if queued.deferred.step else queued.run} commits"
        case IntentState.QUEUED:
            return f"waits for its turn in {queued.deferred.order}"
        case IntentState.DUE if queued.attempts:
            return f"tried {queued.attempts} of {queued.deferred.tries} times, again {_when(queued.due_us)}"
        case IntentState.DUE:
            return "waits for a worker"
        case IntentState.CLAIMED:
            return "is being delivered" if queued.busy else "is with a worker"
        case IntentState.DEAD:
            return f"failed for good {ago(queued.changed_us)}"
    doubt = (
        ", but may have been delivered" if queued.unsure and queued.state is not IntentState.DELIVERED else ""
    )
    return f"{queued.state} {ago(queued.changed_us)}{doubt}"


def _when(us: int) -> str:
    return f"in {left}" if (left := until(us)) not in ("", "0 s") else "now"


def rows(every: list[Queued]) -> list[str]:
    heads = [("id", "run", "what", "state")]
    return table(
        [
            *heads,
            *((q.id, q.run, one_line(q.deferred.about or q.deferred.name, 50), stands(q)) for q in every),
        ]
    )


def intent_data(queued: Queued) -> dict[str, Any]:
    deferred = queued.deferred
    return {
        "id": queued.id,
        "kind": "intent",
        "run": queued.run,
        "action": deferred.action,
        "what": deferred.about,
        "handler": deferred.handler,
        "key": deferred.key,
        "delivery_key": deferred.delivery_key,
        "order": deferred.order,
        "state": queued.state.value,
        "at": iso(queued.deferred_us),
        "changed": iso(queued.changed_us),
        "due": iso(queued.due_us) if queued.state is IntentState.DUE else None,
        "attempts": queued.attempts,
        "tries": deferred.tries,
        "unsure": queued.unsure,
        "arguments": deferred.arguments,
    }


def outbox_lines(counts: dict[str, int]) -> list[str]:
    """Return what a person should know about the outbox."""
    lines = []
    if waiting := sum(counts.get(state.value, 0) for state in RELEASED):
        lines.append(
            f"{plural(waiting, 'intent waits', 'intents wait')} to be delivered: takeback outbox worker"
        )
    if dead := counts.get(IntentState.DEAD.value, 0):
        lines.append(f"{plural(dead, 'dead letter waits', 'dead letters wait')} for you: takeback dead list")
    return lines


def whole_intent_data(
    queued: Queued, attempts: Iterable[Record], records: Iterable[Record]
) -> dict[str, Any]:
    """Return everything known about an intent, from its attempts and the records since it was deferred."""
    life = [one.data() for one in _life_of(records, queued.id)]
    return intent_data(queued) | {"failed": [attempt_data(record) for record in attempts], "life": life}


def whole_intent_lines(queued: Queued, records: Iterable[Record]) -> list[str]:
    """Return everything known about an intent, from the records since it was deferred."""
    return [*_lines(queued), *map(str, _life_of(records, queued.id))]


def _lines(queued: Queued) -> list[str]:
    deferred = queued.deferred
    return [
        f"{queued.id}  {deferred.about}  {stands(queued)}",
        f"  of {queued.run}, by {deferred.handler}, key {deferred.delivery_key}",
        f"  given {short(deferred.arguments, GIVEN_MAX)}",
    ]


def attempt_data(record: Record) -> dict[str, Any]:
    event = record.event
    assert isinstance(event, IntentAttempted | IntentDied)
    return {"attempt": event.attempt, "at": iso(record.at_us), "why": event.why, "unsure": event.unsure}


_MOVES = tuple(set(get_args(i.IntentEvent)) - {i.IntentDeferred, i.IntentsReleased})


class IntentEvent(NamedTuple):
    """One event of an intent's life, as text."""

    at_us: int
    what: str

    def __str__(self) -> str:
        return f"  {ago(self.at_us)}: {self.what}"

    def data(self) -> dict[str, Any]:
        return {"at": iso(self.at_us), "what": self.what}


def _life_of(records: Iterable[Record], id: str) -> list[IntentEvent]:
    """Return the events of an intent's life."""
    return [IntentEvent(record.at_us, what) for record in records for what in _described(record, id)]


def _described(record: Record, id: str) -> Iterator[str]:
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
