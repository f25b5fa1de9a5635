"""Intents: what a run wants to be sent once it has committed, and what became of it.

An intent is held until its run, or its step, commits. Then it is released and delivered by a worker, or dies after
its last attempt. A rollback cancels it as long as it was not delivered.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.event_base import Base

RESOURCE = "outbox"


class IntentState(StrEnum):
    """Where an intent stands."""

    HELD = "held"
    """Its run, or its step, has not committed."""
    QUEUED = "queued"
    """Released, behind another one with the same ordering key."""
    DUE = "due"
    """Released, and to be delivered at `due_us`."""
    CLAIMED = "claimed"
    """A worker has it."""
    DELIVERED = "delivered"
    DEAD = "dead"
    """It failed for good and waits for a human."""
    CANCELLED = "cancelled"
    DROPPED = "dropped"
    """A human gave it up."""


RELEASED = (IntentState.QUEUED, IntentState.DUE, IntentState.CLAIMED)
"""On their way: the next of an ordering key waits for these."""
GONE = (IntentState.CANCELLED, IntentState.DROPPED)
"""It will not be delivered any more."""


class IntentDeferred(Base, frozen=True, tag="intent-deferred"):
    """A run wants this to be sent once it has committed."""

    handler: str
    """A built-in name, or the function as `package.module:function`."""
    name: str
    key: str
    """Unique in its run."""
    action: str
    """What was at work."""
    delivery_key: str
    """What the receiver is given to know the same intent by."""
    about: str = ""
    """What it is, as a person would say it: `email to ann@example.org`."""
    arguments: Any = None
    full: str = ""
    """As with actions: the content that holds all of the arguments, where the view leaves something out."""
    intent: str = ""
    """The digest of what the key was given for."""
    order: str = ""
    """Intents with the same ordering key are delivered one after the other."""
    step: str = ""
    """The step at whose end it is released; else at the end of the run."""
    undo: str = ""
    check: str = ""
    timeout_s: float = 30.0
    tries: int = 12


class IntentsReleased(Base, frozen=True, tag="intents-released"):
    """Their run, or their step, has committed: from now on they may be delivered."""

    intents: tuple[str, ...]


class IntentAttempted(Base, frozen=True, tag="intent-attempted"):
    """An attempt failed; it is tried again at `again_us`."""

    intent: str
    attempt: int
    why: str
    again_us: int
    unsure: bool = False
    """Whether it may have been delivered all the same: no answer came, or the worker died."""


class IntentDelivered(Base, frozen=True, tag="intent-delivered"):
    intent: str
    attempt: int
    result: Any = None
    """What may be seen of what the receiver gave back."""
    found: bool = False
    """Whether it was not sent now, because its check found it delivered."""


class IntentDied(Base, frozen=True, tag="intent-died"):
    """The last attempt failed, or one that would never succeed."""

    intent: str
    attempt: int
    why: str
    unsure: bool = False


class IntentCancelled(Base, frozen=True, tag="intent-cancelled"):
    """It is not delivered any more. Where `unsure`, an earlier attempt may have been."""

    intent: str
    rollback: str = ""
    unsure: bool = False


class IntentRevived(Base, frozen=True, tag="intent-revived"):
    """A human wants a dead one to be tried again, from its first attempt on."""

    intent: str
    actor: str = ""


class IntentDropped(Base, frozen=True, tag="intent-dropped"):
    """A human gave a dead one up."""

    intent: str
    actor: str = ""
    why: str = ""


IntentEvent = (
    IntentDeferred
    | IntentsReleased
    | IntentAttempted
    | IntentDelivered
    | IntentDied
    | IntentCancelled
    | IntentRevived
    | IntentDropped
)
Word = IntentDelivered | IntentAttempted | IntentDied
"""What a worker says of an attempt."""

AFTER: dict[type, IntentState] = {
    IntentAttempted: IntentState.DUE,
    IntentDelivered: IntentState.DELIVERED,
    IntentDied: IntentState.DEAD,
    IntentCancelled: IntentState.CANCELLED,
    IntentRevived: IntentState.DUE,
    IntentDropped: IntentState.DROPPED,
}


class Queued(msgspec.Struct, frozen=True):
    """An intent as the outbox has it at one moment."""

    id: str
    run: str
    deferred: IntentDeferred
    deferred_us: int
    state: IntentState
    changed_us: int = 0
    due_us: int = 0
    attempts: int = 0
    """How many attempts have ended."""
    unsure: bool = False
    """Whether one of them had no answer, so that it may have been delivered."""
    fence: int = 0
    owner: str = ""
    begun: bool = False
    """Whether an attempt has begun under this claim."""
    live: bool = False
    """Whether the lease of its owner holds."""
    result: Any = None

    @property
    def busy(self) -> bool:
        """Whether it is being delivered at this moment, as far as is known."""
        return self.state is IntentState.CLAIMED and self.begun and self.live


class AttemptOutcome(msgspec.Struct, frozen=True):
    """What became of one attempt. The result is private, and kept with the intent."""

    queued: Queued
    word: Word
    result: Any = None


class Decided(msgspec.Struct, frozen=True):
    """What a human decided about a dead letter, and when."""

    seq: int
    at_us: int
    event: IntentRevived | IntentDropped


class Intent(msgspec.Struct, gc=False):
    """What is kept at hand of an intent: there may be very many, and the outbox has the rest."""

    id: str
    run: str
    about: str
    step: str
    intent: str
    full: str
    """As in IntentDeferred."""
    state: IntentState = IntentState.HELD


def change_of(id: str, deferred: IntentDeferred) -> Change:
    """The change that an intent is: it was not there, and now it is."""
    return Change(Target(RESOURCE, id), ABSENT, Version(f"intent:{deferred.delivery_key}"))


class Intents:
    """The intents of a workspace, folded from its journal."""

    def __init__(self) -> None:
        self.every: dict[str, Intent] = {}
        self.decided: list[Decided] = []
        self._keyed: dict[str, dict[str, tuple[str, ...]]] = {}
        self._texts: dict[str, str] = {}
        """What many have in common is kept once."""
        self._held: dict[str, dict[str, Intent]] = {}

    def apply(self, id: str, run: str, event: IntentEvent, seq: int = 0, at_us: int = 0) -> str:
        """Take in an event; gives what is wrong with it, if anything is."""
        if isinstance(event, IntentDeferred):
            run, about, step = (self._texts.setdefault(text, text) for text in (run, event.about, event.step))
            made = self.every[id] = Intent(id, run, about, step, event.intent, event.full)
            keyed = self._keyed.setdefault(run, {})
            keyed[event.key] = (*keyed.get(event.key, ()), id)
            self._held.setdefault(run, {})[id] = made
            return ""
        if isinstance(event, IntentsReleased):
            wrong = [name for name in event.intents if not self._move(name, IntentState.DUE)]
        else:
            wrong = [] if self._move(event.intent, AFTER[type(event)]) else [event.intent]
        if not wrong and isinstance(event, IntentRevived | IntentDropped):
            self.decided.append(Decided(seq, at_us, event))
        return f"there is no intent {wrong[0]} that {type(event).__name__} could follow" if wrong else ""

    def of_key(self, run: str, key: str) -> list[Intent]:
        """The intents of a run with this key, in order: more than one where one was cancelled."""
        return [self.every[id] for id in self._keyed.get(run, {}).get(key, ())]

    def held(self, run: str, step: str | None = None) -> list[Intent]:
        """What a run still holds; or what is released with one of its steps, by the step's name."""
        found = self._held.get(run, {}).values()
        return [intent for intent in found if step is None or intent.step == step]

    def _move(self, id: str, state: IntentState) -> bool:
        intent = self.every.get(id)
        if intent is None or intent.state in (
            IntentState.DELIVERED,
            IntentState.CANCELLED,
            IntentState.DROPPED,
        ):
            return False
        intent.state = state
        self._held.get(intent.run, {}).pop(id, None)
        return True
