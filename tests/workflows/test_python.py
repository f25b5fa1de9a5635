"""takeback.workflow: steps that are done once, over any number of attempts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.workspace.opening import open_workspace

from .helpers import expire, living, place, read, record, run, start

STEPS = ["fetch", "send", "report"]


def attempt(root: Path, did: list[str], fail_at: str = "") -> takeback.Workflow:
    with takeback.workflow("nightly", key="nightly-1", steps=STEPS, root=root) as work:
        for name in STEPS:
            with work.step(name) as step:
                if not step.done:
                    if name == fail_at:
                        raise OSError("the network is down")
                    did.append(step.key)
    return work


def test_each_step_is_done_once_over_attempts(tmp_path: Path) -> None:
    did: list[str] = []
    for fail_at in ("send", "report"):
        with pytest.raises(OSError, match="network"):
            attempt(tmp_path, did, fail_at)
        assert (read(tmp_path, "nightly")["status"], read(tmp_path, "nightly")["currentStep"]) == (
            "in_progress",
            fail_at,
        )
        assert not (tmp_path / "memory/checkpoints/nightly.lock").exists(), "the next one may go on"
    work = attempt(tmp_path, did)
    assert work.finished and repr(work) == "<Workflow nightly done, 3 done, 0 remaining>"
    assert did == ["nightly-1:fetch", "nightly-1:send", "nightly-1:report"]
    attempt(tmp_path, did)
    assert len(did) == 3, "a finished workflow does nothing"


def test_it_is_the_same_file_as_the_scripts(tmp_path: Path) -> None:
    start(tmp_path, "nightly", "--remaining", "send", "report", key="nightly-1")
    run(tmp_path, "update", "--workflow", "nightly", "--complete", "one", "--step", "send")
    with takeback.workflow("nightly", key="nightly-1", steps=STEPS, root=tmp_path) as work:
        assert work.remaining == ["send", "report"]
        with living() as pid:
            said = run(tmp_path, "resume", "--owner-pid", str(pid)).stdout
        assert said == "NO_CHECKPOINT\n", "we hold it"
        work.call("send", work.note, "half way")
    assert record(run(tmp_path, "resume"))["notes"] == "half way"


def test_it_is_busy_while_another_process_works_on_it(tmp_path: Path) -> None:
    start(tmp_path, "nightly", key="nightly-1")
    with living() as pid:
        run(tmp_path, "resume", "--owner-pid", str(pid))
        with pytest.raises(takeback.RunBusy, match=f"process {pid}"):
            takeback.workflow("nightly", key="nightly-1", steps=STEPS, root=tmp_path)


def test_it_is_busy_while_this_very_process_works_on_it(tmp_path: Path) -> None:
    """Two threads are one process, and yet two workers."""
    with (
        takeback.workflow("nightly", key="k", steps=STEPS, root=tmp_path),
        pytest.raises(takeback.RunBusy),
    ):
        takeback.workflow("nightly", key="k", steps=STEPS, root=tmp_path)


def test_a_stolen_lock_stops_the_old_worker(tmp_path: Path) -> None:
    with takeback.workflow("nightly", key="k", steps=STEPS, root=tmp_path) as work, living() as pid:
        run(tmp_path, "resume", "--steal-lock", "--owner-pid", str(pid))
        with pytest.raises(takeback.LeaseLost), work.step("fetch"):
            pass
    assert read(tmp_path, "nightly")["completedSteps"] == []


def test_a_killed_process_is_continued(tmp_path: Path) -> None:
    code = f"""
import os, takeback
with takeback.workflow("nightly", key="k", steps={STEPS}, root={str(tmp_path)!r}) as work:
    with work.step("fetch"): pass
    with work.step("send"): os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    with takeback.workflow("nightly", key="k", steps=STEPS, root=tmp_path) as work:
        assert work.remaining == ["send", "report"]


def test_a_blocked_one_says_why(tmp_path: Path) -> None:
    with takeback.workflow("nightly", key="k", steps=STEPS, root=tmp_path) as work:
        work.block("waits for a human")
    assert (read(tmp_path, "nightly")["status"], read(tmp_path, "nightly")["notes"]) == (
        "blocked",
        "waits for a human",
    )


@pytest.fixture
def tb(tmp_path: Path) -> Iterator[takeback.Workspace]:
    root = tmp_path / "work"
    root.mkdir()
    with open_workspace(root, home=tmp_path / "state", watching=False) as workspace:
        yield workspace


