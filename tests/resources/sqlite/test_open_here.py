"""This process itself has a database open: a helper process reads it, one for all looks, and only if it must."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

import takeback
from takeback.core.change import Target
from takeback.core.events import Process
from takeback.errors import BackendError
from takeback.resources.sqlite.image import digest_in
from takeback.resources.sqlite.other_process import DatabaseAccess
from takeback.resources.sqlite.resource import Sqlite
from takeback.system import processes
from takeback.workspace.workspace import Workspace
from tests.cli.processes import wait_for

from .tool import picture, sql

TABLES = "CREATE TABLE checkpoints (thread_id, id INTEGER PRIMARY KEY, body); CREATE TABLE log (text)"
WAIT_S = 60.0


@takeback.action(effect="restorable")
def nothing(number: int) -> int:
    return number


@contextmanager
def store(path: Path, mode: str = "wal") -> Iterator[sqlite3.Connection]:
    """The connection of a framework that keeps its threads in the workspace."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.executescript(TABLES)
        yield db


def write(db: sqlite3.Connection, count: int = 1) -> None:
    for _ in range(count):
        db.execute("INSERT INTO checkpoints (thread_id, body) VALUES ('t', randomblob(3000))")


def its_helper() -> Process:
    """The helper that this process has now."""
    (found,) = [pid for pid in processes._children(os.getpid()) if b"other_process" in words_of(pid)]
    return processes.describe(found)


def words_of(pid: int) -> bytes:
    return processes.read_of(pid, "cmdline")


def settle(tb: Workspace) -> None:
    """Save until the next look at what is now there need not read it."""

    def is_settled() -> bool:
        tb.save()
        return not any(row.racy and not row.log for row in tb.parts.sqlite._rows.values())

    wait_for(is_settled)


def test_calls_start_one_helper_and_look_once_for_each_commit(tb: Workspace, root: Path) -> None:
    sqlite = tb.parts.sqlite
    with store(root / "threads.db") as db:
        with tb.run("agent", checkpoint="action") as run:
            settle(tb)
            looks = sqlite.looks
            for number in range(8):
                write(db)
                run.call(nothing, number)
            assert sqlite.looks == looks + 8
            for number in range(8):
                run.call(nothing, 100 + number)
            assert sqlite.looks == looks + 8
        assert sqlite.helpers == 1
        report = tb.undo()
        assert report.verdict == "clean"
        assert db.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
        assert sqlite.helpers == 1


def test_a_rollback_journal_needs_no_other_process_for_each_look(tb: Workspace, root: Path) -> None:
    with store(root / "threads.db", "delete") as db, tb.run("agent", checkpoint="action") as run:
        for number in range(5):
            write(db)
            run.call(nothing, number)
    assert tb.parts.sqlite.helpers == 1


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_the_locks_of_this_process_stay_through_many_looks(tb: Workspace, root: Path, mode: str) -> None:
    path = root / "threads.db"
    busy = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    with store(path, mode) as db:
        tb.save()
        write(db)
        db.execute("BEGIN IMMEDIATE")
        write(db)
        for number in range(3):
            (root / "file").write_text(str(number))
            tb.save()
            done = subprocess.run([sys.executable, "-c", busy, str(path)], capture_output=True, text=True)
            assert "database is locked" in done.stderr
        db.execute("COMMIT")
        assert db.execute("SELECT count(*) FROM checkpoints").fetchone() == (2,)


