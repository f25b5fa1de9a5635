"""Killed at every named place, and again while it recovers: each intent has one effect; none if it was taken back."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from takeback.core.intents import IntentState
from takeback.core.lifecycle import Life
from takeback.testing.forks import killed_at, places, run
from takeback.workspace.opening import open_workspace
from tests.crash.points import declared
from tests.outbox import tools
from tests.outbox.conftest import QUICK
from tests.world.settings import write

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
TEXTS = ["a", "b", "c"]
OUTBOX = sorted(point for point in declared() if point.startswith("outbox-"))


class Failure(Exception):
    """The plan failed."""


def prepared(folder: Path, settings: str) -> Path:
    (folder / "work").mkdir(parents=True)
    write(folder / "work", settings, folder / "state")
    os.environ[tools.WORLD] = str(folder / "world")
    return folder


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each case has a world of its own, and none is left behind."""
    monkeypatch.setenv(tools.WORLD, str(tmp_path / "world"))


def send(folder: Path, *, fail: bool = False) -> None:
    """A program that defers three things, and delivers them at its end."""
    with (
        open_workspace(folder / "work", home=folder / "state", watching=False) as tb,
        tb.run("mail", key="K", deliver=True) as run,
    ):
        run.defer(tools.note_once, "a", key="a", order="o")
        with run.step("one"):
            run.defer(tools.note_once, "b", key="b", release="step", order="o")
        run.defer(tools.note_with_undo, "c" * 20_000, key="c")
        if fail:
            raise Failure


def send_and_fail(folder: Path) -> None:
    try:
        send(folder, fail=True)
    except Failure:
        return


def work(folder: Path) -> None:
    """A worker comes by until nothing is left."""
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        while any(
            q.state in (IntentState.DUE, IntentState.QUEUED, IntentState.CLAIMED) for q in tb.outbox.page()
        ):
            tb.courier(concurrency=1).run(once=True)
        assert tb.verify() == []


def undo(folder: Path) -> None:
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        tb.recover()
        for recorded in list(tb.history.runs.values()):
            if recorded.life is not Life.FAILED:
                tb.undo(recorded.id)
        assert tb.verify() == []


def texts() -> list[str]:
    return sorted(text[:1] for what, _, text in tools.said() if what == "sent")


def chosen(passed: list[str], points: list[str]) -> list[int]:
    """The first and the last pass of each place that is ours, and a sample of the others."""
    if ALL:
        return list(range(1, len(passed) + 1))
    first = [passed.index(point) + 1 for point in points]
    last = [len(passed) - passed[::-1].index(point) for point in points]
    return sorted({*first, *last, *range(5, len(passed), max(1, len(passed) // 6))})


@pytest.mark.timeout(1800)
def test_killed_while_it_defers_and_delivers(tmp_path: Path) -> None:
    kill_while_it_sends(tmp_path, QUICK)


@pytest.mark.timeout(1800)
def test_killed_while_it_takes_back(tmp_path: Path) -> None:
    kill_while_it_takes_back(tmp_path, QUICK)


def kill_while_it_sends(tmp_path: Path, settings: str) -> None:
    passed = places(send, prepared(tmp_path / "all", settings), errors=tmp_path / "errors")
    assert texts() == TEXTS, (tmp_path / "errors").read_text()
    points = [point for point in OUTBOX if not point.startswith("outbox-cancel")]
    assert set(points) <= set(passed)
    cases: list[int | str] = [*points, *chosen(passed, points)]
    chance, killed, again = random.Random(3), 0, 0
    for number, place in enumerate(cases):
        folder = prepared(tmp_path / str(number), settings)
        name, errors = passed[place - 1] if isinstance(place, int) else place, folder / "errors"
        # Threads deliver, so the last places do not come as often each time.
        killed += killed_at(place, send, folder, errors=errors)
        again += killed_at(
            chance.randrange(1, len(passed)), chance.choice([send, work]), folder, errors=errors
        )
        assert run(send, folder, errors=errors) == 0, f"{name}: {errors.read_text()}"
        assert run(work, folder, errors=errors) == 0, f"{name}: {errors.read_text()}"
        assert texts() == TEXTS, name
    assert killed >= len(cases) - len(points) and again


def kill_while_it_takes_back(tmp_path: Path, settings: str) -> None:
    passed = places(send_and_fail, prepared(tmp_path / "all", settings), errors=tmp_path / "errors")
    points = [point for point in OUTBOX if point.startswith("outbox-cancel")]
    assert set(points) <= set(passed)
    assert texts() == []
    chance, again = random.Random(4), 0
    for n in chosen(passed, points):
        folder = prepared(tmp_path / str(n), settings)
        errors = folder / "errors"
        assert killed_at(n, send_and_fail, folder, errors=errors), passed[n - 1]
        again += killed_at(chance.randrange(1, len(passed)), undo, folder, errors=errors)
        assert run(undo, folder, errors=errors) == 0, f"{passed[n - 1]}: {errors.read_text()}"
        assert run(work, folder, errors=errors) == 0, f"{passed[n - 1]}: {errors.read_text()}"
        assert texts() == [], passed[n - 1]
    assert again