def only_file(tb: takeback.Workspace) -> dict[str, Any]:
    (path,) = (tb.root / "memory/checkpoints").glob("*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_run_of_the_engine_keeps_the_same_file(tb: takeback.Workspace) -> None:
    with tb.run("add billing", key="billing", steps=["edit", "migrate"]) as task:
        with task.step("edit"):
            assert only_file(tb)["currentStep"] == "edit"
        kept = only_file(tb)
        assert (kept["status"], kept["completedSteps"]) == ("in_progress", ["edit"])
        with task.step("migrate"):
            pass
    kept = only_file(tb)
    assert (kept["status"], kept["completedSteps"]) == ("done", ["edit", "migrate"])
    assert kept["workflowId"].startswith("add-billing-") and kept["idempotencyKey"] == "billing"


def test_a_failed_run_says_so_and_the_next_attempt_has_a_file_of_its_own(tb: takeback.Workspace) -> None:
    with (
        pytest.raises(ValueError, match="no"),
        tb.run("task", key="k", steps=["one"]) as task,
        task.step("one"),
    ):
        raise ValueError("no")
    assert (only_file(tb)["status"], only_file(tb)["completedSteps"]) == ("failed", [])
    with tb.run("task", key="k", steps=["one"]) as task, task.step("one"):
        pass
    states = [json.loads(p.read_text())["status"] for p in (tb.root / "memory/checkpoints").glob("*.json")]
    assert sorted(states) == ["done", "failed"]


def test_a_run_that_waits_for_a_human_is_blocked(tb: takeback.Workspace) -> None:
    with pytest.raises(takeback.HandedOver), tb.run("task", key="k", steps=["one"]) as task:
        task.hand_over("help")
    assert only_file(tb)["status"] == "blocked"


def test_a_file_that_another_holds_leaves_an_earlier_attempt_as_it_is(tb: takeback.Workspace) -> None:
    (tb.root / "plan").write_text("old")

    def attempt() -> None:
        with tb.run("task", key="k", steps=["one", "two"]) as task:
            with task.step("one"):
                (tb.root / "plan").write_text("new")
            task.hand_over("look")

    with pytest.raises(takeback.HandedOver):
        attempt()
    (task,) = tb.handovers()
    assert only_file(tb)["status"] == "blocked"
    tb.give_back(task.id)
    with living() as other:
        resumed = run(tb.root, "resume", "--workflow", only_file(tb)["workflowId"], "--owner-pid", str(other))
        assert resumed.returncode == 0, resumed.stderr
        for _ in range(2):
            with pytest.raises(takeback.RunBusy), tb.run("task", key="k", steps=["one", "two"]):
                raise AssertionError("it was begun")
        assert (tb.root / "plan").read_text() == "new", "what the first attempt did stays"
        assert tb.history.runs[task.id].life == "interrupted"
    with tb.run("task", key="k", steps=["one", "two"]) as again:
        assert only_file(tb)["status"] == "in_progress"
        with again.step("one") as one:
            assert one.done
        with again.step("two"):
            pass
    assert again.id == task.id and only_file(tb)["status"] == "done"


def test_a_run_with_a_file_needs_a_key(tb: takeback.Workspace) -> None:
    with pytest.raises(takeback.UsageError, match="needs a key"):
        tb.run("task", steps=["one"])
    assert not (tb.root / "memory").exists()


def test_no_steps_make_no_workflow(tmp_path: Path) -> None:
    with pytest.raises(takeback.UsageError):
        takeback.workflow("nightly", key="k", steps=[], root=tmp_path)


def test_when_it_is_done_every_step_is(tmp_path: Path) -> None:
    """Somebody else called it done, without naming a step."""
    start(tmp_path, "nightly", key="nightly-1")
    run(tmp_path, "complete", "--workflow", "nightly")
    did: list[str] = []
    for _ in range(2):
        work = attempt(tmp_path, did)
        assert work.finished and work.remaining == []
    assert did == []


def test_one_that_failed_is_not_done_again(tmp_path: Path) -> None:
    start(tmp_path, "nightly", "--remaining", "send", "report", key="nightly-1")
    run(tmp_path, "update", "--workflow", "nightly", "--status", "failed")
    did: list[str] = []
    with pytest.raises(takeback.UsageError, match="has failed") as caught:
        attempt(tmp_path, did)
    assert did == [] and "another id and key" in caught.value.hint
    run(tmp_path, "update", "--workflow", "nightly", "--status", "in_progress", "--complete", "one")
    attempt(tmp_path, did)
    assert did[-2:] == ["nightly-1:send", "nightly-1:report"], "what the hint says works"


def test_one_that_expired_says_so(tmp_path: Path) -> None:
    start(tmp_path, "nightly", "--remaining", "send", "report", key="nightly-1")
    expire(tmp_path, "nightly", 1_000_000_000)
    with pytest.raises(takeback.UsageError, match="expired at 2001") as caught:
        attempt(tmp_path, [])
    assert "update --workflow nightly" in caught.value.hint
    run(tmp_path, "update", "--workflow", "nightly", "--complete", "one")
    did: list[str] = []
    attempt(tmp_path, did)
    assert "nightly-1:send" in did, "what the hint says works"


def test_a_step_that_was_left_out_is_not_forgotten(tmp_path: Path) -> None:
    with takeback.workflow("nightly", key="k", steps=STEPS, root=tmp_path) as work:
        work.call("report", str)
        work.call("send", str)
        assert work.remaining == ["fetch"]
    assert (read(tmp_path, "nightly")["status"], read(tmp_path, "nightly")["currentStep"]) == (
        "in_progress",
        "fetch",
    )
    with takeback.workflow("nightly", key="k", steps=STEPS, root=tmp_path) as work:
        work.call("fetch", str)
    assert work.finished


def test_two_steps_have_two_names(tmp_path: Path) -> None:
    with pytest.raises(takeback.UsageError, match="same name"):
        takeback.workflow("nightly", key="k", steps=["send", "wait", "send"], root=tmp_path)
    start(tmp_path, "w1", "--remaining", "two", "two", code=2)
    start(tmp_path, "w1", "--remaining", "two", "one", code=2)
    assert not place(tmp_path, "w1").exists()
    assert start(tmp_path, "w1", "--remaining", "one", "two")["remainingSteps"] == ["one", "two"]
