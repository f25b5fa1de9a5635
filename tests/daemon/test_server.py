"""The daemon and the fast path to it, in processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.daemon import client as daemon_client
from takeback.daemon import knock, wire
from takeback.daemon.wire import Answer, Garbled

KNOCK = Path(knock.__file__)
LENIENT = Path(__file__).parent / "lenient.py"
ECHO = Path(__file__).parent / "echo.py"
REPOSITORY = Path(__file__).parents[2]
WAIT_S = 60.0
SOCKET = os.fsdecode(daemon_client.SOCKET)


def environment(home: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    return os.environ | {"TAKEBACK_HOME": str(home), "PYTHONPATH": path} | more


@contextmanager
def daemon(home: Path, idle_s: float = 60.0) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, str(ECHO), str(home), str(idle_s)]
    with subprocess.Popen(words, env=environment(home)) as process:
        try:
            wait_for(home)
            yield process
        finally:
            process.kill()


def wait_for(home: Path) -> None:
    """Until somebody is at the socket. One that was killed leaves its name behind."""
    deadline = time.monotonic() + WAIT_S
    while ask(home) is None:
        assert time.monotonic() < deadline, f"nobody is at {home / SOCKET}"
        time.sleep(0.01)


def tell(
    home: Path, data: bytes, *, agent: str = "echo", cwd: Path | None = None, **more: str
) -> tuple[int, bytes]:
    """One event, through the program that agents call."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(LENIENT), str(KNOCK.parent), agent],
        input=data,
        env=environment(home, **more),
        cwd=cwd,
        capture_output=True,
        timeout=WAIT_S,
    )
    assert done.stderr == b"said to the human", done
    return done.returncode, done.stdout


def ask(home: Path, wait_s: float = WAIT_S) -> daemon_client.Answer | None:
    return daemon_client.ask(os.fsencode(home), daemon_client.request(b"echo", b"x", {}), wait_s)


def test_an_event_goes_there_and_its_answer_comes_back(tmp_path: Path) -> None:
    event = b'{"a": "\\u0000"}' + bytes(range(256)) * 2000
    with daemon(tmp_path / "state") as process:
        code, out = tell(tmp_path / "state", event, cwd=tmp_path, CLAUDE_PROJECT_DIR="/srv/p", SECRET="x")
    head, _, rest = out.partition(b"\n")
    assert code == len(event) % 100
    assert rest == event
    told = [os.fsdecode(name) for name in daemon_client.PASSED]
    names = sorted({"CLAUDE_PROJECT_DIR"} | {name for name in told if name in os.environ})
    assert head.decode() == f"echo {tmp_path} {names} {process.pid}"


def test_the_socket_is_the_users_alone(tmp_path: Path) -> None:
    home = tmp_path / "state"
    with daemon(home):
        assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(home / SOCKET).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(home / "daemon.lock").st_mode) == 0o600


def test_a_deep_folder_is_no_obstacle(tmp_path: Path) -> None:
    home = tmp_path.joinpath(*["deep" * 10] * 5)
    with daemon(home):
        assert tell(home, b"x")[0] == 1


def test_there_is_one_daemon(tmp_path: Path) -> None:
    with daemon(tmp_path) as first:
        second = subprocess.run([sys.executable, str(ECHO), str(tmp_path), "60"], env=environment(tmp_path))
        assert second.returncode == 3
        assert str(first.pid).encode() in tell(tmp_path, b"x")[1]


def test_many_at_once(tmp_path: Path) -> None:
    with daemon(tmp_path):
        answers: list[int] = []
        threads = [
            threading.Thread(target=lambda n=n: answers.append(tell(tmp_path, b"sleep" + b"x" * n)[0]))
            for n in range(8)
        ]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == list(range(5, 13))
        assert time.monotonic() - began < 8 * 0.5 + WAIT_S / 2


def test_it_ends_when_nobody_needs_it(tmp_path: Path) -> None:
    with daemon(tmp_path, idle_s=0.3) as process:
        assert process.wait(WAIT_S) == 0
        assert not (tmp_path / SOCKET).exists()


def test_what_is_no_event_does_no_harm(tmp_path: Path) -> None:
    with daemon(tmp_path):
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"takeback 1\0\0", os.urandom(5000)):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(tmp_path / SOCKET))
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(10) == b""
        assert tell(tmp_path, b"x")[0] == 1


def test_one_who_goes_away_does_no_harm(tmp_path: Path) -> None:
    with daemon(tmp_path):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / SOCKET))
            client.sendall(b"takeback 1\0half")
        assert tell(tmp_path, b"x")[0] == 1


def test_another_installation_replaces_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its event is not answered by code of another version; the old daemon makes room."""
    other = tmp_path / "other" / "takeback" / "daemon" / "knock.py"
    other.parent.mkdir(parents=True)
    shutil.copy(KNOCK, other)
    home = tmp_path / "state"
    with daemon(home) as process:
        monkeypatch.setattr(daemon_client, "__file__", str(other))
        assert ask(home) is None
        assert process.wait(WAIT_S) == 0


def test_a_stale_socket_is_no_daemon(tmp_path: Path) -> None:
    with daemon(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / SOCKET).exists()
        assert ask(tmp_path) is None
    with daemon(tmp_path):
        assert tell(tmp_path, b"x")[0] == 1


def test_what_goes_over_the_wire() -> None:
    request = wire.read(daemon_client.request(b"codex", b"\0\0data\0", {}))
    assert (request.agent, request.data, request.pid) == ("codex", b"\0\0data\0", os.getppid())
    assert request.identity == daemon_client.identity()
    assert Answer(3, b"out", b"err").encoded() == b"3 3 3\nouterr"
    with pytest.raises(Garbled):
        wire.read(b"takeback 2\0" + b"\0".join([b"a"] * 9))
