"""Checks after a rollback: asked once, after everything was put back; one that fails makes it incomplete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback import RollbackIncomplete, RollbackReport, UsageError, Workspace
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict

SETTINGS = """
[checks]
after-rollback = ["{python} -c 'import os, sys; sys.exit(os.path.exists(\\"bad\\"))'", "{python} {script}"]
timeout-s = {timeout}
"""


class Stop(Exception):
    pass


@pytest.fixture
def tb(tmp_path: Path) -> Iterator[Workspace]:
    (root := tmp_path / "work").mkdir()
    with takeback.open(root, store="memory", watching=False) as opened:
        yield opened


def with_commands(tmp_path: Path, script: str, *, accepted: bool = True, timeout: float = 30) -> Workspace:
    (root := tmp_path / "work").mkdir()
    (tmp_path / "check.py").write_text(script)
    settings = SETTINGS.format(python=sys.executable, script=tmp_path / "check.py", timeout=timeout)
    (root / "takeback.toml").write_text(settings)
    return takeback.open(root, home=tmp_path / "state", watching=False, accept_config=accepted)


def fail(tb: Workspace, *checks: Any) -> Any:
    run = tb.run("checked")
    try:
        with run:
            for check in checks:
                run.after_rollback(check)
            (tb.root / "made").write_text("by the agent")
            raise Stop
    except (Stop, RollbackIncomplete) as error:
        return run, error


def test_the_checks_of_a_run_see_the_world_as_it_was_and_the_report(tb: Workspace) -> None:
    seen: list[tuple[bool, Verdict]] = []

    def nothing_is_there(report: RollbackReport) -> bool:
        seen.append(((tb.root / "made").exists(), report.verdict))
        return True

    run, error = fail(tb, nothing_is_there)
    assert isinstance(error, Stop)
    assert seen == [(False, Verdict.CLEAN)]
    assert run.report.verdict is Verdict.CLEAN
    assert str(run.report).endswith("Verified 1 of 1. 1 check passed.")
    (data,) = run.report.data()["checks"]
    assert data == {"check": nothing_is_there.__qualname__, "passed": True, "why": ""}


def test_a_check_that_says_no_or_raises_makes_the_rollback_incomplete(tb: Workspace) -> None:
    def says_no(report: RollbackReport) -> bool:
        return False

    def raises(report: RollbackReport) -> None:
        raise LookupError("the ledger does not balance")

    run, error = fail(tb, says_no, raises)
    assert isinstance(error, RollbackIncomplete) and isinstance(error.__cause__, Stop)
    assert not (tb.root / "made").exists()
    assert run.report.verdict is Verdict.PARTIAL
    assert [check.passed for check in run.report.checks] == [False, False]
    assert "says_no failed: it returned False." in str(error)
    assert "raises failed: LookupError: the ledger does not balance." in str(error)
    assert tb.history.runs[run.id].life is Life.HANDED_OVER


def test_a_rollback_inside_the_run_asks_and_a_preview_does_not(tb: Workspace) -> None:
    asked: list[str] = []
    with tb.run("going on") as run:
        run.after_rollback(lambda report: asked.append(report.rollback))
        here = run.checkpoint()
        (tb.root / "made").write_text("by the agent")
        assert run.rollback(to=here, preview=True).checks == () and asked == []
        report = run.rollback(to=here)
        assert asked == [report.rollback] and [check.passed for check in report.checks] == [True]


def test_a_coroutine_function_is_refused(tb: Workspace) -> None:
    async def later(report: RollbackReport) -> bool:
        return False

    with tb.run("later") as run, pytest.raises(UsageError, match="would not be awaited"):
        run.after_rollback(later)


def test_the_commands_are_asked_after_undo_redo_and_restore(tmp_path: Path) -> None:
    script = "import pathlib; (pathlib.Path(__file__).parent / 'asked').open('a').write('x')"
    with with_commands(tmp_path, script) as tb:
        before = tb.save("before")
        with tb.run("work") as run:
            (tb.root / "made").write_text("by the agent")
        doing: list[Callable[[], RollbackReport]] = [
            lambda: tb.undo(run.id),
            tb.redo,
            lambda: tb.restore(before),
            lambda: tb.undo(preview=True),
        ]
        for number, do in enumerate(doing, 1):
            report = do()
            assert [check.passed for check in report.checks] == ([True, True] if number < 4 else [])
        assert (tmp_path / "asked").read_text() == "xxx"


@pytest.mark.parametrize(
    "script, timeout, why",
    [
        ("import sys; sys.exit('the shop is closed')", 30, "exit code 1: the shop is closed"),
        ("import time; time.sleep(60)", 0.5, "it did not end within 0.5 s"),
    ],
)
def test_a_command_that_fails_makes_an_undo_incomplete(
    tmp_path: Path, script: str, timeout: float, why: str
) -> None:
    with with_commands(tmp_path, script, timeout=timeout) as tb:
        with tb.run("work") as run:
            (tb.root / "made").write_text("by the agent")
        with pytest.raises(RollbackIncomplete) as caught:
            tb.undo(run.id)
        assert [check.passed for check in caught.value.report.checks] == [True, False]
        assert caught.value.report.checks[1].why == why
        assert not (tb.root / "made").exists()


def test_a_command_that_is_not_there_has_failed(tmp_path: Path) -> None:
    with with_commands(tmp_path, "") as tb:
        (tb.root / "takeback.toml").write_text('[checks]\nafter-rollback = ["no-such-command-here", "\'"]\n')
    with takeback.open(tb.root, home=tmp_path / "state", watching=False, accept_config=True) as tb:
        run, error = fail(tb)
        assert isinstance(error, RollbackIncomplete)
        assert [check.why.split(":")[0] for check in run.report.checks] == ["it could not be run"] * 2


def test_commands_that_no_human_accepted_do_not_run(tmp_path: Path) -> None:
    script = "import pathlib; (pathlib.Path(__file__).parent / 'asked').write_text('x')"
    with with_commands(tmp_path, script, accepted=False) as tb:
        run, error = fail(tb)
        assert isinstance(error, Stop) and run.report.checks == ()
    assert not (tmp_path / "asked").exists()
