"""What a rollback says of itself, for people and for machines."""

from __future__ import annotations

import msgspec
import pytest

from takeback.core.change import Target
from takeback.core.rollback import Verdict
from takeback.engine.rollback.report import ReportItem, RollbackReport
from takeback.errors import ConflictError

from .conftest import Desk


@pytest.fixture
def watching() -> bool:
    return False


def item(name: str, did: str = "restored", *, verified: bool = True, why: str = "") -> ReportItem:
    return ReportItem(Target("files", name), did, verified, why)


def report(*items: ReportItem, verdict: Verdict = Verdict.CLEAN, preview: bool = False) -> RollbackReport:
    return RollbackReport("a9", "undo", ("a7",), verdict, items, preview=preview)


def test_a_report_reads_like_a_sentence() -> None:
    text = str(report(item("auth.py"), item("db.py"), item("notes.tmp", "removed"), item("README", "kept")))
    assert text == (
        "Took back 3 changes: restored auth.py and db.py, removed notes.tmp, kept README. Verified 4 of 4."
    )


def test_one_change_is_not_several() -> None:
    assert str(report(item("auth.py"))) == "Took back 1 change: restored auth.py. Verified 1 of 1."


def test_many_names_are_counted() -> None:
    text = str(report(*(item(f"f{n}") for n in range(1203))))
    assert "restored f0, f1, f10 and 1,200 more" in text


def test_what_failed_is_not_counted_as_taken_back() -> None:
    text = str(report(item("a"), item("b", "failed", verified=False), verdict=Verdict.PARTIAL))
    assert text == "Took back 1 change: restored a, failed b. Verified 1 of 2."


def test_what_follows_from_the_rest_is_counted_only_if_it_was_not_verified() -> None:
    follows = msgspec.structs.replace(item("."), minor=True)
    assert report(item("a"), follows).verified == (1, 1)
    assert report(follows).verified == (1, 1), "there is nothing else"
    assert report(item("a"), msgspec.structs.replace(follows, verified=False)).verified == (1, 2)


def test_a_preview_is_in_the_conditional() -> None:
    assert str(report(item("a", verified=False), preview=True)) == "Would take back 1 change: restored a."


def test_a_conflict_says_that_nothing_was_done() -> None:
    text = str(report(item("a", "conflict", why="it was changed since"), item("b"), verdict=Verdict.CONFLICT))
    assert text == "Stopped at a: it was changed since. Nothing was taken back."
    redone = msgspec.structs.replace(
        report(item("a", "conflict", why="it was changed since"), verdict=Verdict.CONFLICT), kind="redo"
    )
    assert str(redone) == "Stopped at a: it was changed since. Nothing was brought back."


def test_items_come_in_the_order_in_which_a_person_wants_to_hear_them() -> None:
    dids = ["failed", "kept", "removed", "restored", "conflict", "merged", "already"]
    groups = report(*(item(did, did) for did in dids)).grouped()
    order = ["restored", "removed", "merged", "already", "kept", "conflict", "failed"]
    assert [did for did, _ in groups] == order


def test_data() -> None:
    assert report(item("a", "kept", why="you edited it")).data() == {
        "rollback": "a9",
        "kind": "undo",
        "of": ["a7"],
        "verdict": "clean",
        "preview": False,
        "finished_earlier": False,
        "unknown": [],
        "items": [
            {"resource": "files", "target": "a", "did": "kept", "verified": True, "why": "you edited it"}
        ],
    }


def test_a_redo_does_not_say_that_it_took_back(desk: Desk) -> None:
    desk.agent(plan="new")
    desk.tb.undo()
    text = str(desk.tb.redo())
    assert "Took back" not in text and "plan" in text, text


def test_the_error_carries_the_report(desk: Desk) -> None:
    desk.agent(plan="new")
    desk.human("plan", "mine")
    with pytest.raises(ConflictError) as caught:
        desk.tb.undo()
    assert isinstance(caught.value.report, RollbackReport)
    words = "Stopped at plan: you changed it since. Nothing was taken back."
    assert str(caught.value).startswith(words)
    assert "--on-conflict" in caught.value.hint


def test_every_repr_fits_on_one_line(desk: Desk) -> None:
    with desk.tb.recording("x" * 500) as id:
        for n in range(50):
            desk.human(f"file-{n}", "x" * 500)
    checkpoint = desk.tb.save("a long message " * 50)
    undone = desk.tb.undo()
    things = [
        desk.tb,
        checkpoint,
        undone,
        undone.items[0],
        desk.tb.history.actions[id],
        next(iter(desk.tb.history.runs.values())),
        desk.tb.diff(checkpoint),
        desk.tb.diff(checkpoint).changes[0],
    ]
    for thing in things:
        assert len(repr(thing)) <= 200 and "\n" not in repr(thing), repr(thing)[:300]
