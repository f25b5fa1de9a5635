"""How intents read, for people and for machines."""

from __future__ import annotations

from typing import Any

from takeback.cli.intent_life import life_of
from takeback.cli.session import Session, ago, iso, plural, shortened, until
from takeback.cli.views import table
from takeback.core.intents import RELEASED, IntentAttempted, IntentDied, Queued, State
from takeback.core.record import Record
from takeback.engine.wording import short
from takeback.workspace import Workspace

GIVEN_MAX = 2000
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
    heads = [("id", "run", "what", "how it stands")]
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


def counted_by_state(workspace: Workspace) -> dict[str, int]:
    return {state.value: count for state, count in workspace.outbox.counts().items()}


def outbox_lines(counts: dict[str, int]) -> list[str]:
    """What a person should know of the outbox."""
    lines = []
    if waiting := sum(counts.get(state.value, 0) for state in RELEASED):
        lines.append(
            f"{plural(waiting, 'intent waits', 'intents wait')} to be delivered: takeback outbox worker"
        )
    if dead := counts.get(State.DEAD.value, 0):
        lines.append(f"{plural(dead, 'dead letter waits', 'dead letters wait')} for you: takeback dead list")
    return lines


def show_intent(session: Session, workspace: Workspace, queued: Queued) -> None:
    """All that is known of one."""
    life = life_of(workspace.journal, queued.id)
    if session.json:
        failed = [attempt_data(record) for record in workspace.outbox.attempts(queued.id)]
        return session.data(intent_data(queued) | {"failed": failed, "life": [one.data() for one in life]})
    for line in (*_lines(queued), *map(str, life)):
        session.line(line)


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
