"""One process at a time: the lock ends with its holder, and whoever waits in vain is told for whom."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.errors import BackendError, RunBusy
from takeback.storage.state.lock import WorkspaceLock
from takeback.testing.crash import child_environment

HOLD = """
import sys
from pathlib import Path
from takeback.storage.state.lock import WorkspaceLock
with WorkspaceLock(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
print("free", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its stdin is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "held\n"
        yield process
        if not process.stdin.closed:
            process.stdin.close()
        process.wait(60)


def test_the_holder_may_take_it_again(path: Path) -> None:
    lock = WorkspaceLock(path, wait_s=0)
    with lock.held(), lock.held(), lock.held():
        assert not _is_free(path)
    assert _is_free(path)


def test_an_exception_frees_it(path: Path) -> None:
    lock = WorkspaceLock(path, wait_s=0)
    with pytest.raises(ZeroDivisionError), lock.held(), lock.held():
        raise ZeroDivisionError
    assert _is_free(path)


def _is_free(path: Path) -> bool:
    try:
        with WorkspaceLock(path, wait_s=0).held():
            return True
    except RunBusy:
        return False


def test_another_process_is_named_in_the_refusal(path: Path) -> None:
    with holder(path) as other:
        began = time.monotonic()
        with (
            pytest.raises(RunBusy, match=rf"process {other.pid}\b") as caught,
            WorkspaceLock(path, wait_s=0.2).held(),
        ):
            pass
        assert 0.2 <= time.monotonic() - began < 60
        assert "nothing was changed" in caught.value.message and caught.value.hint
        assert caught.value.exit_code == 3
    assert _is_free(path)


def test_a_waiting_process_gets_it_when_it_is_free(path: Path) -> None:
    with holder(path) as other:
        assert other.stdin is not None
        threading.Timer(0.1, other.stdin.close).start()
        with WorkspaceLock(path, wait_s=10).held():
            assert other.stdout is not None and other.stdout.read() == "free\n"


def test_a_killed_holder_frees_it_at_once(path: Path) -> None:
    with holder(path) as other:
        other.kill()
        other.wait()
        with WorkspaceLock(path, wait_s=0).held():
            pass


def test_the_name_of_a_dead_holder_is_not_blamed(path: Path) -> None:
    with holder(path) as dead:
        dead.kill()
        dead.wait()
    with holder(path) as other, pytest.raises(RunBusy) as caught, WorkspaceLock(path, wait_s=0).held():
        pass
    assert str(other.pid) in caught.value.message and str(dead.pid) not in caught.value.message.split()


def test_a_child_that_lives_on_does_not_keep_it(path: Path) -> None:
    """A command started while the lock is held does not inherit it."""
    with WorkspaceLock(path).held():
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        assert _is_free(path)
    finally:
        child.kill()
        child.wait()


def test_threads_take_turns(path: Path) -> None:
    lock = WorkspaceLock(path)
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with lock.held():
                inside += 1
                most = max(most, inside)
                time.sleep(0)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert _is_free(path)


def test_processes_take_turns(path: Path, tmp_path: Path) -> None:
    """Four processes count to a hundred each, in one file, without losing one."""
    count = tmp_path / "count"
    count.write_text("0")
    program = (
        "import sys; from pathlib import Path; from takeback.storage.state.lock import WorkspaceLock\n"
        "lock, count = WorkspaceLock(Path(sys.argv[1])), Path(sys.argv[2])\n"
        "for _ in range(100):\n"
        "    with lock.held(): count.write_text(str(int(count.read_text()) + 1))\n"
    )
    command = [sys.executable, "-c", program, str(path), str(count)]
    processes = [subprocess.Popen(command, env=child_environment()) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert count.read_text() == "400"


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    with (
        pytest.raises(BackendError, match="cannot be opened"),
        WorkspaceLock(tmp_path / "missing" / "lock").held(),
    ):
        pass


def test_the_file_is_the_users_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        with WorkspaceLock(path).held():
            assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_it_can_be_tried_without_waiting(tmp_path: Path) -> None:
    lock, other = WorkspaceLock(tmp_path / "lock"), WorkspaceLock(tmp_path / "lock")
    with lock.held(), lock.tried() as again, other.tried() as held:
        assert again and not held
    with other.tried() as held, lock.tried() as other_held:
        assert held and not other_held
    with lock.tried() as held:
        assert held, "what was tried was let go"
