"""The port of the outbox: what is to be sent once its run has committed. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from takeback.core.intents import AttemptOutcome, IntentState, Queued
from takeback.core.record import Record


class Outbox(Protocol):
    """The intents of a journal, to be delivered once they are released. Each operation is one transaction.

    An intent is created and released by an event in the journal: `Journal.append` updates the outbox in the same
    transaction. Every later change of its state is an event too, appended here. Any number of processes may work at
    once. Leases are measured by a clock that cannot be set, and each claim has a higher fence: a worker that has lost
    a claim cannot change anything.
    """

    def claim(self, owner: str, limit: int, lease_s: float, *, run: str = "") -> Sequence[Queued]:
        """Claim what is due, oldest first, at most `limit`; only the first of each ordering key.

        Expired claims of others are freed before: an attempt that had begun counts as one without an answer. With
        `run` only what that run deferred. Durable when this returns.
        """

    def start(self, queued: Sequence[Queued], *, begun: bool = True) -> frozenset[str]:
        """Record that their attempts begin now. Return the ids of those that may: still claimed by this fence.

        From here on a cancel waits for the end of the attempt. `begun=False` records that nothing was tried.
        """

    def renew(self, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        """Renew the claims. Return the ids of those that are still held."""

    def settle(self, outcomes: Sequence[AttemptOutcome]) -> frozenset[str]:
        """Record how attempts ended: delivered, to be tried again, or dead. Intents no longer claimed are skipped,
        and of two outcomes for one claim the first counts. Return the ids of those that were recorded."""

    def free(self, owner: str) -> int:
        """Free all claims of this owner, which is dead or ending. Return how many there were."""

    def cancel(self, id: str, rollback: str = "") -> Queued:
        """Cancel an intent if that is still possible. Return its state after that.

        While an attempt is being made (`busy`), nothing happens: call again.
        """

    def revive(self, id: str, actor: str = "") -> Queued:
        """Let a dead letter be tried again."""

    def drop(self, id: str, actor: str = "", why: str = "") -> Queued:
        """Discard a dead letter."""

    def get(self, id: str) -> Queued | None:
        """Return one intent."""

    def page(
        self, states: Sequence[IntentState] = ..., *, after: str = "", limit: int = 100, run: str = ""
    ) -> Sequence[Queued]:
        """Return intents in these states in the order in which they were deferred, starting behind `after`."""

    def attempts(self, id: str) -> Sequence[Record]:
        """Return the events that tell of its failed attempts, in order."""

    def counts(self) -> Mapping[IntentState, int]:
        """Return how many intents there are in each state."""

    def next_due_us(self) -> int:
        """Return when the next one is due, in microseconds since 1970; 0 if none is."""

    def owners(self) -> Sequence[str]:
        """Return the owners of claims."""
