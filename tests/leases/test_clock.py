"""A clock that jumps an hour on one machine frees no lease and no claim: real processes with another time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from takeback.core.intents import IntentState
from takeback.core.leases import Holder
from takeback.errors import LeaseHeld
from takeback.testing.crash import child_environment
from takeback.workspace.opening import open_workspace
from tests.clocks import another_time
from tests.leases.test_processes import prepared
from tests.outbox import tools

HOUR_S = 3600

# Holds a lock, goes on when it is told to, and says what became of it.
HOLDER = """
import sys, time, takeback
with takeback.open(sys.argv[1]) as tb, tb.run("holder") as run, run.lock("src", ttl_s=120) as lock:
    print(time.time(), flush=True)
    sys.stdin.readline()
    tb.leases.store.renew([lock.fence])
    run.call(print, "still mine")
    print(time.time(), flush=True)
"""


def elsewhen(words: list[str], at: Path | str, **more: Any) -> subprocess.Popen[str]:
    """Start a program with another time: as much later as `at` says, or as the file `at` says now."""
    env = {**child_environment(), "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    if isinstance(at, Path):
        env |= {"FAKETIME_TIMESTAMP_FILE": str(at), "FAKETIME_NO_CACHE": "1"}
        # Without the variable the file counts.
        command = [*another_time("+0"), "env", "-u", "FAKETIME", *words]
    else:
        command = [*another_time(at), *words]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def takeback(root: Path, at: str, *words: str) -> tuple[int, str, str]:
    process = elsewhen([sys.executable, "-m", "takeback", "-C", str(root), *words], at)
    said, wrong = process.communicate()
    return process.returncode, said, wrong


def test_a_clock_that_jumps_frees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jump(prepared(tmp_path), monkeypatch)


def jump(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_HOME", str(folder / "state"))
    monkeypatch.setenv(tools.WORLD, str(folder / "world"))
    root = folder / "work"
    with open_workspace(root, watching=False) as tb:
        with tb.run("mail") as run:
            run.defer(tools.note, "mine")
        (claimed,) = tb.outbox.claim("somebody on another machine", 1, 600)
        tb.leases.store.acquire("src", Holder("r999", "ann"), 600)
        for at in (f"+{HOUR_S}", f"-{HOUR_S}"):
            code, _, wrong = takeback(root, at, "locks", "take", "src")
            assert (code, "locked by r999 (ann)" in wrong) == (3, True), wrong
            code, said, wrong = takeback(root, at, "outbox", "worker", "--once", "--json")
            assert (code, json.loads(said)["delivered"]) == (0, 0), wrong
        assert [lease.name for lease in tb.leases.live()] == ["src"]
        found = tb.outbox.get(claimed.id)
        assert found and found.state is IntentState.CLAIMED and found.live
        assert tools.said() == []


def test_nor_does_one_that_jumps_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jump_while_it_is_held(prepared(tmp_path), monkeypatch)


def jump_while_it_is_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_HOME", str(folder / "state"))
    root, clock = folder / "work", folder / "clock"
    clock.write_text("+0\n")
    holder = elsewhen([sys.executable, "-c", HOLDER, str(root)], clock, stdin=subprocess.PIPE)
    assert holder.stdout
    before = float(holder.stdout.readline())
    assert abs(before - time.time()) < HOUR_S / 2
    clock.write_text(f"+{HOUR_S}\n")
    with open_workspace(root, watching=False) as tb, tb.run("other") as run:
        with pytest.raises(LeaseHeld, match=r"src is locked by r\d+,"), run.lock("src"):
            pytest.fail("it was free")
        said, wrong = holder.communicate("go on\n")
        assert holder.returncode == 0, wrong
        assert float(said.splitlines()[-1]) - before > HOUR_S / 2, "else its clock did not jump"
        with run.lock("src"):
            assert [lease.holder.run for lease in tb.leases.live()] == [run.id]
