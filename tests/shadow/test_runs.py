"""A shadow does nothing and shows everything; promoted, it does exactly what it showed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import takeback
from tests.shadow import tools
from tests.shadow.tools import noted


def yes(_request: Any) -> bool:
    return True


def work(run: takeback.Run) -> None:
    with run.step("write"):
        run.call(tools.write, "report.md", "a report\n")
        Path("plan.md").unlink()
        (run.root / "sub").mkdir()
        run.memory["goal"] = "report"
    with run.step("meet"):
        meeting = run.call(tools.book, "A")
        run.call(tools.invite, meeting["id"], text=f"see you at {meeting['id']}")
        paid = run.call(tools.pay, 7)
        run.call(tools.invite, paid["id"])
    run.defer("command", ["sh", "-c", f"echo mail >> {os.environ['NOTES']}"], key="mail")


def shadow_of(tb: takeback.Workspace, body: Any = work, **options: Any) -> Any:
    with tb.run("report", shadow=True, **options) as run:
        body(run)
    return run


def tree(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): p.read_text() if p.is_file() else "" for p in sorted(root.rglob("*"))}


def test_a_shadow_does_nothing_and_shows_everything(tb: takeback.Workspace) -> None:
    before = tree(tb.root)
    run = shadow_of(tb)
    assert tree(tb.root) == before and noted() == [] and os.getcwd() == str(tb.root)
    assert tree(run.root) == {"report.md": "a report\n", "sub": ""}
    said = str(run.review)
    assert [one.name for one in run.review.intentions] == ["book", "invite", "pay", "invite", "command"]
    assert "CANNOT be taken back" in said and "can be taken back by unbook" in said
    assert "can be taken back until it is sent" in said and "asks first" in said
    assert "delete plan.md" in said and "create report.md" in said
    assert f"takeback promote {run.review.run}" in said
    assert tb.courier().run(once=True).delivered == 0 and noted() == []


def test_promoted_it_does_exactly_what_it_showed(tb: takeback.Workspace) -> None:
    run = shadow_of(tb)
    showed = tree(run.root)
    real = run.promote(approve=yes)
    assert tree(tb.root) == showed
    assert noted() == ["book A", "invite real-A see you at real-A", "pay 7", "invite p7"]
    assert "report" in str(tb.history.memory_of(real.id))
    assert tb.courier().run(once=True).delivered == 1 and noted()[-1] == "mail"
    assert tb.stages.names() == []
    with pytest.raises(takeback.UsageError, match="promoted already"):
        run.promote(approve=yes)


def test_a_moved_world_is_refused(tb: takeback.Workspace) -> None:
    run = shadow_of(tb)
    (tb.root / "mine.md").write_text("mine\n")
    before = tree(tb.root)
    with pytest.raises(takeback.ConflictError, match=r"the world has moved since the shadow began: mine\.md"):
        run.promote(approve=yes)
    assert tree(tb.root) == before and noted() == []


def test_without_approval_nothing_happens(tb: takeback.Workspace) -> None:
    run = shadow_of(tb)
    before = tree(tb.root)
    with pytest.raises(takeback.RefusedError, match="was not promoted"):
        run.promote(approve=lambda _: False)
    assert tree(tb.root) == before and noted() == []
    run.promote(approve=yes)  # another time
    assert "book A" in noted()


def test_a_promotion_that_fails_takes_everything_back(
    tb: takeback.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shadow_of(tb)
    before = tree(tb.root)

    def broken(_what: str) -> None:
        raise OSError("the other system is down")

    monkeypatch.setattr(tools, "note", broken)
    with pytest.raises((OSError, takeback.RollbackIncomplete)):
        run.promote(approve=yes)
    assert tree(tb.root) == before
    assert tb.stages.names() == [run.review.view]


def test_where_nothing_can_stand_in_the_shadow_ends_and_says_so(tb: takeback.Workspace) -> None:
    def body(run: takeback.Run) -> None:
        run.call(tools.write, "report.md", "half\n")
        run.call(tools.rate, "EUR")
        raise AssertionError("not reached")

    run = shadow_of(tb, body)
    assert "the shadow ends at rate" in str(run.review) and tree(run.root)["report.md"] == "half\n"
    with pytest.raises(takeback.UsageError, match="ended early"):
        run.promote(approve=yes)
    assert noted() == []


def test_an_undeclared_function_is_not_called(tb: takeback.Workspace) -> None:
    run = shadow_of(tb, lambda run: run.call(tools.undeclared, "x"))
    assert noted() == [] and [one.effect for one in run.review.intentions] == ["unknown"]


def test_a_failing_shadow_raises_and_shows_how_far_it_came(tb: takeback.Workspace) -> None:
    kept: list[Any] = []

    def body(run: takeback.Run) -> None:
        kept.append(run)
        run.call(tools.book, "A")
        run.require(False, "no")

    with pytest.raises(takeback.InvariantBroken, match="no"):
        shadow_of(tb, body)
    review = kept[0].review
    assert review.result.outcome == "failed" and len(review.intentions) == 1
    assert noted() == []


def test_a_real_path_is_refused(tb: takeback.Workspace) -> None:
    with pytest.raises(takeback.RefusedError, match="not in the view"):
        shadow_of(tb, lambda run: run.call(tools.write, str(tb.root / "plan.md"), "no"))
    assert (tb.root / "plan.md").read_text() == "old\n"


def test_sqlite_is_written_in_the_view_and_promoted(tb: takeback.Workspace) -> None:
    with sqlite3.connect(tb.root / "app.db") as db:
        db.execute("create table t (x)")
    db.close()

    def body(run: takeback.Run) -> None:
        with run.step("rows"), run.database(str(tb.root / "app.db")) as db:
            db.execute("insert into t values (1)")

    def rows() -> list[Any]:
        db = sqlite3.connect(tb.root / "app.db")
        try:
            return db.execute("select x from t").fetchall()
        finally:
            db.close()

    run = shadow_of(tb, body)
    assert rows() == []
    run.promote(approve=yes)
    assert rows() == [(1,)]


def test_coroutines(tb: takeback.Workspace) -> None:
    async def body() -> Any:
        async with tb.run("report", shadow=True) as run:
            meeting = await run.call(tools.book_later, "B")
            run.call(tools.invite, meeting["id"])
        return run

    run = asyncio.run(body())
    assert noted() == [] and [one.name for one in run.review.intentions] == ["book_later", "invite"]
    assert asyncio.run(asyncio.to_thread(lambda: None)) is None


def test_a_rollback_inside_a_shadow_works_in_the_view(tb: takeback.Workspace) -> None:
    def body(run: takeback.Run) -> None:
        with run.step("first") as step:
            run.call(tools.write, "first.md", "x")
        run.rollback(to=step)
        run.call(tools.write, "second.md", "y")

    run = shadow_of(tb, body)
    assert "first.md" not in tree(run.root) and tree(run.root)["second.md"] == "y"


def test_a_shadow_is_in_the_log_and_can_be_compared_with_the_real_run(tb: takeback.Workspace) -> None:
    from takeback.workspace.comparison import compare_runs

    run = shadow_of(tb)
    with tb.run("report", approve=yes) as real:
        work(real)
    assert tb.history.runs[run.review.run].began.shadow == run.review.view
    found = compare_runs(tb, run.review.run, real.id)
    kinds = [(pair.kind.value, pair.first and pair.first.tool.rpartition(":")[2]) for pair in found.pairs]
    same, other = "same", "other arguments"  # a stand-in is not the real result
    assert kinds == [
        (same, "write"),
        (same, "book"),
        (other, "invite"),
        (same, "pay"),
        (other, "invite"),
        (same, "command"),
    ]
    assert not found.effects and found.effects_alike == 3


def test_no_secret_reaches_the_log_and_the_review_is_private(tb: takeback.Workspace) -> None:
    secret = "sk-live-4242424242424242424242"
    run = shadow_of(tb, lambda run: run.call(tools.login, token=secret))
    assert run.review.intentions[0].arguments["kwargs"]["token"] == secret
    logged = "".join(str(record.event) for record in tb.journal.read())
    assert secret not in logged + str(run.review) + str(run.review.data())
    kept = tb.stages[run.review.view].folder.path / "shadow.json"
    assert kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700


def test_what_a_shadow_cannot_hold_back_is_refused(tb: takeback.Workspace, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    with pytest.raises(takeback.UsageError, match="cannot have roots outside"):
        tb.run("report", shadow=True, roots=[tmp_path / "beside"])
    with pytest.raises(takeback.UsageError, match="its caller runs"):
        shadow_of(tb, lambda run: run.begin("pay", {"amount": 7}, call_id="c1"))
    with tb.run("report") as real, pytest.raises(takeback.UsageError, match="nothing to promote"):
        real.promote()
    assert real.root == tb.root


@pytest.mark.parametrize("place", ["a text", "a number", "a database"])
def test_a_stand_in_in_a_file_is_never_made_real(tb: takeback.Workspace, place: str) -> None:
    with sqlite3.connect(tb.root / "app.db") as db:
        db.execute("create table t (x)")
    db.close()

    def body(run: takeback.Run) -> None:
        meeting = run.call(tools.book, "A")
        if place == "a database":
            with run.step("rows"), run.database("app.db") as db:
                db.execute("insert into t values (?)", (meeting["id"],))
        else:
            value = meeting["id"] if place == "a text" else run.call(tools.count)
            run.call(tools.write, "report.md", f"see {value}\n")

    run = shadow_of(tb, body)
    name = "app.db" if place == "a database" else "report.md"
    assert run.review.result.marked == (name,) and f"in {name}: so it cannot be promoted" in str(run.review)
    with pytest.raises(takeback.UsageError, match="would hold a stand-in"):
        run.promote(approve=yes)
    assert noted() == [] and not (tb.root / "report.md").exists()


def test_a_stand_in_in_the_memory_becomes_the_real_result(tb: takeback.Workspace) -> None:
    def body(run: takeback.Run) -> None:
        run.memory["meeting"] = run.call(tools.book, "A")["id"]

    promoted = shadow_of(tb, body).promote(approve=yes)
    assert "real-A" in str(tb.history.memory_of(promoted.id))
