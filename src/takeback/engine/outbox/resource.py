"""The outbox as a resource: a pending intent is cancelled, a delivered one is compensated if its handler can.
Otherwise the report says that it cannot be taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.events import Did, Mark
from takeback.core.intents import GONE, RESOURCE, IntentState, Queued
from takeback.core.rollback import Do
from takeback.engine.outbox.delivery import known
from takeback.errors import BackendError, CorruptionError
from takeback.ports.outbox import Outbox
from takeback.ports.resource import Latest, Swap, Swapped, Traits
from takeback.resources.calls.resource import Call, look, undone
from takeback.system import crash_points

POLL_S = 0.01
GRACE_S = 5.0

CANCELLING = crash_points.crash_point("outbox-cancelling")
CANCELLED = crash_points.crash_point("outbox-cancelled")


class OutboxResource:
    """The resource of intents."""

    name = RESOURCE
    traits = Traits(external=True)

    def __init__(
        self,
        outbox: Outbox,
        latest: Latest,
        call: Callable[[Queued], Call],
        bury: Callable[[], None],
    ) -> None:
        """Take back intents in `outbox`. `bury` frees the claims of dead workers."""
        self._outbox = outbox
        self._latest = latest
        self._call = call
        self._bury = bury

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        return {target: self._present(target) for target in targets}

    def _present(self, target: Target) -> Version:
        recorded = self._latest(target)
        queued = self._outbox.get(target.name) if recorded else None
        if queued is None:
            return ABSENT
        if queued.state not in GONE:
            return recorded
        # An intent cancelled after an attempt without an answer may still have been delivered.
        return Version(recorded.id, data={"in_doubt": True}) if queued.unsure else ABSENT

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        return "an intent cannot be merged"

    def tell(self, change: Change, *, back: bool) -> str:
        queued = self._outbox.get(change.target.name)
        if queued is None:
            return ""
        return queued.deferred.about if back else f"deferred {queued.deferred.about} ({queued.id})"

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        return {swap.target: self._foresee(swap) for swap in swaps}

    def _foresee(self, swap: Swap) -> tuple[Do, str]:
        if swap.goal:
            return Do.LEAVE, "an intent is never sent again by a redo"
        queued = self._outbox.get(swap.target.name)
        assert queued is not None
        if queued.state is IntentState.DELIVERED:
            if queued.deferred.undo:
                return Do.COMPENSATE, f"it was delivered {_at(queued.changed_us)}"
            return Do.LEAVE, self._final(queued)
        if queued.state in GONE and not queued.deferred.check:
            return Do.LEAVE, self._unsure(queued)
        return Do.CANCEL, ""

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        return [self._take_back(swap, rollback) for swap in swaps]

    def _take_back(self, swap: Swap, rollback: str) -> Swapped:
        crash_points.reach(CANCELLING)
        queued = self._cancelled(swap.target.name, rollback)
        crash_points.reach(CANCELLED)
        if queued.state is IntentState.DELIVERED:
            return self._compensated(swap, queued)
        if queued.busy:
            why = f"{queued.deferred.about} is being delivered, and the outcome is not known yet"
            return Swapped(swap.target, Did.UNVERIFIABLE, swap.present, verified=False, why=why)
        if queued.unsure:
            return self._doubted(swap, queued)
        return Swapped(swap.target, Did.CANCELLED, ABSENT, verified=True)

    def _cancelled(self, id: str, rollback: str) -> Queued:
        """Cancel an intent. Wait for a running attempt, which ends with its timeout at the latest."""
        queued = self._outbox.cancel(id, rollback)
        deadline = time.monotonic() + queued.deferred.timeout_s + GRACE_S
        while queued.busy and time.monotonic() < deadline:
            time.sleep(POLL_S)
            self._bury()
            queued = self._outbox.cancel(id, rollback)
        return queued

    def _compensated(self, swap: Swap, queued: Queued) -> Swapped:
        if not queued.deferred.undo:
            return Swapped(swap.target, Did.KEPT, swap.present, verified=False, why=self._final(queued))
        try:
            call = self._call(queued)
        except CorruptionError as error:
            why = f"its arguments are lost, so no handler can be called: {error.message}"
            return Swapped(swap.target, Did.FAILED, swap.present, verified=False, why=why)
        return undone(swap, known(queued, call))

    def _doubted(self, swap: Swap, queued: Queued) -> Swapped:
        """Let the check decide about an intent that an attempt without an answer may have delivered."""
        if queued.deferred.check:
            try:
                if look(known(queued, self._call(queued))) is ABSENT:
                    return Swapped(swap.target, Did.CANCELLED, ABSENT, verified=True)
            except (BackendError, CorruptionError):
                pass  # still unknown, as reported below
            else:
                return self._compensated(swap, queued)
        why = self._unsure(queued)
        return Swapped(swap.target, Did.UNVERIFIABLE, swap.present, verified=False, why=why)

    def _final(self, queued: Queued) -> str:
        return f"{queued.deferred.about} was delivered {_at(queued.changed_us)} and cannot be taken back"

    def _unsure(self, queued: Queued) -> str:
        # Its attempt had no answer, or an inconclusive one: a command that failed may have sent it before.
        return f"{queued.deferred.about} was cancelled, but an attempt before that may have delivered it"


def _at(us: int) -> str:
    """Return a time as text for people, in local time."""
    then, now = time.localtime(us // 10**6), time.localtime()
    return time.strftime("at %H:%M" if then[:3] == now[:3] else "on %Y-%m-%d at %H:%M", then)
