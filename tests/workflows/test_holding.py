"""Who may work on a workflow: exactly one, however many ask at once; and never one that is dead."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import LeaseLost
from takeback.workflows.checkpoints import Checkpoints
from takeback.workflows.owners import describe, encode_holder, here, lives, renewed

from .helpers import ALONE, EVERYTHING, TOOL, dead, living, place, record, run, start

ROUNDS = 1_000 if EVERYTHING else 20
TAKEN = "NO_CHECKPOINT\n"


@pytest.mark.timeout(600)
def test_two_agents_resuming_at_once(tmp_path: Path) -> None:
    """Two real processes, each for a living owner of its own: one gets it, the other does not."""
    with living() as one, living() as other:
        for number in range(ROUNDS):
            root = tmp_path / str(number)
            root.mkdir()
            with Checkpoints(str(root)) as checkpoints:
                checkpoints.start("w", agent="a", step="one", key="k")
            racers = [
                subprocess.Popen(
                    [*ALONE, str(TOOL), "resume", "--owner-pid", str(pid)],
                    cwd=root,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
                for pid in (one, other)
            ]
            said = sorted(racer.communicate(timeout=60)[0] for racer in racers)
            assert said[0] == TAKEN and json.loads(said[1])["workflowId"] == "w", (number, said)
            holder = json.loads((root / "memory/checkpoints/w.lock").read_text())
            assert holder["pid"] in (one, other)


def test_many_agents_get_many_workflows_each_once(tmp_path: Path) -> None:
    ids = [f"w{number}" for number in range(6)]
    for id in ids:
        start(tmp_path, id)
    with ExitStack() as lives_on:
        racers = [
            subprocess.Popen(
                [*ALONE, str(TOOL), "resume", "--owner-pid", str(lives_on.enter_context(living()))],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(8)
        ]
        said = [racer.communicate(timeout=60)[0].decode() for racer in racers]
    assert said.count(TAKEN) == 2
    assert sorted(json.loads(text)["workflowId"] for text in said if text != TAKEN) == ids


def test_a_living_holder_keeps_it_and_a_dead_one_does_not(tmp_path: Path) -> None:
    start(tmp_path)
    with living() as pid:
        run(tmp_path, "resume", "--owner-pid", str(pid))
        again = run(tmp_path, "resume")
        assert again.stdout == TAKEN and f"held by process {pid}" in again.stderr
        assert run(tmp_path, "resume", "--workflow", "w1").stdout == TAKEN
        assert f"held by process {pid}" in run(tmp_path, "list").stdout
    assert record(run(tmp_path, "resume"))["workflowId"] == "w1"


def test_a_zombie_is_dead(tmp_path: Path) -> None:
    start(tmp_path)
    process = subprocess.Popen(["sleep", "600"])
    run(tmp_path, "resume", "--owner-pid", str(process.pid))
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet taken notice of
    assert record(run(tmp_path, "resume"))["workflowId"] == "w1"
    process.wait()


def test_by_default_the_parent_is_the_owner(tmp_path: Path) -> None:
    start(tmp_path)
    run(tmp_path, "resume")
    holder = json.loads((tmp_path / "memory/checkpoints/w1.lock").read_text())
    assert holder["pid"] == os.getpid()
    with living() as pid:
        assert run(tmp_path, "resume", "--owner-pid", str(pid)).stdout == TAKEN, "we live"


def test_its_owner_gets_it_back(tmp_path: Path) -> None:
    """An agent that has forgotten what it holds asks again; what is free comes first."""
    start(tmp_path, "a", "--handoff", "me")
    with living() as pid:
        me = ("resume", "--owner-pid", str(pid))
        lock = tmp_path / "memory/checkpoints/a.lock"
        assert record(run(tmp_path, *me))["workflowId"] == "a"
        token = json.loads(lock.read_text())["token"]
        for words in (me, (*me, "--workflow", "a"), (*me, "--steal-lock")):
            assert record(run(tmp_path, *words))["workflowId"] == "a"
            assert json.loads(lock.read_text())["token"] == token
        start(tmp_path, "b")
        assert record(run(tmp_path, *me))["workflowId"] == "b"
        assert run(tmp_path, "resume").stdout == TAKEN, "another one does not get it"


def test_one_that_its_owner_started_does_not_get_it(tmp_path: Path) -> None:
    """There may be several of those; only one may have the work."""
    start(tmp_path, "w1", "--owner-pid", str(os.getpid()))
    with living() as child:
        assert run(tmp_path, "resume", "--owner-pid", str(child)).stdout == TAKEN
        start(tmp_path, "w1", "--owner-pid", str(child), code=3)


def test_a_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    start(tmp_path)
    with living() as pid:
        run(tmp_path, "resume", "--owner-pid", str(pid))
        path = tmp_path / "memory/checkpoints/w1.lock"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"started": "1"}))
        assert record(run(tmp_path, "resume"))["workflowId"] == "w1"


def test_a_dead_process_cannot_become_the_owner(tmp_path: Path) -> None:
    start(tmp_path)
    assert "is not running" in run(tmp_path, "resume", "--owner-pid", str(dead()), code=2).stderr


def test_a_lock_can_be_stolen_and_the_old_holder_is_told(tmp_path: Path) -> None:
    start(tmp_path)
    with living() as one, living() as other:
        run(tmp_path, "resume", "--owner-pid", str(one))
        run(tmp_path, "resume", "--steal-lock", "--owner-pid", str(other))
        before = place(tmp_path, "w1").read_bytes()
        words = ("--workflow", "w1", "--owner-pid", str(one))
        for command in (("update", *words, "--complete", "one"), ("complete", *words)):
            assert f"held by process {other}" in run(tmp_path, *command, code=3).stderr
        assert place(tmp_path, "w1").read_bytes() == before
        run(tmp_path, "complete", "--workflow", "w1", "--owner-pid", str(other))
    assert not (tmp_path / "memory/checkpoints/w1.lock").exists()


def test_what_is_free_is_taken_before_anything_is_stolen(tmp_path: Path) -> None:
    start(tmp_path, "a")
    start(tmp_path, "b")
    run(tmp_path, "resume", "--workflow", "a")
    assert record(run(tmp_path, "resume", "--steal-lock"))["workflowId"] == "b"
    assert record(run(tmp_path, "resume", "--steal-lock"))["workflowId"] == "a"


@pytest.mark.parametrize(
    "ending", [("complete",), ("update", "--status", "failed"), ("update", "--status", "done")]
)
def test_the_end_releases_the_lock(ending: tuple[str, ...], tmp_path: Path) -> None:
    start(tmp_path)
    run(tmp_path, "resume")
    run(tmp_path, ending[0], "--workflow", "w1", *ending[1:])
    assert not (tmp_path / "memory/checkpoints/w1.lock").exists()


def test_start_holds_it_for_an_owner_that_is_named(tmp_path: Path) -> None:
    with living() as pid:
        start(tmp_path, "w1", "--owner-pid", str(pid))
        assert run(tmp_path, "resume").stdout == TAKEN


def test_by_default_start_holds_it_for_the_parent(tmp_path: Path) -> None:
    words = ("start", "--workflow", "w1", "--agent", "a", "--step", "one", "--idempotency", "key-w1")
    begun = record(run(tmp_path, *words))
    holder = json.loads((tmp_path / "memory/checkpoints/w1.lock").read_text())
    assert holder["pid"] == os.getpid()
    with living() as pid:
        assert run(tmp_path, "resume", "--owner-pid", str(pid)).stdout == TAKEN
        said = run(tmp_path, *words, "--owner-pid", str(os.getppid()), code=3).stderr
        assert f"held by process {os.getpid()}" in said
    assert record(run(tmp_path, *words)) == begun, "the same one finds it again"
    assert record(run(tmp_path, "resume", "--workflow", "w1")) == begun


def test_a_shell_that_ends_leaves_it_free(tmp_path: Path) -> None:
    words = [
        *ALONE,
        str(TOOL),
        "start",
        "--workflow",
        "w1",
        "--agent",
        "a",
        "--step",
        "one",
        "--idempotency",
        "k",
    ]
    subprocess.run(["sh", "-c", '"$@"; true', "sh", *words], cwd=tmp_path, check=True, capture_output=True)
    with living() as pid:
        assert record(run(tmp_path, "resume", "--owner-pid", str(pid)))["workflowId"] == "w1"


def test_a_second_start_takes_what_is_free_and_not_what_is_held(tmp_path: Path) -> None:
    start(tmp_path)
    with living() as one, living() as other:
        assert start(tmp_path, "w1", "--owner-pid", str(one))["workflowId"] == "w1"
        start(tmp_path, "w1", "--owner-pid", str(other), code=3)
        assert f"held by process {one}" in run(tmp_path, "list").stdout
    run(tmp_path, "complete", "--workflow", "w1")
    start(tmp_path, "w1", "--owner-pid", str(os.getpid()))
    assert not (tmp_path / "memory/checkpoints/w1.lock").exists(), "what is done is held by nobody"


def test_a_dead_owner_starts_nothing(tmp_path: Path) -> None:
    start(tmp_path, "w1", "--owner-pid", str(dead()), code=2)
    assert not place(tmp_path, "w1").exists()


# The lease, where no kernel can tell


def elsewhere(now_s: float, **changes: str) -> dict[str, Any]:
    return renewed(describe(os.getpid(), now_s) | {"host": "far", "boot": "other"} | changes, now_s)


def test_on_another_machine_the_lease_decides() -> None:
    assert lives(elsewhere(1000), 1000 + 899)
    assert not lives(elsewhere(1000), 1000 + 901)


def test_in_another_container_of_this_machine_the_lease_decides() -> None:
    holder = renewed(describe(os.getpid(), 1000) | {"space": "pid:[1]", "pid": 999_999}, 1000)
    assert lives(holder, 1000 + 899) and not lives(holder, 1000 + 901)


def test_after_a_restart_of_this_machine_nobody_holds_anything() -> None:
    holder = renewed(describe(os.getpid(), 1000) | {"boot": "the one before"}, 1000)
    assert not lives(holder, 1001)


def test_an_update_renews_the_lease(tmp_path: Path) -> None:
    now = [1_000_000_000.0]
    with Checkpoints(str(tmp_path), clock=lambda: now[0]) as checkpoints:
        checkpoints.start("w", agent="a", step="one", key="k")
        lock = tmp_path / "memory/checkpoints/w.lock"
        lock.write_bytes(encode_holder(elsewhere(now[0])))
        now[0] += 600
        checkpoints.update("w", notes="still at it")
        now[0] += 600
        assert checkpoints.resume(owner_pid=os.getpid()) is None
        now[0] += 600
        assert checkpoints.resume(owner_pid=os.getpid())


@pytest.mark.parametrize("jump_s", [10 * 365 * 86_400.0, -10 * 365 * 86_400.0])
def test_no_jump_of_the_clock_takes_a_living_holders_lock(jump_s: float, tmp_path: Path) -> None:
    now = [1_500_000_000.0]
    with Checkpoints(str(tmp_path), clock=lambda: now[0]) as checkpoints, living() as pid:
        checkpoints.start("w", agent="a", step="one", key="k", ttl_days=3650)
        checkpoints.resume(owner_pid=pid)
        now[0] += jump_s / 2
        assert checkpoints.resume(owner_pid=os.getpid()) is None


@pytest.mark.parametrize("text", ["", "nonsense", "{}", '{"pid": "x"}', "[]", '{"pid": 1, "leaseUntil": 3}'])
def test_a_lock_that_says_nothing_holds_nothing(text: str, tmp_path: Path) -> None:
    start(tmp_path)
    (tmp_path / "memory/checkpoints/w1.lock").write_text(text)
    assert record(run(tmp_path, "resume"))["workflowId"] == "w1"


ODD: list[dict[str, Any]] = [
    {"pid": 5, "leaseUntil": "2099-01-01T00:00:00+00:00"},
    {"pid": 5, "leaseUntil": "2099-01-01T00:00:00+00:00", **here()},
    {"pid": True, "started": "", "token": "", "leaseUntil": "2099-01-01T00:00:00+00:00", **here()},
    *(
        {**elsewhere(4e9), name: ["x"]}
        for name in ("started", "token", "host", "boot", "space", "leaseUntil")
    ),
]


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_lock_blocks_nothing(odd: dict[str, Any], tmp_path: Path) -> None:
    start(tmp_path, "a")
    start(tmp_path, "b")
    (tmp_path / "memory/checkpoints/a.lock").write_text(json.dumps(odd))
    assert [line[0] for line in run(tmp_path, "list").stdout.splitlines()] == ["a", "b"]
    assert record(run(tmp_path, "resume", "--workflow", "b"))["workflowId"] == "b"
    assert record(run(tmp_path, "resume"))["workflowId"] == "a", "nobody can be shown to hold it"


def test_a_token_is_checked(tmp_path: Path) -> None:
    with Checkpoints(str(tmp_path)) as checkpoints, living() as pid:
        checkpoints.start("w", agent="a", step="one", key="k", owner_pid=pid)
        with pytest.raises(LeaseLost):
            checkpoints.update("w", complete="one", token="wrong")
        checkpoints.release("w", "wrong")
        assert checkpoints.holder(checkpoints.get("w"))
