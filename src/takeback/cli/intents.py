"""How intents read, for people and for machines."""

from __future__ import annotations

from typing import Any

from takeback.cli.session import ago, iso, shortened, until
from takeback.cli.views import table
from takeback.core.intents import IntentAttempted, IntentDied, State
from takeback.core.record import Record
from takeback.ports import Queued

ON_THE_WAY = (State.HELD, State.QUEUED, State.DUE, State.CLAIMED, State.DEAD)


def stands(queued: Queued) -> str:
    """Where an intent stands, in words."""
    match queued.state:
        case State.HELD:
            return f"held until {'its step' if queued.deferred.step else queued.run} commits"
        case State.QUEUED:
            return f"waits for its turn in {queued.deferred.order}"
        case State.DUE if queued.attempts:
            return f"tried {queued.attempts} of {queued.deferred.tries} times, again {_when(queued.due_us)}"
        case State.DUE:
            return "waits for a worker"
        case State.CLAIMED:
            return "is being delivered" if queued.busy else "is with a worker"
        case State.DEAD:
            return f"failed for good {ago(queued.changed_us)}"
    doubt = ", but may have been delivered" if queued.unsure and queued.state is not State.DELIVERED else ""
    return f"{queued.state} {ago(queued.changed_us)}{doubt}"


def _when(us: int) -> str:
    return f"in {left}" if (left := until(us)) not in ("", "0 s") else "now"


def rows(every: list[Queued]) -> list[str]:
    heads = [("ID", "RUN", "WHAT", "HOW IT STANDS")]
    return table(
        [
            *heads,
            *((q.id, q.run, shortened(q.deferred.about or q.deferred.name, 50), stands(q)) for q in every),
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
        "due": iso(queued.due_us) if queued.state is State.DUE else None,
        "attempts": queued.attempts,
        "tries": deferred.tries,
        "unsure": queued.unsure,
        "arguments": deferred.arguments,
    }


def attempt_data(record: Record) -> dict[str, Any]:
    event = record.event
    assert isinstance(event, IntentAttempted | IntentDied)
    return {"attempt": event.attempt, "at": iso(record.at_us), "why": event.why, "unsure": event.unsure}


def attempt_line(record: Record) -> str:
    event = record.event
    assert isinstance(event, IntentAttempted | IntentDied)
    doubt = " (it may have been delivered)" if event.unsure else ""
    return f"  attempt {event.attempt}, {ago(record.at_us)}: {event.why}{doubt}"