def test_the_helper_belongs_to_no_call(tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with store(root / "threads.db") as db:
        with tb.run("agent", checkpoint="action") as run:
            monkeypatch.setenv(processes.VARIABLE, "of a call")
            write(db)
            run.call(nothing, 1)
            helper = its_helper()
            for action in tb.history.actions.values():
                assert helper.pid not in tb.parts.tracker.living(action.id)
        assert processes.read_of(helper.pid, "environ").find(b"of a call") < 0
        assert not list(tb.history.open_actions()) and not tb.parts.tracker.in_background()


def test_it_ends_when_the_workspace_is_closed(tb: Workspace, root: Path) -> None:
    with store(root / "threads.db"):
        tb.save()
        helper = its_helper()
        tb.parts.sqlite.close()
        assert not processes.is_alive(helper)
        (root / "threads.db").touch()
        tb.save()
        assert tb.parts.sqlite.helpers == 2


PROGRAM = """
import os, sqlite3, sys
import takeback
from takeback.system import processes
db = sqlite3.connect("threads.db", isolation_level=None)
db.executescript("PRAGMA journal_mode = wal; CREATE TABLE t (a)")
tb = takeback.open(".")
tb.save()
print(*(pid for pid in processes._children(os.getpid())), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("killed", [True, False])
def test_it_ends_with_the_process(root: Path, tmp_path: Path, killed: bool) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=root,
        env=os.environ | {"TAKEBACK_HOME": str(tmp_path / "home")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None and program.stdout is not None
    (pid,) = program.stdout.readline().split()
    helper = processes.describe(int(pid))
    assert processes.is_alive(helper) and b"other_process" in words_of(helper.pid)
    if killed:
        program.kill()
        program.wait()
        wait_for(lambda: not processes.is_alive(helper))
    else:
        program.communicate("end\n")
        assert not processes.is_alive(helper)
    program.stdin.close()
    program.stdout.close()


@pytest.fixture
def access() -> Iterator[DatabaseAccess]:
    made = DatabaseAccess()
    yield made
    made.close()


def taken(access: DatabaseAccess, path: Path, to: Path, wait_s: float = WAIT_S) -> str:
    to.write_bytes(b"")
    found = access.take(os.fsencode(path), os.fsencode(to), wait_s)
    assert found.image is not None, found.problem
    return found.image.digest


def test_one_that_was_killed_is_replaced(access: DatabaseAccess, tmp_path: Path) -> None:
    path, image = tmp_path / "threads.db", tmp_path / "image"
    with store(path) as db:
        first = taken(access, path, image)
        helper = its_helper()
        os.kill(helper.pid, signal.SIGKILL)
        wait_for(lambda: not processes.is_alive(helper))
        write(db)
        assert taken(access, path, image) != first
        assert access.started == 2


def test_a_fork_has_one_of_its_own(access: DatabaseAccess, tmp_path: Path) -> None:
    path, image = tmp_path / "threads.db", tmp_path / "image"
    with store(path):
        first = taken(access, path, image)
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if taken(access, path, tmp_path / "other") == first and access.started == 2 else 1
                access.close()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert taken(access, path, image) == first
        assert access.started == 1


class _Interrupted(BaseException):
    pass


def _interrupt(*_: object) -> None:
    raise _Interrupted


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(
    access: DatabaseAccess, tmp_path: Path
) -> None:
    locked, free, image = (tmp_path / name for name in ("locked.db", "free.db", "image"))
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        with store(locked, "delete") as db, store(free, "delete") as other:
            write(other)
            wanted = taken(access, free, image)
            db.execute("BEGIN EXCLUSIVE")
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(_Interrupted):
                taken(access, locked, image, wait_s=60)
            assert taken(access, free, image) == wanted
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads_that_ask_at_once_get_their_own_answers(access: DatabaseAccess, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(4)]
    with ExitStack() as stack:
        for number, path in enumerate(paths):
            write(stack.enter_context(store(path, "delete")), number)
        wanted = [taken(access, path, tmp_path / "image") for path in paths]
        assert len(set(map(str, wanted))) == len(paths)

        def ask(number: int) -> bool:
            image = tmp_path / f"image-{number}"
            return all(taken(access, paths[number], image) == wanted[number] for _ in range(6))

        with ThreadPoolExecutor(len(paths)) as pool:
            assert all(pool.map(ask, range(len(paths))))


def test_one_that_cannot_start_says_so(
    access: DatabaseAccess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with store(tmp_path / "threads.db"), pytest.raises(BackendError, match="second process could not access"):
        taken(access, tmp_path / "threads.db", tmp_path / "image")
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'no such module: takeback' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with store(tmp_path / "other.db"), pytest.raises(BackendError, match="no such module: takeback"):
        taken(access, tmp_path / "other.db", tmp_path / "image")


class Scene:
    """A database in WAL mode to which anything is done, by this process and by others."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self.chance = chance
        self.copies: list[Path] = []
        self.db = self._open()

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None)
        db.execute("PRAGMA journal_mode = wal")
        db.execute("PRAGMA wal_autocheckpoint = 6")
        return db

    def anything(self) -> None:
        self.chance.choice(
            [
                self.insert,
                self.insert,
                self.update,
                self.update,
                self.undone,
                self.savepoint,
                self.table,
                self.vacuum,
                self.checkpoint,
                self.other_process,
                self.other_mode,
                self.reopen,
                self.copy,
                self.replaced,
                self.overwritten,
            ]
        )()

    def insert(self) -> None:
        write(self.db)

    def update(self) -> None:
        """The same number of pages as before."""
        self.db.execute("UPDATE checkpoints SET body = randomblob(3000) WHERE id = 1")

    def undone(self) -> None:
        self.db.execute("BEGIN")
        write(self.db, 3)
        self.db.execute("ROLLBACK")

    def savepoint(self) -> None:
        self.db.executescript(
            "SAVEPOINT a; DELETE FROM log; ROLLBACK TO a; INSERT INTO log VALUES (1); RELEASE a"
        )

    def table(self) -> None:
        self.db.executescript("CREATE TABLE passing (a); DROP TABLE passing; PRAGMA user_version = 7")

    def vacuum(self) -> None:
        self.db.execute("DELETE FROM checkpoints WHERE id % 2 = 0")
        self.db.execute("VACUUM")

    def checkpoint(self) -> None:
        kind = self.chance.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
        self.db.execute(f"PRAGMA wal_checkpoint({kind})")

    def other_process(self) -> None:
        sql(self.path, "UPDATE checkpoints SET body = randomblob(3000) WHERE id = 1")

    def other_mode(self) -> None:
        self.db.execute("PRAGMA journal_mode = delete")
        self.update()
        if self.chance.random() < 0.5:
            self.db.execute("PRAGMA journal_mode = wal")

    def reopen(self) -> None:
        self.db.close()
        self.db = self._open()
        self.update()

    def copy(self) -> None:
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.copies.append(self.path.with_name(f"copy{len(self.copies)}"))
        # Not in this process: closing the file here would drop the locks of our connection.
        subprocess.run(["cp", "-p", self.path, self.copies[-1]], check=True)

    def _from_copy(self) -> Path | None:
        self.db.close()
        for end in ("-wal", "-shm"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)
        return self.chance.choice(self.copies) if self.copies else None

    def replaced(self) -> None:
        """By another file, with its times."""
        if copy := self._from_copy():
            passing = self.path.with_name("passing")
            shutil.copy2(copy, passing)
            os.replace(passing, self.path)
        self.db = self._open()

    def overwritten(self) -> None:
        if copy := self._from_copy():
            self.path.write_bytes(copy.read_bytes())
        self.db = self._open()


