"""The port of the outbox: what is to be sent once its run has committed. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from takeback.core.intents import AttemptOutcome, IntentState, Queued
from takeback.core.record import Record


class Outbox(Protocol):
    """The intents of a journal, to be delivered once they are released. Each operation is one transaction.

    An intent comes into being, and is released, by an event in the journal: `Journal.append` lets the outbox follow
    in the same transaction. Every later change of its life is an event too, appended here. Any number of processes
    may work at once. A lease is told by a clock that nobody sets, and each claim has a higher fence: whoever has
    lost a claim changes nothing.
    """

    def claim(self, owner: str, limit: int, lease_s: float, *, run: str = "") -> Sequence[Queued]:
        """Take what is due, oldest first, at most `limit`; of each ordering key only the first.

        What others hold beyond their lease is given up before: an attempt that had begun counts as one without
        an answer. With `run` only what that run deferred. Durable when this returns.
        """

    def start(self, queued: Sequence[Queued], *, begun: bool = True) -> frozenset[str]:
        """Say that their attempts begin now; gives the ids of those that may: still claimed by this fence.

        From here on a cancel waits for the end of the attempt. `begun=False` says that nothing was tried after all.
        """

    def renew(self, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        """Hold them longer; gives the ids of those that are still held."""

    def settle(self, outcomes: Sequence[AttemptOutcome]) -> frozenset[str]:
        """Record how attempts ended: delivered, to be tried again, or dead. Those that are not held any more are
        left out, and of two on one claim the first counts. Gives the ids of those that were recorded."""

    def free(self, owner: str) -> int:
        """Give up all that this owner holds, because it is gone or is ending; gives how many that were."""

    def cancel(self, id: str, rollback: str = "") -> Queued:
        """Let it never be delivered, if that is still possible; gives how it stands then.

        While an attempt is being made (`busy`), nothing happens: ask again.
        """

    def revive(self, id: str, actor: str = "") -> Queued:
        """Let a dead one be tried again."""

    def drop(self, id: str, actor: str = "", why: str = "") -> Queued:
        """Give a dead one up."""

    def get(self, id: str) -> Queued | None:
        """One intent."""

    def page(
        self, states: Sequence[IntentState] = ..., *, after: str = "", limit: int = 100, run: str = ""
    ) -> Sequence[Queued]:
        """Intents in these states in the order in which they were deferred, from behind `after` on."""

    def attempts(self, id: str) -> Sequence[Record]:
        """The events that tell of its failed attempts, in order."""

    def counts(self) -> Mapping[IntentState, int]:
        """How many intents there are in each state."""

    def next_due_us(self) -> int:
        """When the next one is due, in microseconds since 1970; 0 where none is."""

    def owners(self) -> Sequence[str]:
        """Who holds claims."""
