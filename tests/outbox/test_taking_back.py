"""A rollback cancels what was not delivered, takes back what was where it can, and says what it cannot."""

from __future__ import annotations

import pytest

from takeback.core.intents import AttemptOutcome, IntentAttempted, IntentState
from takeback.core.rollback import Verdict
from takeback.errors import RollbackIncomplete
from tests.outbox import tools
from tests.outbox.conftest import Place


class Failure(Exception):
    """The plan failed."""


def test_a_run_that_fails_cancels_what_it_deferred(place: Place) -> None:
    with pytest.raises(Failure), place.tb.run("mail") as run:
        id = run.defer("email", to="ann@example.org", subject="done")
        raise Failure
    assert run.report is not None
    (item,) = run.report.items
    assert (item.resource, item.target.name, item.did, item.verified) == ("outbox", id, "cancelled", True)
    assert "cancelled email to ann@example.org" in str(run.report)
    assert run.report.verdict is Verdict.CLEAN
    place.deliver()
    assert place.states() == [IntentState.CANCELLED]


def test_undo_after_the_commit_cancels_what_is_pending(place: Place) -> None:
    with place.tb.run("mail") as run:
        (place.root / "file").write_text("x")
        run.defer(tools.note, "a")
    preview = place.tb.undo(run.id, preview=True)
    assert {item.did for item in preview.items if item.resource == "outbox"} == {"cancelled"}
    assert place.states() == [IntentState.DUE]
    report = place.tb.undo(run.id)
    assert report.verdict is Verdict.CLEAN
    assert not (place.root / "file").exists()
    place.deliver()
    assert (place.states(), tools.sent()) == ([IntentState.CANCELLED], [])


def test_what_was_delivered_is_final_and_said_so(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        (place.root / "file").write_text("x")
        run.defer(tools.note, "a")
    with pytest.raises(RollbackIncomplete) as caught:
        place.tb.undo(run.id, preview=True)
    (told,) = [item for item in caught.value.report.items if item.resource == "outbox"]
    assert "was delivered at" in told.why
    with pytest.raises(RollbackIncomplete) as caught:
        place.tb.undo(run.id)
    (item,) = [item for item in caught.value.report.items if item.resource == "outbox"]
    assert (item.did, item.verified) == ("kept", False)
    assert "note was delivered at" in item.why and "cannot be taken back" in item.why
    # Everything else is.
    assert not (place.root / "file").exists()


def test_what_was_delivered_is_compensated_where_its_handler_can(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        run.defer(tools.note_with_undo, "a")
    report = place.tb.undo(run.id)
    (item,) = report.items
    assert (item.did, item.verified) == ("compensated", True)
    assert [what for what, *_ in tools.said()] == ["sent", "unsent"]
    assert tools.said()[1][2] == "a"
    assert place.tb.undo(run.id).verdict is Verdict.NOTHING


def test_an_undo_that_nobody_can_check_is_unverified(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        run.defer(tools.note_with_blind_undo, "a")
    with pytest.raises(RollbackIncomplete) as caught:
        place.tb.undo(run.id)
    assert [(item.did, item.verified) for item in caught.value.report.items] == [("compensated", False)]


def test_a_redo_never_sends(place: Place) -> None:
    with place.tb.run("mail") as run:
        (place.root / "file").write_text("x")
        run.defer(tools.note, "a")
    place.tb.undo(run.id)
    with pytest.raises(RollbackIncomplete) as caught:
        place.tb.redo()
    (item,) = [item for item in caught.value.report.items if item.resource == "outbox"]
    assert (item.did, item.why) == ("kept", "an intent is never sent again by a redo")
    assert (place.root / "file").read_text() == "x"
    place.deliver()
    assert (place.states(), tools.sent()) == ([IntentState.CANCELLED], [])


def test_deferred_again_after_an_undo_it_is_another_one(place: Place) -> None:
    for _ in range(2):
        with place.tb.run("mail", key="K") as run:
            run.defer(tools.note_with_undo, "a", key="k")
        place.deliver()
        place.tb.undo(run.id)
    first, second = place.intents()
    assert first.deferred.delivery_key != second.deferred.delivery_key
    assert [what for what, *_ in tools.said()] == ["sent", "unsent"] * 2


def test_a_step_that_is_taken_back_takes_its_intents_along(place: Place) -> None:
    with place.tb.run("mail") as run:
        with run.step("one") as one:
            first = run.defer(tools.note, "a", key="k")
        run.rollback(to=one)
        with run.step("two"):
            second = run.defer(tools.note, "a", key="k")
    assert first != second
    place.deliver()
    assert place.states() == [IntentState.CANCELLED, IntentState.DELIVERED]
    assert len(tools.sent()) == 1


def test_after_an_attempt_without_an_answer_nobody_claims_that_it_never_left(place: Place) -> None:
    with place.tb.run("mail") as run:
        run.defer(tools.note, "a")
    (queued,) = place.tb.outbox.claim("me", 1, 60)
    place.tb.outbox.start([queued])
    again = IntentAttempted(queued.id, 1, "no answer", 10**18, unsure=True)
    place.tb.outbox.settle([AttemptOutcome(queued, again)])
    for _ in range(2):
        with pytest.raises(RollbackIncomplete) as caught:
            place.tb.undo(run.id)
        (item,) = caught.value.report.items
        assert (item.did, item.verified) == ("unverifiable", False)
        assert "may have delivered it" in item.why


@pytest.mark.parametrize("there", [True, False])
def test_a_check_tells_what_became_of_it(place: Place, there: bool) -> None:
    with place.tb.run("mail") as run:
        run.defer(tools.note_with_undo, "a")
    (queued,) = place.tb.outbox.claim("me", 1, 60)
    place.tb.outbox.start([queued])
    if there:
        tools.say("sent", queued.deferred.delivery_key, "a")
    again = IntentAttempted(queued.id, 1, "no answer", 0, unsure=True)
    place.tb.outbox.settle([AttemptOutcome(queued, again)])
    report = place.tb.undo(run.id)
    assert [(item.did, item.verified) for item in report.items] == [
        ("compensated" if there else "cancelled", True)
    ]
    assert [what for what, *_ in tools.said()] == (["sent", "unsent"] if there else [])


def test_a_dead_letter_is_cancelled_too(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        run.defer(tools.refuse, "a")
    assert place.states() == [IntentState.DEAD]
    assert [(i.did, i.verified) for i in place.tb.undo(run.id).items] == [("cancelled", True)]


def test_what_a_human_dropped_is_already_gone(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        id = run.defer(tools.refuse, "a")
    place.tb.outbox.drop(id)
    assert place.tb.undo(run.id).verdict in (Verdict.NOTHING, Verdict.CLEAN)
    assert place.states() == [IntentState.DROPPED]
