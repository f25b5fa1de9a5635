"""What a run defers is held until it commits, leaves once, and never again."""

from __future__ import annotations

import pytest

from takeback.core.intents import IntentState
from takeback.core.lifecycle import Life
from takeback.errors import BackendError, InvariantBroken, RefusedError, UsageError
from takeback.testing import crash
from tests.outbox import tools
from tests.outbox.conftest import Place


class Failure(Exception):
    """The plan failed."""


def test_nothing_leaves_before_the_run_has_committed(place: Place) -> None:
    with place.tb.run("mail") as run:
        id = run.defer(tools.note, "hello", key="k")
        place.deliver()
        assert (place.states(), tools.sent()) == ([IntentState.HELD], [])
    assert place.states() == [IntentState.DUE]
    tally = place.deliver()
    assert (tally.delivered, tally.failed, tally.dead) == (1, 0, 0)
    (queued,) = place.intents()
    assert (queued.id, queued.state, queued.result) == (id, IntentState.DELIVERED, {"id": "hello"})
    assert tools.sent() == [queued.deferred.delivery_key]
    place.deliver()
    assert len(tools.sent()) == 1


def test_the_run_can_deliver_by_itself(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        run.defer(tools.note, "hello")
        run.defer("tests.outbox.tools:note_later", "again")
        run.defer(tools.fail, "no", tries=1000)
    assert [text for _, _, text in tools.said()].count("hello") == 1
    assert sorted(place.states()) == [IntentState.DELIVERED, IntentState.DELIVERED, IntentState.DUE]


def test_a_delivery_that_breaks_down_is_no_failure_of_the_run(place: Place) -> None:
    def broken() -> None:
        raise BackendError("the disk is full")

    with crash.at("outbox-claimed", broken), place.tb.run("mail", deliver=True) as run:
        run.defer(tools.note, "hello")
    assert place.tb.history.runs[run.id].life is Life.DONE
    assert "the disk is full" in place.tb.notices[-1]
    # What was claimed is free again.
    assert place.states() == [IntentState.DUE]
    place.deliver()
    assert len(tools.sent()) == 1


def test_an_intent_may_leave_with_its_step(place: Place) -> None:
    with place.tb.run("mail") as run:
        with run.step("one"):
            run.defer(tools.note, "early", release="step")
            run.defer(tools.note, "late")
            place.deliver()
            assert tools.sent() == []
        place.deliver()
        assert [text for _, _, text in tools.said()] == ["early"]
        with pytest.raises(Failure), run.step("two"):
            run.defer(tools.note, "never", release="step")
            raise Failure
    assert place.states() == [IntentState.DELIVERED, IntentState.DUE, IntentState.CANCELLED]


def test_a_key_is_one_intent(place: Place) -> None:
    with place.tb.run("mail", key="K") as run:
        first = run.defer(tools.note, "a", key="k")
        assert run.defer(tools.note, "a", key="k") == first
        with pytest.raises(UsageError, match="with other contents"):
            run.defer(tools.note, "b", key="k")
        # Without a key, each is one of its own.
        assert run.defer(tools.note, "a") != run.defer(tools.note, "a")
    assert len(place.intents()) == 3
    with place.tb.run("mail", key="K") as run:
        assert run.defer(tools.note, "a", key="k") == first
        with pytest.raises(UsageError, match="committed without this intent"):
            run.defer(tools.note, "new", key="n")
    assert len(place.intents()) == 3


def test_a_run_that_is_continued_does_not_defer_twice(place: Place) -> None:
    for _ in range(2):
        with pytest.raises(Failure), place.tb.run("mail", key="K") as run:
            run.defer(tools.note, "a", key="k")
            run.defer(tools.note, "b")
            with run.step("one"):
                run.defer(tools.note, "c", release="step")
            raise Failure
    # Each attempt was taken back as a whole, so a new one is another one.
    assert place.states() == [IntentState.CANCELLED] * 6
    place.deliver()
    assert tools.sent() == []


def test_what_makes_no_sense_is_told_before_anything_is_deferred(place: Place) -> None:
    with place.tb.run("mail") as run:
        for handler, args, kwargs in [
            ("pigeon", (), {}),
            ("http", ("POST",), {}),
            ("http", ("POST", "ftp://example.org"), {}),
            ("http", ("POST", "http://x/"), {"json": 1, "data": "1"}),
            ("http", ("POST", "http://x/"), {"undo": {"url": "http://x/"}}),
            ("webhook", ("http://x/", 1), {"secret": "§"}),
            ("email", (), {"to": "nobody", "subject": "x"}),
            ("email", (), {"to": [], "subject": "x"}),
            ("email", (), {"to": "a@b", "subject": "x\ny"}),
            ("command", ("rm -rf /",), {}),
            ("command", ([],), {}),
            (tools.note, (), {}),
            (tools.note, ("a", "b"), {}),
            (tools.note, (object(),), {}),
            (lambda: None, (), {}),
            (tools.note, ("a",), {"release": "step"}),
            (tools.note, ("a",), {"release": "never"}),
            (tools.note, ("a",), {"tries": 0}),
            (tools.note, ("a",), {"timeout_s": -1}),
            (tools.note, ("a",), {"order": 5}),
        ]:
            with pytest.raises(UsageError):
                run.defer(handler, *args, **kwargs)  # type: ignore[arg-type]
    assert place.intents() == []


def test_rules_hold_for_what_is_deferred(place: Place) -> None:
    (place.root / "takeback.toml").write_text('[rules.tools]\ndeny = ["tests.outbox.tools:note"]\n')
    with place.tb.run("mail") as run, pytest.raises(RefusedError):
        run.defer(tools.note, "a")
    assert place.intents() == []


def test_an_invariant_that_does_not_hold_releases_nothing(place: Place) -> None:
    with pytest.raises(InvariantBroken), place.tb.run("mail", invariants=[lambda: False]) as run:
        run.defer(tools.note, "a")
    place.deliver()
    assert (place.states(), tools.sent()) == ([IntentState.CANCELLED], [])


def test_secrets_are_delivered_and_not_written_down(place: Place) -> None:
    word = "hunter2zz"
    with place.tb.run("mail", deliver=True) as run:
        run.defer(tools.secret, word)
        run.defer("http", "POST", f"http://bob:{word}@127.0.0.1:1/", headers={"Authorization": word}, tries=1)
    assert tools.said()[0][2] == word
    written = b"".join(record.envelope.__repr__().encode() for record in place.tb.journal.read())
    assert b"hidden" in written
    assert word.encode() not in written
    assert place.intents()[0].result == {"token": word}
