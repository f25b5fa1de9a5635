"""Workers in processes of their own, as a user starts them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.testing.crash import child_environment

Worker = subprocess.Popen[str]


def start(root: Path, *options: str) -> Worker:
    return subprocess.Popen(
        [sys.executable, "-m", "takeback", "-C", str(root), "outbox", "worker", *options],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(worker: Worker) -> str:
    """Gives what was wrong with it, where it had ended before."""
    worker.send_signal(signal.SIGKILL)
    return worker.communicate()[1]


def stop(worker: Worker) -> str:
    """Ask it to end; gives what it said."""
    worker.send_signal(signal.SIGTERM)
    said, wrong = worker.communicate(timeout=60)
    assert worker.returncode == 0, wrong
    return said


@contextmanager
def running(root: Path, *options: str) -> Iterator[Worker]:
    worker = start(root, *options)
    try:
        yield worker
    finally:
        if worker.poll() is None:
            kill(worker)
