"""Intents: messages and calls that a run wants sent once it has committed, and their fate.

An intent is held until its run, or its step, commits. Then it is released and delivered by a worker, or dies after
its last attempt. A rollback cancels it if it has not been delivered yet.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.event_base import Base

RESOURCE = "outbox"


class IntentState(StrEnum):
    """The state of an intent."""

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
    """A human discarded it."""


RELEASED = (IntentState.QUEUED, IntentState.DUE, IntentState.CLAIMED)
"""On the way: the next intent with the same ordering key waits for these."""
GONE = (IntentState.CANCELLED, IntentState.DROPPED)
"""States in which an intent will never be delivered."""


class IntentDeferred(Base, frozen=True, tag="intent-deferred"):
    """A run wants this to be sent once it has committed."""

    handler: str
    """A built-in name, or the function as `package.module:function`."""
    name: str
    key: str
    """Unique in its run."""
    action: str
    """The action that deferred it."""
    delivery_key: str
    """The idempotency key that the receiver gets."""
    about: str = ""
    """A short description for people: `email to ann@example.org`."""
    arguments: Any = None
    full: str = ""
    """As with actions: the blob with all arguments, if `arguments` leaves something out."""
    intent: str = ""
    """The digest of what the key was used for."""
    order: str = ""
    """Intents with the same ordering key are delivered one after the other."""
    step: str = ""
    """The step at whose end it is released; if empty, it is released at the end of the run."""
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
    """True if it may have been delivered nevertheless: no answer came, or the worker died."""


class IntentDelivered(Base, frozen=True, tag="intent-delivered"):
    intent: str
    attempt: int
    result: Any = None
    """The receiver's answer, with secrets redacted."""
    found: bool = False
    """True if it was not sent now because its check found it delivered already."""


class IntentDied(Base, frozen=True, tag="intent-died"):
    """The last attempt failed, or one failed in a way that retrying cannot fix."""

    intent: str
    attempt: int
    why: str
    unsure: bool = False


class IntentCancelled(Base, frozen=True, tag="intent-cancelled"):
    """The intent will not be delivered. If `unsure`, an earlier attempt may have delivered it."""

    intent: str
    rollback: str = ""
    unsure: bool = False


class IntentRevived(Base, frozen=True, tag="intent-revived"):
    """A human wants a dead letter tried again, counting from the first attempt."""

    intent: str
    actor: str = ""


class IntentDropped(Base, frozen=True, tag="intent-dropped"):
    """A human discarded a dead letter."""

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
"""What a worker reports about an attempt."""

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
    """True if one of them got no answer, so that it may have been delivered."""
    fence: int = 0
    owner: str = ""
    begun: bool = False
    """True if an attempt has begun under this claim."""
    live: bool = False
    """True while the lease of its owner is valid."""
    result: Any = None

    @property
    def busy(self) -> bool:
        """True if, as far as is known, it is being delivered right now."""
        return self.state is IntentState.CLAIMED and self.begun and self.live


class AttemptOutcome(msgspec.Struct, frozen=True):
    """The outcome of one attempt. The result is private and stored with the intent."""

    queued: Queued
    word: Word
    result: Any = None


class Decided(msgspec.Struct, frozen=True):
    """A human's decision about a dead letter, and when it was made."""

    seq: int
    at_us: int
    event: IntentRevived | IntentDropped


class Intent(msgspec.Struct, gc=False):
    """The part of an intent kept in memory: there may be very many, and the outbox has the rest."""

    id: str
    run: str
    about: str
    step: str
    key: str
    intent: str
    full: str
    """As in IntentDeferred."""
    state: IntentState = IntentState.HELD


def change_of(id: str, deferred: IntentDeferred) -> Change:
    """Return the change that deferring an intent makes: from absent to present."""
    return Change(Target(RESOURCE, id), ABSENT, Version(f"intent:{deferred.delivery_key}"))
