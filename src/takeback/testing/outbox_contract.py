"""The contract of the `Outbox` port, as a test suite that any implementation can run.

Say how to open yours, and pytest does the rest:

    class TestMyOutbox(OutboxContract):
        def open(self, where: Path) -> Journal:
            return MyJournal(where / "journal")

The outbox is that of the journal, `journal.outbox`.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from takeback.core import ids
from takeback.core.events import RunBegan
from takeback.core.intents import (
    AttemptOutcome,
    IntentAttempted,
    IntentCancelled,
    IntentDeferred,
    IntentDelivered,
    IntentDied,
    IntentDropped,
    IntentRevived,
    IntentState,
)
from takeback.errors import UsageError
from takeback.ports.journal import Journal
from takeback.ports.outbox import Outbox
from takeback.testing.intents import (
    LONG_S,
    SHORT_S,
    claimed_again,
    defer,
    delivered,
    intent,
    names,
    release,
    released,
    state,
)
from takeback.testing.of_journal import OfJournal

WORKERS = 4


class OutboxContract(OfJournal):
    """Subclass it, with a name that pytest collects."""

    @pytest.fixture
    def outbox(self, journal: Journal) -> Outbox:
        return journal.outbox

    # Coming into being

    def test_nothing_is_due_before_it_is_released(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = defer(journal, 1)
        assert outbox.claim("me", 10, LONG_S) == []
        assert state(outbox, id) is IntentState.HELD
        release(journal, [id])
        (queued,) = outbox.claim("me", 10, LONG_S)
        assert (queued.id, queued.state, queued.owner, queued.attempts) == (id, IntentState.CLAIMED, "me", 0)
        assert queued.deferred.arguments == {"args": [0], "kwargs": {}}

    def test_what_is_not_written_is_not_there(self, journal: Journal, outbox: Outbox) -> None:
        wrong = IntentDeferred("h", "h", "k", "a1", "d", arguments=object())
        with pytest.raises(UsageError):
            journal.append([RunBegan("run"), intent(1), wrong], stream="")
        assert outbox.counts() == {}
        assert outbox.page() == []

    def test_releasing_twice_is_releasing_once(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = defer(journal, 1)
        release(journal, [id])
        (queued,) = outbox.claim("me", 1, LONG_S)
        outbox.start([queued])
        outbox.settle([delivered(queued)])
        release(journal, [id])
        assert state(outbox, id) is IntentState.DELIVERED

    # Claims

    def test_the_oldest_come_first_and_no_more_than_asked_for(self, journal: Journal, outbox: Outbox) -> None:
        every = released(journal, 5)
        assert names(outbox.claim("me", 2, LONG_S)) == every[:2]
        assert names(outbox.claim("you", 10, LONG_S)) == every[2:]
        assert outbox.claim("me", 10, LONG_S) == []
        assert sorted(outbox.owners()) == ["me", "you"]

    def test_one_run_alone(self, journal: Journal, outbox: Outbox) -> None:
        first, second = released(journal, 2), released(journal, 2)
        run = outbox.get(second[0])
        assert run
        assert names(outbox.claim("me", 10, LONG_S, run=run.run)) == second
        assert names(outbox.claim("me", 10, LONG_S)) == first

    def test_each_is_claimed_once_by_many_at_a_time(self, journal: Journal, outbox: Outbox) -> None:
        every = released(journal, 60)

        def work(n: int) -> list[str]:
            mine: list[str] = []
            while claimed := outbox.claim(f"worker {n}", 3, LONG_S):
                mine += names(claimed)
                assert outbox.start(claimed) == frozenset(names(claimed))
                outbox.settle([delivered(queued) for queued in claimed])
            return mine

        with ThreadPoolExecutor(WORKERS) as pool:
            taken = [id for mine in pool.map(work, range(WORKERS)) for id in mine]
        assert sorted(taken) == sorted(every)
        assert outbox.counts()[IntentState.DELIVERED] == 60

    def test_a_lease_that_ran_out_frees_what_was_not_begun(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = released(journal, 1)
        (old,) = outbox.claim("slow", 1, SHORT_S)
        new = claimed_again(outbox, id)
        assert new.fence > old.fence
        assert (new.attempts, new.unsure) == (0, False)
        # Whoever lost it changes nothing any more.
        assert (
            outbox.start([old])
            == outbox.renew([old], LONG_S)
            == outbox.settle([delivered(old)])
            == frozenset()
        )
        assert state(outbox, id) is IntentState.CLAIMED
        assert outbox.start([new]) == {id}

    def test_an_attempt_that_began_and_lapsed_counts_as_one_without_an_answer(
        self, journal: Journal, outbox: Outbox
    ) -> None:
        (id,) = released(journal, 1)
        outbox.start(outbox.claim("slow", 1, SHORT_S))
        new = claimed_again(outbox, id)
        assert (new.attempts, new.unsure) == (1, True)
        (record,) = outbox.attempts(id)
        assert isinstance(record.event, IntentAttempted)
        assert record.event.unsure

    def test_what_kills_its_workers_dies_after_its_last_attempt(
        self, journal: Journal, outbox: Outbox
    ) -> None:
        (id,) = released(journal, 1, tries=2)
        for n in range(2):
            outbox.start(outbox.claim(f"worker {n}", 1, LONG_S))
            assert outbox.free(f"worker {n}") == 1
        assert state(outbox, id) is IntentState.DEAD
        assert isinstance(outbox.attempts(id)[-1].event, IntentDied)

    def test_a_renewed_lease_holds(self, journal: Journal, outbox: Outbox) -> None:
        released(journal, 1)
        claimed = outbox.claim("me", 1, SHORT_S)
        assert outbox.renew(claimed, LONG_S) == frozenset(names(claimed))
        time.sleep(2 * SHORT_S)
        assert outbox.claim("you", 1, LONG_S) == []

    def test_freeing_gives_back_only_ones_own(self, journal: Journal, outbox: Outbox) -> None:
        first, second = released(journal, 2)
        outbox.claim("me", 1, LONG_S)
        outbox.claim("you", 1, LONG_S)
        assert outbox.free("me") == 1
        assert (state(outbox, first), state(outbox, second)) == (IntentState.DUE, IntentState.CLAIMED)

    # Outcomes

    def test_delivered_is_recorded_with_its_result(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = released(journal, 1)
        (queued,) = outbox.claim("me", 1, LONG_S)
        outbox.start([queued])
        before = journal.head().count
        word = IntentDelivered(id, 1, {"id": "[hidden]"})
        assert outbox.settle([AttemptOutcome(queued, word, {"id": "secret"})]) == {id}
        (record,) = journal.read(after=before)
        assert (record.event, record.stream) == (word, ids.WORKSPACE)
        found = outbox.get(id)
        assert found
        assert (found.state, found.result, found.attempts) == (IntentState.DELIVERED, {"id": "secret"}, 1)

    def test_a_claim_ends_once(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = released(journal, 1)
        (queued,) = outbox.claim("me", 1, LONG_S)
        outbox.start([queued])
        late = AttemptOutcome(queued, IntentAttempted(id, 1, "too late", 0, unsure=True))
        assert outbox.settle([delivered(queued), late]) == {id}
        assert outbox.settle([late]) == frozenset()
        assert (state(outbox, id), outbox.attempts(id)) == (IntentState.DELIVERED, [])

    def test_tried_again_when_its_time_has_come(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = released(journal, 1)
        (queued,) = outbox.claim("me", 1, LONG_S)
        outbox.start([queued])
        later = queued.due_us + 10**12
        outbox.settle([AttemptOutcome(queued, IntentAttempted(id, 1, "busy", later))])
        assert outbox.claim("me", 1, LONG_S) == []
        found = outbox.get(id)
        assert found
        assert (found.state, found.due_us, found.attempts, found.unsure) == (IntentState.DUE, later, 1, False)
        assert (outbox.counts(), outbox.next_due_us()) == ({IntentState.DUE: 1}, later)

    def test_a_dead_letter_is_revived_or_dropped(self, journal: Journal, outbox: Outbox) -> None:
        first, second = released(journal, 2)
        for queued in outbox.claim("me", 2, LONG_S):
            outbox.start([queued])
            outbox.settle([AttemptOutcome(queued, IntentDied(queued.id, 1, "no such place"))])
        assert names(outbox.page([IntentState.DEAD])) == [first, second]
        assert outbox.revive(first, "ann").state is IntentState.DUE
        assert outbox.drop(second, "ann", "not needed").state is IntentState.DROPPED
        assert names(outbox.claim("me", 2, LONG_S)) == [first]
        words = [record.event for record in journal.read()][-2:]
        assert words == [IntentRevived(first, "ann"), IntentDropped(second, "ann", "not needed")]
        assert [record.event.why for record in outbox.attempts(first)] == ["no such place"]  # type: ignore[union-attr]

    def test_only_the_dead_are_revived_or_dropped(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = released(journal, 1)
        for do in (outbox.revive, outbox.drop):
            with pytest.raises(UsageError, match="not a dead letter"):
                do(id)
            with pytest.raises(UsageError, match="there is no intent"):
                do("i999")

    # Cancelling

    def test_cancelled_before_and_after_its_release(self, journal: Journal, outbox: Outbox) -> None:
        (held,), (due,) = defer(journal, 1), released(journal, 1)
        for id in (held, due):
            assert outbox.cancel(id, "a9").state is IntentState.CANCELLED
            assert outbox.cancel(id, "a9").state is IntentState.CANCELLED
        words = [r.event for r in journal.read() if isinstance(r.event, IntentCancelled)]
        assert words == [IntentCancelled(held, "a9"), IntentCancelled(due, "a9")]
        release(journal, [held])
        assert outbox.claim("me", 2, LONG_S) == []

    def test_a_claim_that_has_not_begun_is_taken_away(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = released(journal, 1)
        (queued,) = outbox.claim("me", 1, LONG_S)
        assert outbox.cancel(id).state is IntentState.CANCELLED
        assert outbox.start([queued]) == outbox.settle([delivered(queued)]) == frozenset()
        assert state(outbox, id) is IntentState.CANCELLED

    def test_what_is_being_delivered_is_not_cancelled(self, journal: Journal, outbox: Outbox) -> None:
        (id,) = released(journal, 1)
        (queued,) = outbox.claim("me", 1, LONG_S)
        outbox.start([queued])
        found = outbox.cancel(id)
        assert found.busy and found.state is IntentState.CLAIMED
        outbox.settle([delivered(queued)])
        assert outbox.cancel(id).state is IntentState.DELIVERED

    def test_cancelled_after_an_attempt_without_an_answer_is_in_doubt(
        self, journal: Journal, outbox: Outbox
    ) -> None:
        (id,) = released(journal, 1)
        (queued,) = outbox.claim("me", 1, LONG_S)
        outbox.start([queued])
        outbox.settle([AttemptOutcome(queued, IntentAttempted(id, 1, "no answer", 10**18, unsure=True))])
        found = outbox.cancel(id)
        assert (found.state, found.unsure) == (IntentState.CANCELLED, True)

    def test_of_cancel_and_start_one_wins(self, journal: Journal, outbox: Outbox) -> None:
        every = released(journal, 40)
        claimed = outbox.claim("me", 40, LONG_S)
        barrier = threading.Barrier(2)

        def start() -> frozenset[str]:
            barrier.wait()
            return frozenset(id for queued in claimed for id in outbox.start([queued]))

        def cancel() -> frozenset[str]:
            barrier.wait()
            return frozenset(id for id in reversed(every) if outbox.cancel(id).state is IntentState.CANCELLED)

        with ThreadPoolExecutor(2) as pool:
            begun, gone = pool.submit(start), pool.submit(cancel)
            assert begun.result().isdisjoint(gone.result())
            assert begun.result() | gone.result() == frozenset(every)

    # Order

    def test_one_at_a_time_for_each_ordering_key(self, journal: Journal, outbox: Outbox) -> None:
        a, b = released(journal, 3, order="a"), released(journal, 2, order="b")
        done: list[str] = []
        while claimed := outbox.claim("me", 10, LONG_S):
            assert len(claimed) <= 2
            outbox.start(claimed)
            outbox.settle([delivered(queued) for queued in claimed])
            done += names(claimed)
        assert [id for id in done if id in a] == a
        assert [id for id in done if id in b] == b

    def test_the_next_waits_for_a_retry_and_not_for_the_dead(self, journal: Journal, outbox: Outbox) -> None:
        first, second, third = released(journal, 3, order="a")
        (queued,) = outbox.claim("me", 10, LONG_S)
        outbox.start([queued])
        outbox.settle([AttemptOutcome(queued, IntentAttempted(first, 1, "busy", 0))])
        (queued,) = outbox.claim("me", 10, LONG_S)
        assert queued.id == first
        outbox.start([queued])
        outbox.settle([AttemptOutcome(queued, IntentDied(first, 2, "no"))])
        assert outbox.cancel(second).state is IntentState.CANCELLED
        assert names(outbox.claim("me", 10, LONG_S)) == [third]

    def test_order_is_that_of_release(self, journal: Journal, outbox: Outbox) -> None:
        (early,), (late,) = defer(journal, 1, order="a"), defer(journal, 1, order="a")
        release(journal, [late])
        release(journal, [early])
        (queued,) = outbox.claim("me", 10, LONG_S)
        assert queued.id == late
        outbox.start([queued])
        outbox.settle([delivered(queued)])
        assert names(outbox.claim("me", 10, LONG_S)) == [early]

    def test_a_revived_one_goes_to_the_end(self, journal: Journal, outbox: Outbox) -> None:
        first, second = released(journal, 2, order="a")
        (queued,) = outbox.claim("me", 1, LONG_S)
        outbox.start([queued])
        outbox.settle([AttemptOutcome(queued, IntentDied(first, 1, "no"))])
        assert outbox.revive(first).state is IntentState.QUEUED
        assert names(outbox.claim("me", 10, LONG_S)) == [second]

    # Looking

    def test_pages(self, journal: Journal, outbox: Outbox) -> None:
        every = defer(journal, 5)
        assert names(outbox.page(limit=2)) == every[:2]
        assert names(outbox.page(after=every[1], limit=2)) == every[2:4]
        assert outbox.page([IntentState.DEAD]) == []
        assert outbox.get("i9999") is None
        assert (outbox.counts(), outbox.next_due_us()) == ({IntentState.HELD: 5}, 0)

    # Many at once

    def test_a_batch_makes_the_next_of_each_key_due(self, journal: Journal, outbox: Outbox) -> None:
        every = {key: released(journal, 3, order=key) for key in ("a", "b", "c")}
        loose = released(journal, 2)
        claimed = outbox.claim("me", 10, LONG_S)
        assert names(claimed) == [*(ids[0] for ids in every.values()), *loose]
        a, b, c, *others = claimed
        again = AttemptOutcome(c, IntentAttempted(c.id, 1, "busy", 0))
        dead = AttemptOutcome(b, IntentDied(b.id, 1, "no"))
        assert len(outbox.settle([delivered(a), dead, again, *map(delivered, others)])) == 5
        assert names(outbox.claim("me", 10, LONG_S)) == [every["c"][0], every["a"][1], every["b"][1]]

    def test_two_events_of_one_intent_in_one_append(self, journal: Journal, outbox: Outbox) -> None:
        first, second = released(journal, 2, order="o")
        died, dropped = IntentDied(first, 1, "no"), IntentDropped(first)
        journal.append([died, dropped, IntentCancelled(second)], stream=ids.WORKSPACE)
        assert [state(outbox, id) for id in (first, second)] == [IntentState.DROPPED, IntentState.CANCELLED]
        assert len(outbox.attempts(first)) == 1

    def test_what_began_and_was_not_tried_has_not_begun(self, journal: Journal, outbox: Outbox) -> None:
        one, two = released(journal, 2)
        claimed = outbox.claim("me", 2, LONG_S)
        assert outbox.start(claimed) == {one, two}
        assert outbox.start(claimed, begun=False) == {one, two}
        assert outbox.cancel(one).state is IntentState.CANCELLED
        assert outbox.start(claimed, begun=False) == {two}
        assert outbox.free("me") == 1
        (queued,) = outbox.claim("you", 2, LONG_S)
        assert (queued.id, queued.attempts, queued.unsure) == (two, 0, False)
