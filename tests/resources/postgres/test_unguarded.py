"""A database without a guard, inside a run: a transaction that lasts only if its step does, and no more than that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import takeback
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.errors import HandedOver, RefusedError, RollbackIncomplete
from takeback.testing import crash
from tests.resources.postgres.world import Server, Shop

NOT_GUARDED = "is not guarded"


@pytest.fixture
def open_shop(server: Server, tmp_path: Path) -> Iterator[Shop]:
    """A shop that nobody guards."""
    made = Shop(server, tmp_path / "work", guarded=False)
    yield made
    made.workspace.close()


@pytest.mark.filterwarnings("ignore:.*is not guarded:UserWarning")
def test_it_commits_with_its_step_and_aborts_with_it(open_shop: Shop) -> None:
    before = open_shop.rows()
    with open_shop.workspace.run("shop") as run:
        with pytest.raises(RuntimeError, match="no"), run.step("one"):
            with run.database(open_shop.dsn) as db:
                db.execute("INSERT INTO notes VALUES ('a', 'b')")
            raise RuntimeError("no")
        assert open_shop.rows() == before, "the step failed, so its transaction was aborted"
        with run.step("two"):
            with run.database(open_shop.dsn) as db:
                db.execute("INSERT INTO notes VALUES ('c', 'd')")
            assert open_shop.rows() == before, "not yet: the step goes on"
    assert open_shop.rows()["public.notes"] == ["c\td"]


@pytest.mark.filterwarnings("ignore:.*is not guarded:UserWarning")
def test_a_run_that_only_aborts_leaves_nothing_to_say(open_shop: Shop) -> None:
    before = open_shop.rows()
    run = open_shop.workspace.run("shop")
    with pytest.raises(RuntimeError, match="no"), run, run.step("one"), run.database(open_shop.dsn) as db:
        db.execute("INSERT INTO notes VALUES ('a', 'b')")
        raise RuntimeError("no")
    assert open_shop.rows() == before
    assert run.report is not None and run.report.verdict in (Verdict.NOTHING, Verdict.CLEAN)


def test_it_is_said_beforehand_and_in_the_report_that_a_commit_cannot_be_taken_back(open_shop: Shop) -> None:
    tb = open_shop.workspace
    with pytest.warns(UserWarning, match=f"{NOT_GUARDED}.*cannot be taken back") as warned:
        with tb.run("shop") as run, run.step("fill"), run.database(open_shop.dsn) as db:
            db.execute("INSERT INTO notes VALUES ('a', 'b')")
    assert len(warned) == 1 and "takeback guard" in str(warned[0].message)
    assert open_shop.dsn not in str(warned[0].message)
    for preview in (True, False):
        with pytest.raises(RollbackIncomplete) as caught:
            tb.undo(run.id, preview=preview)
        (item,) = [item for item in caught.value.report.items if item.resource == "calls"]
        assert item.did == "kept" and NOT_GUARDED in item.why and "cannot be taken back" in item.why
    assert open_shop.rows()["public.notes"] == ["a\tb"], "what was said is so"


@pytest.mark.filterwarnings("ignore:.*is not guarded:UserWarning")
def test_a_run_that_fails_after_a_commit_is_not_called_clean(open_shop: Shop) -> None:
    run = open_shop.workspace.run("shop")
    with pytest.raises(RollbackIncomplete, match="kept"), run:
        with run.step("fill"), run.database(open_shop.dsn) as db:
            db.execute("INSERT INTO notes VALUES ('a', 'b')")
        raise RuntimeError("no")
    assert open_shop.workspace.history.runs[run.id].life is Life.HANDED_OVER


def test_on_autopilot_it_is_refused(open_shop: Shop) -> None:
    with open_shop.workspace.run("shop", autopilot=True) as run:
        with pytest.raises(RefusedError, match=NOT_GUARDED) as caught, run.database(open_shop.dsn):
            raise AssertionError("not reached")
    assert "takeback guard" in caught.value.hint


def fill(root: str, dsn: str) -> None:
    with takeback.open(root) as tb, tb.run("shop", key="k") as run:
        with run.step("fill"), run.database(dsn) as db:
            db.execute("INSERT INTO notes VALUES ('a', 'b')")


@pytest.mark.filterwarnings("ignore:.*is not guarded:UserWarning")
def test_killed_after_the_commit_it_is_not_written_twice(open_shop: Shop) -> None:
    root = str(open_shop.workspace.root)
    done = crash.run("database-committed", 1, [f"{__name__}:fill", root, open_shop.dsn])
    assert done.returncode == crash.KILLED, done.stderr
    with pytest.raises(HandedOver, match="commit to") as caught:
        fill(root, open_shop.dsn)
    assert "takeback" in caught.value.hint
    assert open_shop.rows()["public.notes"] == ["a\tb"]