def _digest(sqlite: Sqlite, path: Path) -> str:
    target = Target("sqlite", path.name)
    return digest_in(sqlite.seen([target])[target])


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_committed_is_missed(tb: Workspace, root: Path, seed: int) -> None:
    """What a look says without reading is compared with what an independent reader finds."""
    path = root / "threads.db"
    with store(path) as db:
        write(db, 4)
    scene = Scene(path, random.Random(seed))
    known: dict[str, object] = {}
    for _ in range(60):
        for _ in range(scene.chance.randrange(1, 3)):
            scene.anything()
        tb.save()
        found = picture(path)
        found.pop("settings")
        digest = _digest(tb.parts.sqlite, path)
        assert known.setdefault(digest, found) == found
    scene.db.close()


def test_a_commit_that_the_times_of_the_log_do_not_show(tb: Workspace, root: Path) -> None:
    """The log is as long as before, and its time is the same."""
    path, log = root / "threads.db", root / "threads.db-wal"
    with store(path) as db:
        db.execute("INSERT INTO log VALUES (zeroblob(2000))")
        db.execute("PRAGMA wal_checkpoint(RESTART)")  # from here on the log is overwritten, not appended to
        settle(tb)
        seen, stats = set(), set()
        for number in range(20):
            db.execute("UPDATE log SET text = ?", (bytes([number]) * 2000,))
            if number % 4 == 0:
                db.execute("PRAGMA wal_checkpoint(RESTART)")
                continue
            os.utime(log, ns=(10**18, 10**18))
            stats.add((log.stat().st_ino, log.stat().st_size, log.stat().st_mtime_ns))
            tb.save()
            seen.add(_digest(tb.parts.sqlite, path))
        assert len(seen) == 15 and len(stats) < 5


def test_the_log_proves_nothing_about_a_file_that_was_just_written(tb: Workspace, root: Path) -> None:
    """Within one tick of the clock, the database file itself may be overwritten and keep its times."""
    path = root / "threads.db"
    with store(path):
        settle(tb)
        assert tb.parts.sqlite._rows[b"threads.db"].log

        def is_read_again() -> bool:
            os.utime(path)
            tb.save()
            row = tb.parts.sqlite._rows[b"threads.db"]
            return row.racy and not row.log

        wait_for(is_read_again)  # a look that came too late for the tick tells nothing
