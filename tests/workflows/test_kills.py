"""The practice's first two checks, with real processes and real kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .helpers import EVERYTHING, TOOL, place, read, record, run, start

KILLS = 200 if EVERYTHING else 10
STEPS = [f"step-{number}" for number in range(KILLS * 2)]


class Sink(ThreadingHTTPServer):
    """Takes messages as payment and mail services do: a key that it knows is not delivered again."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.root = root
        self.delivered: list[str] = []
        self.keys: set[str] = set()
        self.attempts = 0
        self.after_completion: list[str] = []
        self.guard = threading.Lock()

    def take(self, key: str, step: str) -> None:
        with self.guard:
            self.attempts += 1
            # What the checkpoint calls completed at this moment must not even be tried.
            if place(self.root, "send").exists() and step in read(self.root, "send")["completedSteps"]:
                self.after_completion.append(step)
            if key not in self.keys:
                self.keys.add(key)
                self.delivered.append(step)


class Receiver(BaseHTTPRequestHandler):
    server: Sink

    def do_POST(self) -> None:
        step = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.take(self.headers["Idempotency-Key"], step)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    server = Sink(tmp_path)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def work(root: Path, sink: Sink, steps: list[str]) -> subprocess.Popen[bytes]:
    words = [str(TOOL), f"http://127.0.0.1:{sink.server_port}", ",".join(steps)]
    code = Path(__file__).with_name("sender.py")
    return subprocess.Popen(
        [sys.executable, "-S", str(code), *words], cwd=root, start_new_session=True, stderr=subprocess.PIPE
    )


def kill(process: subprocess.Popen[bytes]) -> bool:
    """kill -9 the agent with all that it started; False where it had ended before."""
    ended = process.poll() is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()
    return not ended


@pytest.mark.timeout(600)
def test_no_duplicate_sends_over_many_kills(tmp_path: Path, sink: Sink) -> None:
    seed = 20261116
    chance, kills = random.Random(seed), 0
    while kills < KILLS:
        agent = work(tmp_path, sink, STEPS)
        time.sleep(chance.uniform(0.05, 0.45))  # anywhere: before, in or after any of its steps
        kills += kill(agent)
    said = work(tmp_path, sink, STEPS).communicate(timeout=300)[1].decode()
    assert said == "", (seed, said)
    assert sink.delivered == STEPS, (seed, "each once, in order, none missing")
    assert sink.after_completion == [], "a completed step is not tried again"
    assert len(STEPS) <= sink.attempts <= len(STEPS) + kills
    assert read(tmp_path, "send")["status"] == "done"


def test_killed_in_the_middle_it_goes_on_after_the_last_completed_step(tmp_path: Path) -> None:
    """The agent does two steps, says so, begins the third, and is killed with -9."""
    script = f"""
        tool() {{ {sys.executable} -I -S {TOOL} "$@" >/dev/null; }}
        tool start --workflow w --agent a --step one --remaining two three four --idempotency k --owner-pid $$
        for step in one two; do
            echo $step >> {tmp_path}/effects; tool update --workflow w --complete $step --owner-pid $$
        done
        echo three >> {tmp_path}/effects; touch {tmp_path}/mid; sleep 600
    """
    agent = subprocess.Popen(["sh", "-c", script], cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "mid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert run(tmp_path, "resume").stdout == "NO_CHECKPOINT\n", "it is at work"
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    found = record(run(tmp_path, "resume"))
    assert (found["completedSteps"], found["currentStep"]) == (["one", "two"], "three")
    assert found["remainingSteps"] == ["three", "four"]


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    start(tmp_path, "w")
    code = (
        "import sys, itertools; from takeback.workflows.checkpoints import Checkpoints\n"
        "with Checkpoints('.') as c:\n"
        "  print('ready', flush=True)\n"
        "  for n in itertools.count(): c.update('w', notes='x' * (n % 3000))\n"
    )
    chance = random.Random(5)
    for _ in range(100 if EVERYTHING else 12):
        writer = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE)
        assert writer.stdout and writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.02))
        writer.kill()
        writer.communicate()
        assert "INVALID" not in run(tmp_path, "list").stdout
    assert json.loads(place(tmp_path, "w").read_text())
