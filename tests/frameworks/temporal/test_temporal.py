"""The plugin for Temporal's workers: attempts of activities in processes of their own, killed and taken back."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.errors import UsageError
from takeback.frameworks import supported
from tests.frameworks.contract import World
from tests.frameworks.environments import ROOT, driven, python_of, variables

pytestmark = pytest.mark.sweep


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World("temporal", tmp_path, monkeypatch)


def attempt(*words: str, code: int = 0) -> Any:
    done = driven("temporal", "tests.frameworks.temporal.attempt", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if code == 0 else None


def killed(when: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setenv("DIE", when)
    attempt(*words, code=-9)
    monkeypatch.delenv("DIE")


@pytest.mark.parametrize("when, text", [("in book", "found"), ("after book", "booked attic")])
def test_an_activity_is_made_once_over_a_kill(
    when: str, text: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(when, monkeypatch, "book", "attic")
    assert attempt("book", "attic") == {"result": ["Order", "attic", text]}
    assert world.rooms == ["attic"]


def test_an_activity_in_doubt_is_not_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    killed("in reserve", monkeypatch, "reserve", "attic")
    told = attempt("reserve", "attic")
    assert told["error"] == "TakebackRefused" and told["final"] and "in doubt" in told["why"]
    assert world.rooms == ["attic"]


def test_an_activity_that_raised_without_a_check_is_in_doubt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIL", "1")
    assert attempt("reserve", "attic") == {"error": "the other system is down"}
    monkeypatch.delenv("FAIL")
    assert attempt("reserve", "attic")["error"] == "TakebackRefused"
    assert world.rooms == ["attic"]


def test_a_payment_waits_for_approval(world: World) -> None:
    told = attempt("pay", "attic")
    assert (told["error"], told["final"]) == ("TakebackApproval", False)
    assert world.rows("payments") == []
    with takeback.open(world.work) as tb:
        [asked] = tb.approvals()
        tb.approve(asked.id)
    assert attempt("pay", "attic") == {"result": ["Order", "attic", "paid 7"]}
    assert attempt("pay", "attic") == {"result": ["Order", "attic", "paid 7"]}
    assert world.rows("payments") == [{"amount": 7}]


def test_a_run_is_taken_back(world: World) -> None:
    attempt("book", "attic")
    attempt("book", "barn")
    assert world.rooms == ["attic", "barn"]
    assert attempt("back") == {"verdict": "clean"}
    assert world.rooms == []
    # An attempt after that is a new one.
    assert attempt("book", "attic") == {"result": ["Order", "attic", "booked attic"]}
    assert world.rooms == ["attic"]


def test_an_attempt_beside_an_earlier_one_is_put_off(world: World) -> None:
    assert attempt("at once", "attic") == {"refused": "TakebackBusy"}
    assert world.rooms == ["attic"]


def test_an_activity_whose_result_cannot_be_sent_is_not_made_again(world: World) -> None:
    attempt("strange", "attic")
    told = attempt("strange", "attic")
    assert (told["error"], told["final"]) == ("TakebackRefused", True) and world.rooms == ["attic"]


def test_a_worker_gets_the_interceptor(world: World) -> None:
    assert attempt("configured") == {"interceptors": ["_ActionInterceptor"]}


def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("temporal"), str(ROOT / "examples/temporal_activity.py"), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-4:-2] == ["  the activity returned: booked the attic", "  booked: ['attic']"]
    assert lines[-2].startswith("  Took back 1 change: compensated book") and lines[-1] == "  booked: []"


def test_nothing_of_temporal_is_imported_before_it_is_used() -> None:
    import takeback.frameworks.temporal as adapter

    assert "temporalio" not in sys.modules  # it is not even installed here
    with pytest.raises(UsageError, match="temporalio is not installed") as missing:
        _ = adapter.TakebackPlugin
    assert "pip install 'takeback[temporal]'" in missing.value.hint


@pytest.mark.parametrize("version", ["1.34.9", "2.0"])
def test_a_version_that_does_not_work_is_named(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    with pytest.raises(UsageError, match=f"temporalio {version} does not work") as refused:
        supported.require("temporal", supported.TEMPORAL)
    assert refused.value.hint == "pip install 'temporalio>=1.35,<2'"
