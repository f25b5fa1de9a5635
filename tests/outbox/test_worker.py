"""Workers: nothing blocks others, retries wait longer each time, order is kept, an end is graceful."""

from __future__ import annotations

import threading

import apsw
import pytest

from takeback.core.intents import AttemptOutcome, IntentAttempted, IntentDied, IntentState, Queued
from takeback.engine.outbox import metrics
from takeback.engine.outbox.delivery import Delivery, Manner
from takeback.engine.outbox.service import ServiceListener
from takeback.engine.outbox.worker import Worker
from takeback.system.clock import SystemClock
from tests.outbox import tools
from tests.outbox.conftest import Place


def test_one_that_fails_is_tried_again_and_dies_after_its_last_attempt(place: Place) -> None:
    with place.tb.run("fail") as run:
        id = run.defer(tools.fail, "a", tries=4)
    while place.states() != [IntentState.DEAD]:
        place.deliver()
    *failed, died = [record.event for record in place.tb.outbox.attempts(id)]
    assert [event.attempt for event in failed if isinstance(event, IntentAttempted)] == [1, 2, 3]
    assert isinstance(died, IntentDied) and died.attempt == 4
    assert "ConnectionRefusedError: a" in died.why
    assert len(tools.said()) == 4


def test_pauses_grow_and_have_an_end() -> None:
    clock = SystemClock()
    delivery = Delivery(lambda view, full: view, clock, Manner(first_pause_s=10, longest_pause_s=100))
    pauses = [delivery._pause_s(attempt) for attempt in (1, 2, 3, 4, 5, 50)]
    for pause, expected in zip(pauses, (10, 20, 40, 80, 100, 100), strict=True):
        assert expected / 2 <= pause <= expected * 1.5


def test_a_missing_handler_blocks_nobody(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.tb.run("mail") as run:
        lost = run.defer(tools.note_with_undo, "lost")
        run.defer(tools.note, "there")
    monkeypatch.delattr(tools, "note_with_undo")
    tally = place.deliver()
    assert (tally.delivered, tally.dead) == (1, 1)
    (record,) = place.tb.outbox.attempts(lost)
    assert isinstance(record.event, IntentDied)
    assert "cannot be imported" in record.event.why
    monkeypatch.undo()


def test_what_is_revived_is_delivered(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.tb.run("mail") as run:
        id = run.defer(tools.note_with_undo, "a")
    with monkeypatch.context() as patched:
        patched.delattr(tools, "note_with_undo")
        place.deliver()
    assert place.states() == [IntentState.DEAD]
    place.tb.outbox.revive(id)
    place.deliver()
    assert (place.states(), len(tools.sent())) == ([IntentState.DELIVERED], 1)


def test_lost_arguments_are_a_dead_letter(place: Place) -> None:
    with place.tb.run("mail") as run:
        run.defer(tools.secret, "hunter2zz")
        run.defer(tools.note, "there")

    def lost(view: object, full: str) -> object:
        from takeback.errors import ContentGone

        if full:
            raise ContentGone("the content is gone")
        return view

    clock = SystemClock()
    tally = Worker(place.tb.outbox, Delivery(lost, clock, Manner()), clock).run(once=True)
    assert (tally.delivered, tally.dead) == (1, 1)


def test_order_is_kept_over_failures(place: Place) -> None:
    order = "o"
    with place.tb.run("mail") as run:
        for n in range(3):
            run.defer(tools.note, f"a{n}", order=order)
        run.defer(tools.fail, "b", order=order, tries=2)
        for n in range(3):
            run.defer(tools.note, f"c{n}", order=order)
        run.defer(tools.note, "free")
    place.deliver()
    while IntentState.DUE in place.states():
        place.deliver()
    said = [text for _, _, text in tools.said()]
    said.remove("free")
    assert said == ["a0", "a1", "a2", "b", "b", "c0", "c1", "c2"]


def test_a_worker_that_is_told_to_stop_ends_what_it_began(place: Place) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Delivery):
        def __call__(self, queued: Queued) -> AttemptOutcome:
            begun.set()
            assert go_on.wait(60)
            return super().__call__(queued)

    with place.tb.run("mail") as run:
        for n in range(5):
            run.defer(tools.note, str(n))
    clock = SystemClock()
    courier = Worker(place.tb.outbox, Slow(lambda view, full: view, clock, Manner()), clock, concurrency=2)
    thread = threading.Thread(target=courier.run)
    thread.start()
    begun.wait(60)
    courier.stop.set()
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    delivered = place.states().count(IntentState.DELIVERED)
    assert delivered == len(tools.sent()) == courier.tally.delivered > 0
    # What it had not begun is free for others at once, and has no attempt behind it.
    assert {(q.state, q.attempts) for q in place.intents() if q.state is not IntentState.DELIVERED} <= {
        (IntentState.DUE, 0)
    }
    assert place.tb.outbox.owners() == []


def test_a_check_spares_the_second_sending(place: Place) -> None:
    with place.tb.run("mail") as run:
        run.defer(tools.note_with_undo, "a")
    (queued,) = place.tb.outbox.claim("gone", 1, 60)
    place.tb.outbox.start([queued])
    tools.say("sent", queued.deferred.delivery_key, "a")
    place.tb.outbox.free("gone")
    place.deliver()
    assert (place.states(), len(tools.sent())) == ([IntentState.DELIVERED], 1)
    assert place.intents()[0].result == {"id": "a"}


class Meter(ServiceListener):
    """Observes the gauge each time a delivery was recorded."""

    def __init__(self) -> None:
        self.seen: list[dict[str, int]] = []

    def told(self, outcome: AttemptOutcome) -> None:
        self.seen.append({one.attributes["state"]: one.value for one in metrics._observe(None)})


def test_metrics_are_told_while_a_worker_is_at_work(place: Place) -> None:
    with place.tb.run("mail") as run:
        run.defer(tools.note, "a")
    meter = Meter()
    place.tb.courier(listener=meter).run(once=True)
    assert meter.seen == [{"delivered": 1}]
    assert list(metrics._observe(None)) == []  # whoever counts later does not open what was closed


def test_an_outbox_that_was_tampered_with_is_found(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        sent = run.defer(tools.note, "a")
        run.defer(tools.fail, "b")
    assert place.tb.verify() == []
    path = place.tb.state / "journal.db"
    number = int(sent[1:])
    for statement, said in [
        (
            f"UPDATE outbox SET state = 'due' WHERE id = {number}",
            f"{sent} is due in the outbox, but not in the journal",
        ),
        (f"UPDATE outbox SET state = 'delivered' WHERE id = {number}", ""),
    ]:
        db = apsw.Connection(str(path))
        db.execute(statement)
        db.close()
        assert [finding.what for finding in place.tb.verify()] == ([said] if said else [])
