"""What tells whose a process is: the brand that it inherits, and when it was started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest

from takeback.core.events import Process
from takeback.system import processes
from tests.cli.processes import wait_for


class Started:
    """Processes that end with the test."""

    def __init__(self) -> None:
        self._all: list[subprocess.Popen[bytes]] = []

    def __call__(self, *words: str) -> Process:
        self._all.append(subprocess.Popen(words or ("sleep", "600"), stdin=subprocess.PIPE))
        return processes.describe(self._all[-1].pid)

    def close(self) -> None:
        for process in self._all:
            for pid in (*processes._below(process.pid), process.pid):
                os.kill(pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    made.close()


def test_what_a_branded_process_starts_carries_the_brand(started: Started) -> None:
    me, brand = processes.this_process(), processes.new_brand()
    old = started()
    processes.put_brand(me, brand)
    one = started()
    count = processes.count()
    two = started("sh", "-c", "env -i setsid sleep 600")
    found = processes.ProcessTable().branded({brand})
    assert {one.pid, two.pid} <= found and old.pid not in found
    # Only what was started since then is read, and that is enough.
    later = processes.ProcessTable(count).branded({brand})
    assert two.pid in later and one.pid not in later
    # The next one hides it from what is started after it.
    processes.put_brand(me, processes.new_brand())
    three = started()
    assert three.pid not in processes.ProcessTable().branded({brand})
    assert processes.own_brands(brand) > {brand}


def test_a_kept_shell_is_branded_with_its_agent(started: Started) -> None:
    agent = started("sh", "-c", "sleep 600 & wait")
    wait_for(lambda: processes._below(agent.pid) != [])
    brand = processes.new_brand()
    processes.put_brand(agent, brand)
    kept = processes._below(agent.pid)
    assert len(kept) == 1
    assert [processes._brand_of(pid) for pid in (agent.pid, *kept)] == [brand, brand]


@pytest.mark.parametrize("sign", ["brand", "token"])
def test_what_one_started_before_it_ended_is_found_though_it_was_not_listed(sign: str) -> None:
    """Whoever detaches ends at any moment, also between the listing of all processes and the look at each."""
    brand, token = processes.new_brand(), "w1:a1"
    processes.put_brand(processes.this_process(), brand)
    with subprocess.Popen(
        ["sh", "-c", "echo; read go; sleep 600 > /dev/null & echo $!"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {processes.VARIABLE: token},
    ) as shell:
        assert shell.stdout is not None and shell.stdout.readline() == b"\n"
        table = processes.ProcessTable()
        left = int(shell.communicate(b"go\n")[0])
    try:
        # A process has no readable environment while it becomes another program.
        wait_for(lambda: processes.read_of(left, "cmdline").startswith(b"sleep"))
        assert left in (table.branded({brand}) if sign == "brand" else table.with_token(token))
    finally:
        os.kill(left, signal.SIGKILL)


def test_one_that_has_ended_is_not_taken_for_another_with_its_number(started: Started) -> None:
    process = started()
    other = Process(process.pid, "1", process.boot, process.host)
    elsewhere = Process(process.pid, process.started, "another boot", process.host)
    table = processes.ProcessTable()
    assert table.alive([process]) == {process.pid}
    assert not table.alive([other, elsewhere])
    assert table.below(other) == set() and process.pid in table.below(processes.this_process())


def test_where_nothing_was_started_nothing_is_read(started: Started) -> None:
    ever = processes.count().ever
    started()
    assert processes.count().ever > ever


def test_numbers_that_were_given_in_a_circle(started: Started) -> None:
    """Where the last number is lower than it was, both ends of the circle are read."""
    process = started()
    assert process.pid in processes._listing(processes.Count(0, 1 << 30))
    assert process.pid in processes._listing(processes.Count(0, process.pid - 1))
    assert process.pid not in processes._listing(processes.Count(0, process.pid))


@pytest.mark.parametrize("near_max", [processes.NEAR_MAX, 0])
def test_what_was_started_since_is_found_whether_or_not_everything_is_listed(
    started: Started, monkeypatch: pytest.MonkeyPatch, near_max: int
) -> None:
    """A thread has a number like a process, but is none."""
    monkeypatch.setattr(processes, "NEAR_MAX", near_max)
    before = processes.count()
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    process = started()
    found = processes._listing(before)
    over.set()
    thread.join()
    assert process.pid in found and not {thread.native_id, os.getpid()} & found
