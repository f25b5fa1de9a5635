"""takeback.workflow: steps that are done once, over any number of attempts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import takeback
from takeback.workflows.steps import keep_for_run

from .helpers import living, read, record, run, start

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
    run(tmp_path, "update", "--workflow", "nightly", "--complete", "fetch", "--step", "send")
    with takeback.workflow("nightly", key="nightly-1", steps=STEPS, root=tmp_path) as work:
        assert work.remaining == ["send", "report"]
        assert run(tmp_path, "resume").stdout == "NO_CHECKPOINT\n", "we hold it"
        work.call("send", work.note, "half way")
    assert record(run(tmp_path, "resume"))["notes"] == "half way"


def test_it_is_busy_while_another_process_works_on_it(tmp_path: Path) -> None:
    start(tmp_path, "nightly", key="nightly-1")
    with living() as pid:
        run(tmp_path, "resume", "--owner-pid", str(pid))
        with pytest.raises(takeback.RunBusy, match=f"process {pid}"):
            takeback.workflow("nightly", key="nightly-1", steps=STEPS, root=tmp_path)


def test_a_stolen_lock_stops_the_old_worker(tmp_path: Path) -> None:
    with takeback.workflow("nightly", key="k", steps=STEPS, root=tmp_path) as work:
        run(tmp_path, "resume", "--steal-lock")
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


def test_a_run_of_the_engine_keeps_the_same_file(tmp_path: Path) -> None:
    kept = keep_for_run(tmp_path, "r5", key="billing", steps=["edit", "migrate"], agent="codex")
    with kept.step("edit"):
        assert read(tmp_path, "r5")["currentStep"] == "edit"
    assert read(tmp_path, "r5")["completedSteps"] == ["edit"]
    kept.end("failed")
    assert read(tmp_path, "r5")["status"] == "failed"
    assert not (tmp_path / "memory/checkpoints/r5.lock").exists()


def test_no_steps_make_no_workflow(tmp_path: Path) -> None:
    with pytest.raises(takeback.UsageError):
        takeback.workflow("nightly", key="k", steps=[], root=tmp_path)
