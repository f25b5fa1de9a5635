"""Machines that share a store: each has a state folder of its own, and knows nothing of the others' disks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.testing import crash
from takeback.workspace.store import bring
from tests.machines import tools
from tests.outbox.sink import Sink, requests
from tests.resources.postgres.world import Server

SEAT_S = "0.3"


@dataclass
class Machine:
    """One of them: a home, and folders on its disk."""

    disk: Path

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """In this block, this process is on that machine."""
        before, here = os.environ.get("TAKEBACK_HOME"), os.getcwd()
        os.environ["TAKEBACK_HOME"] = str(self.disk / "state")
        try:
            yield
        finally:
            os.chdir(here)
            os.environ["TAKEBACK_HOME"] = before or ""

    def folder(self, name: str = "work") -> Path:
        return self.disk / name

    def start(
        self, *words: str, cwd: Path | None = None, before: Sequence[str] = (), stdin: bool = False
    ) -> subprocess.Popen[str]:
        with self.at_work():
            return subprocess.Popen(
                [*before, sys.executable, *words],
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                env=crash.child_environment(),
                cwd=cwd or self.disk,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    def takeback(
        self, *words: str, cwd: Path | None = None, code: int = 0, before: Sequence[str] = ()
    ) -> str:
        process = self.start("-m", "takeback", *words, cwd=cwd, before=before)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (process.returncode, out, err)
        return out + err

    def killed(self, point: str, nth: int, *command: str | Path) -> None:
        with self.at_work():
            done = crash.run(point, nth, command, timeout_s=120)
        assert done.returncode == crash.KILLED, (done.stdout, done.stderr)


@dataclass
class Shop:
    """A workspace that moves between machines, and the receiver that sees what it does."""

    base: Path
    sink: Sink
    name: str
    one: Machine = field(init=False)
    two: Machine = field(init=False)

    def __post_init__(self) -> None:
        self.one, self.two = (Machine(self.base / name) for name in ("one", "two"))
        for machine in (self.one, self.two):
            machine.disk.mkdir()
        self.one.folder().mkdir()
        (self.one.folder() / "kept").mkdir(mode=0o750)
        (self.one.folder() / "kept" / "notes.txt").write_text("mine\n")
        (self.one.folder() / "link").symlink_to("kept/notes.txt")

    def begin(self) -> None:
        """The first checkpoint, on the first machine."""
        with self.one.at_work(), tools.opened(str(self.one.folder())) as tb:
            tb.save("begin")

    def where(self) -> list[str]:
        """The options that name it."""
        store, blobs = os.environ[tools.STORE], os.environ[tools.BLOBS]
        return ["--store", store, "--workspace", self.name, "--blobs", blobs]

    def resume(self, into: Path, *more: str) -> list[str]:
        """The command that brings it there."""
        return ["resume", *more, "--into", str(into), *self.where()]

    def look(self, into: Path) -> bring.Outlook:
        return bring.look(
            into, store=os.environ[tools.STORE], workspace=self.name, blobs=os.environ[tools.BLOBS]
        )

    def silent(self, into: Path) -> bring.Outlook:
        """Wait until nobody shows signs of life any more."""
        with self.two.at_work():
            while True:
                found = self.look(into)
                if not (found.seat and found.seat.is_live):
                    return found
                time.sleep(0.05)

    def moved(self, into: Path) -> bring.Arrival:
        """Bring it to the other machine."""
        outlook = self.silent(into)
        with self.two.at_work():
            return bring.arrive(outlook)

    def moved_now(self, into: Path) -> bring.Arrival:
        """Without waiting."""
        with self.two.at_work():
            return bring.arrive(self.look(into))

    def works_on(self, machine: Machine, root: Path) -> None:
        """The program is started again, with the same key."""
        with machine.at_work():
            tools.work(str(root))
            tools.deliver(str(root))

    def booked(self) -> list[str]:
        return sorted(str(body) for body in self.sink.bodies())

    def asked(self) -> int:
        return sum(requests(self.sink.folder).values())


FILES = {
    "first.txt": ("0o100644", "room one"),
    "kept": "0o40750",
    "kept/notes.txt": ("0o100644", "mine\n"),
    "link": "kept/notes.txt",
    "plan.txt": ("0o100644", "book two rooms"),
    "rooms.db": [("one",), ("two",)],
    "second.txt": ("0o100644", "room two"),
    "told.txt": ("0o100644", "ada"),
}
MEMORY = {"/customer": "ada", "/rooms": [True, True], "/done": True}
DONE = sorted(["{'booked': 'one'}", "{'booked': 'two'}", "{'told': 'ada'}"])


def tree(root: Path) -> dict[str, Any]:
    """Everything under a folder, databases by their rows."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = oct(path.stat().st_mode)
        elif path.suffix == ".db":
            with sqlite3.connect(path) as db:
                made = db.execute("SELECT name FROM sqlite_master WHERE name = 'rooms'").fetchone()
                found[name] = sorted(db.execute("SELECT name FROM rooms")) if made else []
            db.close()
        elif not name.endswith(("-wal", "-shm", "-journal")):
            found[name] = (oct(path.stat().st_mode), path.read_text())
    return found


def memory(machine: Machine, root: Path) -> dict[str, Any]:
    with machine.at_work(), takeback.open(root) as tb:
        (run,) = tb.history.runs.values()
        return dict(tb.history.memory_of(run.id))


@pytest.fixture(scope="session")
def store(server: Server) -> str:
    return server.make(schema="")


@pytest.fixture
def shop(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    sink = Sink(tmp_path / "sink")
    monkeypatch.setenv(tools.STORE, store)
    monkeypatch.setenv(tools.NAME, str(tmp_path))
    (tmp_path / "bucket").mkdir()
    monkeypatch.setenv(tools.BLOBS, f"file://{tmp_path}/bucket")
    monkeypatch.setenv(tools.SINK, sink.url())
    monkeypatch.setenv(tools.FOLDER, str(sink.folder))
    monkeypatch.setenv("TAKEBACK_SEAT_S", SEAT_S)
    monkeypatch.chdir(tmp_path)
    yield Shop(tmp_path, sink, str(tmp_path))
    sink.kill()
