"""What may be done to an intent in each of its states: the same for every implementation."""

from __future__ import annotations

from collections.abc import Iterable

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.intents import AttemptOutcome, IntentState, Queued
from takeback.errors import UsageError

LOST = "the worker that was delivering it ended without a word"


def known(queued: Queued | None, id: str) -> Queued:
    if queued is None:
        raise UsageError(
            f"there is no {ids.KINDS[ids.INTENT]} {id}", hint="`takeback outbox list` lists them"
        )
    return queued


def once(outcomes: Iterable[AttemptOutcome]) -> list[AttemptOutcome]:
    """A claim ends once: of several words on it the first counts."""
    first: dict[str, AttemptOutcome] = {}
    for outcome in outcomes:
        first.setdefault(outcome.queued.id, outcome)
    return list(first.values())


def given_up(queued: Queued, now_us: int) -> i.IntentAttempted | i.IntentDied:
    """An attempt that began and has no end: it counts, so that what kills its worker is not tried for ever."""
    attempt = queued.attempts + 1
    if attempt >= queued.deferred.tries:
        return i.IntentDied(queued.id, attempt, LOST, unsure=True)
    return i.IntentAttempted(queued.id, attempt, LOST, now_us, unsure=True)


def cancelled(queued: Queued, rollback: str) -> i.IntentCancelled | None:
    """Nothing where it is too late, or is being delivered at this moment."""
    if queued.state in (IntentState.DELIVERED, IntentState.CANCELLED, IntentState.DROPPED) or queued.busy:
        return None
    begun = queued.state is IntentState.CLAIMED and queued.begun
    return i.IntentCancelled(queued.id, rollback, unsure=queued.unsure or begun)


def revived(queued: Queued, actor: str) -> i.IntentRevived:
    _refuse_living(queued)
    return i.IntentRevived(queued.id, actor)


def dropped(queued: Queued, actor: str, why: str) -> i.IntentDropped:
    _refuse_living(queued)
    return i.IntentDropped(queued.id, actor, why)


def _refuse_living(queued: Queued) -> None:
    if queued.state is not IntentState.DEAD:
        raise UsageError(
            f"{queued.id} is {queued.state}, not a dead letter; nothing was changed",
            hint="`takeback dead list` lists them; `takeback undo` cancels what is not delivered yet",
        )
