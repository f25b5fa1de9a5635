"""The worker of the outbox: claim what is due, deliver it and record the outcome, until it is stopped.

One thread claims, begins, renews and records, all in batches; others deliver. A delivery that does not end in time
is given up: its thread is abandoned, and its later result is ignored.

As many attempts begin as there are threads, and a few more if deliveries are quick, so that no thread waits for the
next commit (`Pace`).

If the store becomes unreachable the worker waits. Whether the store carried out the last request (a claim, a begin)
is then unknown, so once the worker has nothing in hand it frees all claims that it may hold.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from takeback.core.events import Process
from takeback.core.intents import AFTER, AttemptOutcome, IntentAttempted, IntentDelivered, IntentDied, Queued
from takeback.engine.outbox.delivery import Delivery
from takeback.errors import BackendError
from takeback.ports.clock import Clock
from takeback.ports.outbox import Outbox
from takeback.system import crash_points, processes

CLAIMED = crash_points.crash_point("outbox-claimed")
STARTED = crash_points.crash_point("outbox-started")
SENT = crash_points.crash_point("outbox-sent")
SETTLED = crash_points.crash_point("outbox-settled")

LEASE_S = 60.0
TICK_S = 0.02
IDLE_S = 0.5
STALLED_S = 0.2
"""An attempt that began but got no thread for this long is marked as not begun."""
AWAY_S = 1.0
"""The pause between two tries to reach the store; each try itself waits too."""
LATE_S = 5.0
"""The time beyond its own timeout after which a delivery is given up."""


class Tally(msgspec.Struct):
    """The counts of a worker."""

    delivered: int = 0
    failed: int = 0
    dead: int = 0
    lost: int = 0
    """Deliveries whose claim another worker had by the time they ended."""


class Owner(msgspec.Struct, frozen=True):
    """The owner of a claim: a process, identified by more than its number, and a worker in it."""

    process: Process
    worker: str


Told = Callable[[AttemptOutcome], None]


class Worker:
    """One worker."""

    def __init__(
        self,
        outbox: Outbox,
        deliver: Delivery,
        clock: Clock,
        *,
        concurrency: int = 4,
        lease_s: float = LEASE_S,
        told: Told = lambda _: None,
        beat: Callable[[Tally], None] = lambda _: None,
        away: Callable[[BackendError], None] = lambda _: None,
    ) -> None:
        """Deliver intents of `outbox`. `told` is called with each recorded outcome, `beat` with the counts several
        times a second, and `away` when the store cannot be reached."""
        self.tally = Tally()
        self.stop = threading.Event()
        self._outbox = outbox
        self._deliver = deliver
        self._clock = clock
        self._concurrency = concurrency
        self._lease_s = lease_s
        self._told = told
        self._beat = beat
        self._away = away
        owner = Owner(processes.this_process(), secrets.token_hex(4))
        self._owner = msgspec.json.encode(owner).decode()
        self._pace = Pace(concurrency)
        self._claimed: deque[Queued] = deque()
        """Claimed, not begun."""
        self._work: queue.SimpleQueue[Queued | None] = queue.SimpleQueue()
        """Begun, and waiting for a thread."""
        self._done: queue.SimpleQueue[tuple[AttemptOutcome, float]] = queue.SimpleQueue()
        """Outcomes, and how long each delivery took."""
        self._news = threading.Event()
        self._held: dict[str, Queued] = {}
        self._taken: dict[str, float] = {}
        """The time at which a thread took each intent."""
        self._renewed = 0.0
        self._moved = 0.0
        """The time at which an attempt last began or ended."""
        self._threads = 0
        self._unsaid: list[AttemptOutcome] = []
        self._is_new = True
        self._strayed = False
        """True if the store may have claims of this worker that it does not know of."""

    def run(self, *, once: bool = False, run: str = "") -> Tally:
        """Deliver until `stop` is set; with `once`, until nothing is due now.

        If the store is unreachable the worker waits; with `once`, or after `stop` is set, that is an error.
        """
        try:
            while not self.stop.is_set() and self._goes_on(once=once, run=run):
                pass
            self._drain()
            self._outbox.free(self._owner)
        except BaseException as error:
            if isinstance(error, BackendError) and error.retryable:
                raise self._left_behind(error) from error  # its claims end with their lease
            self._outbox.free(self._owner)
            raise
        finally:
            for _ in range(self._threads):
                self._work.put(None)
        self._beat(self.tally)
        return self.tally

    def _goes_on(self, *, once: bool, run: str) -> bool:
        """Take one turn. Return False if nothing is left to do."""
        try:
            goes_on = self._turn(once=once, run=run)
            self._beat(self.tally)
            return goes_on
        except BackendError as error:
            if once or not error.retryable or self.stop.is_set():
                raise
            self._strayed = True
            self._away(error)
        self.stop.wait(AWAY_S)
        return True

    def _turn(self, *, once: bool, run: str) -> bool:
        """Claim, begin and record; wait if there is nothing to do now. Return False if nothing is left to do."""
        if self._is_new:
            bury(self._outbox)
            self._is_new = False
        if self._strayed and not self._held and not self._unsaid:
            self._outbox.free(self._owner)
            self._strayed = False
        came = self._claim(run) if len(self._held) <= self._pace.limit and not self._strayed else 0
        self._begin()
        ended = self._record(wait=bool(self._held))
        if self._held or came or ended:
            return True  # what has just ended may have made the next of its ordering key due
        if once and not self._strayed:
            return False
        bury(self._outbox)
        self.stop.wait(self._idle_s())
        return True

    def _claim(self, run: str) -> int:
        # Enough that no thread waits for a claim, and no more: other workers cannot deliver what is claimed here.
        limit = 2 * self._pace.limit - len(self._held)
        claimed = self._outbox.claim(self._owner, limit, self._lease_s, run=run)
        crash_points.reach(CLAIMED)
        self._held.update({queued.id: queued for queued in claimed})
        self._claimed.extend(claimed)
        return len(claimed)

    def _begin(self) -> None:
        """Record that attempts begin, and hand them to the threads."""
        begun, chosen = len(self._held) - len(self._claimed), list[Queued]()
        while self._claimed and self._pace.allows(self._claimed[0], begun + len(chosen)):
            chosen.append(self._claimed.popleft())
        if not chosen:
            return
        mine = self._start(chosen, begun=True)
        self._moved = time.monotonic()
        for queued in mine:
            self._work.put(queued)
        for _ in range(min(self._concurrency, begun + len(mine)) - self._threads):
            self._start_thread()

    def _take_back(self) -> list[Queued]:
        """Mark as not begun what no thread has taken yet, and return it."""
        found: list[Queued] = []
        try:
            while queued := self._work.get_nowait():
                found.append(queued)
        except queue.Empty:
            pass
        return self._start(found, begun=False)

    def _start(self, every: list[Queued], *, begun: bool) -> list[Queued]:
        """Record that these attempts begin, or have not begun. Return those still claimed; forget the rest."""
        mine: frozenset[str] = frozenset()
        try:
            mine = self._outbox.start(every, begun=begun) if every else mine
        finally:
            # All of them if the store is unreachable: what it has recorded is unknown.
            for queued in every:
                if queued.id not in mine:
                    self._let_go(queued.id)
        return [queued for queued in every if queued.id in mine]

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._deliver_all, name="takeback-courier", daemon=True).start()

    def _deliver_all(self) -> None:
        """Deliver intents until the queue holds None: the body of a thread."""
        while (queued := self._work.get()) is not None:
            self._taken[queued.id] = began = time.monotonic()
            crash_points.reach(STARTED)
            outcome = self._deliver(queued)
            crash_points.reach(SENT)
            self._done.put((outcome, time.monotonic() - began))
            if self._work.qsize() <= self._pace.low and not self._news.is_set():
                self._news.set()

    def _record(self, *, wait: bool) -> int:
        """Record outcomes, renew the other claims, give up what takes too long. Return how many ended."""
        outcomes = self._ended(wait=wait)
        ended = len(outcomes)
        outcomes += [self._late(id) for id in self._too_late()]
        for outcome in outcomes:
            self._let_go(outcome.queued.id)
        self._unsaid += outcomes
        if self._unsaid:
            settled = self._outbox.settle(self._unsaid) | self._settled_before()
            crash_points.reach(SETTLED)
            said, self._unsaid = self._unsaid, []
            for outcome in said:
                self._count(outcome, settled=outcome.queued.id in settled)
        now = time.monotonic()
        if outcomes:
            self._moved = now
        elif now - self._moved > STALLED_S and self._work.qsize():
            self._pace.stalled()
            self._claimed.extendleft(reversed(self._take_back()))
        if self._held and now - self._renewed > self._lease_s / 3:
            self._renewed = now
            self._outbox.renew(list(self._held.values()), self._lease_s)
        return ended

    def _settled_before(self) -> frozenset[str]:
        """Return the outcomes that the store recorded although its answer was lost."""
        said = self._unsaid if self._strayed else []
        return frozenset(one.queued.id for one in said if _is_recorded(self._outbox.get(one.queued.id), one))

    def _left_behind(self, error: BackendError) -> BackendError:
        """Return the error for a worker that ends while the store is unreachable, with what it had in hand."""
        count = len(self._held) + len(self._unsaid)
        if not count:
            return error
        what = "an intent was" if count == 1 else f"{count} intents were"
        return BackendError(
            f"{error.message}. Meanwhile {what} being delivered, and will be delivered again with the same key",
            hint=error.hint,
            retryable=True,
        )

    def _let_go(self, id: str) -> None:
        self._held.pop(id, None)
        self._taken.pop(id, None)

    def _ended(self, *, wait: bool) -> list[AttemptOutcome]:
        """Return the outcomes of intents that are still claimed."""
        found: list[AttemptOutcome] = []
        if wait:
            self._news.wait(TICK_S)
            self._news.clear()
        try:
            while True:
                outcome, took_s = self._done.get_nowait()
                if self._held.get(outcome.queued.id) is outcome.queued:
                    self._pace.took(took_s)
                    found.append(outcome)
        except queue.Empty:
            return found

    def _too_late(self) -> list[str]:
        now = time.monotonic()
        return [
            id
            for id, since in list(self._taken.items())
            if id in self._held and now - since > self._held[id].deferred.timeout_s + LATE_S
        ]

    def _late(self, id: str) -> AttemptOutcome:
        # Its thread may never come back: start another in its place.
        self._start_thread()
        return self._deliver.late(self._held[id])

    def _count(self, outcome: AttemptOutcome, *, settled: bool) -> None:
        if not settled:
            self.tally.lost += 1
            return
        match outcome.word:
            case IntentDelivered():
                self.tally.delivered += 1
            case IntentAttempted():
                self.tally.failed += 1
            case IntentDied():
                self.tally.dead += 1
        self._told(outcome)

    def _drain(self) -> None:
        """Wait for the deliveries that a thread has taken, and drop the rest.

        Outcomes that the store did not record while it was away are recorded now: else they would be delivered again.
        """
        for queued in [*self._claimed, *self._take_back()]:
            self._let_go(queued.id)
        self._claimed.clear()
        while self._held or self._unsaid:
            self._record(wait=bool(self._held))

    def _idle_s(self) -> float:
        due_us = self._outbox.next_due_us()
        left_s = (due_us - self._clock.now_us()) / 1e6 if due_us else IDLE_S
        return min(IDLE_S, max(TICK_S, left_s))


def bury(outbox: Outbox) -> None:
    """Free the claims of dead workers on this machine, so that they need not expire first."""
    for owner in outbox.owners():
        try:
            process = msgspec.json.decode(owner, type=Owner).process
        except msgspec.DecodeError:
            continue  # not one of ours; its lease will expire
        if process.host == processes.this_process().host and not processes.is_alive(process):
            outbox.free(owner)


def _is_recorded(found: Queued | None, outcome: AttemptOutcome) -> bool:
    """Return whether the outcome is recorded and the intent was not claimed again since."""
    word, queued = outcome.word, outcome.queued
    if found is None or found.fence != queued.fence:
        return False
    return (found.state, found.attempts) == (AFTER[type(word)], word.attempt)


AHEAD_S = 0.02
AHEAD_MAX = 100
_WEIGHT = 1 / 8


class Pace:
    """The number of attempts to begin ahead, from how long deliveries take."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._mean_s = 0.0
        self._ahead = 0

    def took(self, seconds: float) -> None:
        """Note how long one delivery took."""
        self._mean_s += (seconds - self._mean_s) * (_WEIGHT if self._mean_s else 1)
        self._ahead = min(AHEAD_MAX, int(self._concurrency * AHEAD_S / max(self._mean_s, 1e-6)))

    def stalled(self) -> None:
        """Stop beginning ahead until a delivery has ended: attempts found no thread."""
        self._mean_s, self._ahead = AHEAD_S * self._concurrency * 2, 0

    @property
    def limit(self) -> int:
        """The most attempts that may have begun at a time."""
        return self._concurrency + self._ahead

    @property
    def low(self) -> int:
        """If at most this many attempts wait for a thread, it is time to begin more."""
        return self._ahead // 2

    def allows(self, queued: Queued, begun: int) -> bool:
        """Return whether this attempt may begin when `begun` others have."""
        return begun < self._concurrency or (not queued.attempts and begun < self.limit)
