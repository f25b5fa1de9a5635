"""An alert comes only past the threshold; only what has expired is cleaned up; a clock may jump."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.stale import stale

from .helpers import DAY_S, SELFCHECK, expire, living, place, rewrite, run, start


def check(root: Path, *words: str, code: int) -> str:
    return run(root, *words, script=SELFCHECK, code=code).stdout


def test_an_alert_only_past_the_threshold(tmp_path: Path) -> None:
    assert check(tmp_path, code=0) == "OK\n"
    start(tmp_path)
    assert check(tmp_path, code=0) == "OK\n"
    rewrite(tmp_path, "w1", updated_s=time.time() - 9.5 * 60)
    assert check(tmp_path, "--stale-min", "10", code=0) == "OK\n"
    assert check(tmp_path, "--stale-min", "9.25", code=1).startswith(
        "ALERT stale_checkpoints=1 threshold_min=9.25\n"
    )
    rewrite(tmp_path, "w1", updated_s=time.time() - 10.5 * 60)
    said = check(tmp_path, "--root", str(tmp_path), code=1)
    assert (
        said == f"ALERT stale_checkpoints=1 threshold_min=10\n- a:w1 age=10m file={place(tmp_path, 'w1')}\n"
    )
    found = json.loads(check(tmp_path, "--json", code=1))
    assert (found["status"], found["count"], found["findings"][0]["ageMinutes"]) == ("alert", 1, 10)
    run(tmp_path, "update", "--workflow", "w1")
    assert check(tmp_path, code=0) == "OK\n", "an update without a change says that it lives"


def test_real_time_passes(tmp_path: Path) -> None:
    start(tmp_path)
    assert check(tmp_path, "--stale-min", "0.5", code=0) == "OK\n"
    time.sleep(0.7)  # the only wait here: that time alone makes it stale is the point
    assert "stale_checkpoints=1 threshold_min=0.01" in check(tmp_path, "--stale-min", "0.01", code=1)


@pytest.mark.parametrize("status", ["done", "failed", "blocked"])
def test_what_is_finished_is_never_stale(status: str, tmp_path: Path) -> None:
    start(tmp_path)
    rewrite(tmp_path, "w1", updated_s=0, status=status)
    check(tmp_path, code=1 if status == "blocked" else 0)


def test_an_agents_own_folder_is_looked_into(tmp_path: Path) -> None:
    start(tmp_path, "w1", "--per-agent")
    os.replace(tmp_path / "agents/a/memory/checkpoints/w1.json", tmp_path / "x")
    (tmp_path / "memory/checkpoints/w1.json").write_bytes((tmp_path / "x").read_bytes())
    rewrite(tmp_path, "w1", updated_s=0)
    os.replace(place(tmp_path, "w1"), tmp_path / "agents/a/memory/checkpoints/w1.json")
    assert "agents/a/memory" in check(tmp_path, code=1)


def test_a_bad_file_hides_no_stale_one_and_is_told_when_it_is_old(tmp_path: Path) -> None:
    start(tmp_path, "a-bad")
    start(tmp_path, "b")
    place(tmp_path, "a-bad").write_text("{")
    assert check(tmp_path, code=0) == "OK\n"
    rewrite(tmp_path, "b", updated_s=0)
    os.utime(place(tmp_path, "a-bad"), (0, 0))
    lines = check(tmp_path, code=1).splitlines()
    assert lines[0] == "ALERT stale_checkpoints=1 threshold_min=10"
    assert lines[1].startswith("INVALID a-bad.json") and lines[2].startswith("- a:b ")


def test_expiry_cleans_only_what_has_expired(tmp_path: Path) -> None:
    now = time.time()
    for id in ("done-old", "failed-old", "open-old", "done-new", "open-new", "held-old"):
        start(tmp_path, id)
    for id in ("done-old", "done-new"):
        run(tmp_path, "complete", "--workflow", id)
    run(tmp_path, "update", "--workflow", "failed-old", "--status", "failed")
    for id in ("done-old", "failed-old", "open-old", "held-old"):
        expire(tmp_path, id, now - 60)
    with living() as pid:
        with Checkpoints(str(tmp_path), clock=lambda: now - 120) as earlier:
            assert earlier.resume("held-old", owner_pid=pid)
        assert "open-old" not in run(tmp_path, "resume").stdout, "what has expired is not resumed"
        before = sorted(path.name for path in tmp_path.rglob("*"))
        would = run(tmp_path, "prune", "--dry-run").stdout
        assert before == sorted(path.name for path in tmp_path.rglob("*"))
        did = run(tmp_path, "prune").stdout
    assert would.replace("would be ", "") == did
    assert [line.partition(":")[0] for line in did.splitlines()] == ["removed", "removed", "set aside"]
    folder = tmp_path / "memory/checkpoints"
    assert sorted(path.stem for path in folder.glob("*.json")) == ["done-new", "held-old", "open-new"]
    assert [path.name.partition(".")[0] for path in (folder / "set-aside").iterdir()] == ["open-old"]
    assert run(tmp_path, "prune").stdout.startswith("set aside"), "its holder is dead now"


def test_set_aside_work_goes_30_days_later(tmp_path: Path) -> None:
    now = [time.time()]
    with Checkpoints(str(tmp_path), clock=lambda: now[0]) as checkpoints:
        checkpoints.start("w", agent="a", step="one", key="k")
        now[0] += 8 * DAY_S
        assert [did for _, did in checkpoints.prune()] == ["set aside"]
        now[0] += 29 * DAY_S
        assert checkpoints.prune() == []
        now[0] += 2 * DAY_S
        assert [did for _, did in checkpoints.prune()] == ["removed"]


def test_a_clock_that_runs_ahead_costs_nobody_their_work(tmp_path: Path) -> None:
    """Ten years ahead for an hour, with the pruning of that hour; then it is set right."""
    start(tmp_path)
    with Checkpoints(str(tmp_path), clock=lambda: time.time() + 3650 * DAY_S) as ahead:
        assert ahead.resume(owner_pid=os.getpid()) is None
        for _ in range(3):
            ahead.prune()
    (kept,) = (tmp_path / "memory/checkpoints/set-aside").iterdir()
    kept.rename(place(tmp_path, "w1"))
    assert run(tmp_path, "resume").stdout != "NO_CHECKPOINT\n"


def test_a_time_that_lies_ahead_is_told(tmp_path: Path) -> None:
    start(tmp_path)
    now = time.time()
    rewrite(tmp_path, "w1", updated_s=now + 30)
    assert check(tmp_path, code=0) == "OK\n", "two clocks never agree to the second"
    rewrite(tmp_path, "w1", updated_s=now + 3600)
    assert "stale_checkpoints=1" in check(tmp_path, code=1)
    with Checkpoints(str(tmp_path)) as checkpoints:
        assert "clock was set back" in stale(checkpoints, 10)[0]["reason"]
    run(tmp_path, "update", "--workflow", "w1", "--complete", "one")
    assert check(tmp_path, code=0) == "OK\n", "the next update puts it right"
