"""Programs that have a file open, or a part of it in their memory, while it is taken back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.errors import ConflictError
from takeback.resources.files.look.capture import RACY_NS
from takeback.resources.files.put_back.writers import Writers
from takeback.system import linux
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.world.picture import differences, picture

APPENDS = """
import sys
with open(sys.argv[1], "a") as file:
    print("ready", flush=True)
    for line in sys.stdin:
        file.write(line)
        file.flush()
        print("written", flush=True)
"""

MAPS = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
view = mmap.mmap(fd, 0)
os.close(fd)
print("ready", flush=True)
for line in sys.stdin:
    view[:5] = line.strip().encode()
    print("written", flush=True)
"""


OVERWRITES = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
print("ready", flush=True)
for line in sys.stdin:
    os.pwrite(fd, line.strip().encode(), 0)
    print("written", flush=True)
"""


class Program:
    """Another process that has a file open."""

    def __init__(self, code: str, path: Path) -> None:
        command = [sys.executable, "-c", code, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self._hear("ready")

    def write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()
        self._hear("written")

    def end(self) -> None:
        self._process.communicate(timeout=60)

    def _hear(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{word}\n"


@contextmanager
def running(code: str, path: Path) -> Iterator[Program]:
    program = Program(code, path)
    try:
        yield program
    finally:
        program.end()


def settled(path: Path) -> None:
    """Come back when the file is old enough for its time to tell of the next write."""
    while time.time_ns() - path.stat().st_ctime_ns < 4 * RACY_NS:
        time.sleep(RACY_NS / 1e9)


def why(report: object, name: str) -> str:
    items = {item.target.name: item for item in report.items}  # type: ignore[attr-defined]
    return str(items[name].why)


@pytest.mark.parametrize("did", ["restored", "removed"])
def test_what_a_program_writes_later_is_kept_and_said(tb: Workspace, root: Path, did: str) -> None:
    log = root / "app.log"
    if did == "restored":
        log.write_text("start\n")
    tb.save()
    with tb.recording("agent"):
        log.write_text("agent\n")
    with running(APPENDS, log) as program:
        report = tb.undo()
        for number in range(20):
            program.write(f"line {number}")
    assert report.verdict == "clean"
    assert log.exists() == (did == "restored")
    assert not log.exists() or log.read_text() == "start\n"
    kept = root / "takeback-rescued-1-app.log"
    assert kept.read_text() == "agent\n" + "".join(f"line {number}\n" for number in range(20))
    assert f"process {program.pid}" in why(report, "app.log")
    assert kept.name in why(report, "app.log")


def test_a_program_that_only_reads_is_not_in_the_way(tb: Workspace, root: Path) -> None:
    (root / "app.log").write_text("start\n")
    tb.save()
    with tb.recording("agent"):
        (root / "app.log").write_text("agent\n")
    with (root / "app.log").open():
        assert why(tb.undo(), "app.log") == ""
    assert os.listdir(root) == ["app.log"]


def test_a_second_write_through_a_mapping_is_restored(either: Workspace, root: Path) -> None:
    """Only the first write through a mapping moves a time."""
    tb = either
    path = root / "data.bin"
    path.write_text("first, and more")
    with running(MAPS, path) as program:
        program.write("again")
        settled(path)
        saved = tb.save()
        program.write("later")
        program.end()
    report = tb.restore(saved.id)
    assert path.read_text() == "again, and more"
    assert [item.did for item in report.items if item.target.name == "data.bin"] == ["restored"]
    tb.redo()
    assert path.read_text() == "later, and more"


@pytest.fixture(params=["scanning", "watching"])
def either(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Iterator[Workspace]:
    """A workspace that finds changes in one way or the other."""
    with open_workspace(root, home=tmp_path / "state", watching=request.param == "watching") as made:
        yield made


@pytest.mark.parametrize("still_open", [False, True])
def test_a_second_write_through_a_mapping_is_a_humans(tb: Workspace, root: Path, still_open: bool) -> None:
    path = root / "data.bin"
    path.write_text("first, and more")
    tb.save()
    with running(MAPS, path) as program:
        with tb.recording("agent"):
            program.write("agent")
            settled(path)
        program.write("human")
        if not still_open:
            program.end()
        with pytest.raises(ConflictError):
            tb.undo()
    assert path.read_text() == "human, and more"


SPLITS = [
    "cp one new && mv new one",
    "cp -p one new && mv new one",
    "cp one new && mv new one && echo more >> two",
    "cp one new && mv new one && echo more >> one",
    "echo more >> one && cp one new && mv new one",
    "sed -i s/same/other/ one",
    "sed -i s/same/other/ one && sed -i s/same/another/ two",
    "rm one && echo same > one",
    "cp one new && mv new one && chmod 600 two",
    "rm one two three && echo same > one && ln one two && echo same > three",
    "echo x > other && ln -f other one",
    "cp one new && mv new one && ln -f one two",
    "mkdir in && mv one in && cp in/one one",
]


@pytest.mark.parametrize("script", SPLITS)
def test_hard_links_that_were_split_and_joined_again(tb: Workspace, root: Path, script: str) -> None:
    one, two, three = root / "one", root / "two", root / "three"
    one.write_text("same\n")
    two.hardlink_to(one)
    three.hardlink_to(one)
    settled(one)
    before = picture(bytes(root))
    tb.save()
    with tb.recording("agent"):
        subprocess.run(["sh", "-ec", script], cwd=root, check=True)
    settled(one)
    after = picture(bytes(root))
    for _ in range(2):
        assert tb.undo().verdict == "clean"
        assert differences(before, picture(bytes(root))) == []
        assert tb.redo().verdict == "clean"
        assert differences(after, picture(bytes(root))) == []


@pytest.mark.parametrize("through", ["file", "mapping"])
def test_a_program_writes_for_the_last_time_when_it_was_just_looked_at(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """Then nobody has it open any more, and it is not what it was a moment ago."""
    path = root / "data.bin"
    path.write_text("first, and more")
    tb.save()
    with tb.recording("agent"):
        path.write_text("agent, and more")
    program = Program(MAPS if through == "mapping" else OVERWRITES, path)
    if through == "mapping":
        program.write("agent")
        tb.save()
        settled(path)
    real, looks = Writers.has, iter(range(100))

    def has(self: Writers, folder_fd: int, name: bytes) -> bool:
        if next(looks) == 1:
            program.write("human")
            program.end()
        return real(self, folder_fd, name)

    monkeypatch.setattr(Writers, "has", has)
    report = tb.undo()
    assert path.read_text() == "first, and more"
    assert (root / "takeback-rescued-1-data.bin").read_text() == "human, and more"
    assert "takeback-rescued-1-data.bin" in why(report, "data.bin")


def test_a_write_through_a_mapping_in_the_last_instant_stays_in_its_place(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a write moves no time: only the content tells, and only of a file that a program has open."""
    path = root / "data.bin"
    path.write_text("first, and more")
    tb.save()
    with running(MAPS, path) as program:
        with tb.recording("agent"):
            program.write("agent")
            settled(path)
        real, exchanges = linux.renameat2, iter(range(100))

        def write_first(old: int, name: bytes, new: int, to: bytes, flags: int) -> None:
            if flags == linux.RENAME_EXCHANGE and next(exchanges) == 0:
                program.write("human")
            real(old, name, new, to, flags)

        monkeypatch.setattr(linux, "renameat2", write_first)
        report = tb.try_undo()
    assert path.read_text() == "human, and more"
    assert why(report, "data.bin") == "it was changed while it was being taken back"
    assert os.listdir(root) == ["data.bin"]
