"""What a process does where a test cannot go itself: as another user, on a small disk, through a fork."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from takeback.core.events import CheckpointTaken
from takeback.errors import BackendError
from takeback.storage.journal.sqlite import file as sqlite_file
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.system.private_files import private_folder

NOBODY = 65534


def append(journal: SqliteJournal) -> int:
    return journal.append([CheckpointTaken("x" * 200)], stream="w")[0].seq


def read_only() -> None:
    """Permissions do not bind root, so give up being root; the program may be out of reach from then on."""
    for name in ("importlib.resources.readers", "takeback.storage.journal.compaction"):
        import_module(name)
    sqlite_file.scripts(after=0)
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    with tempfile.TemporaryDirectory() as folder:
        meet_read_only(private_folder(Path(folder) / "state"))


def meet_read_only(state: Path) -> None:
    path = state / "journal.db"
    journal = SqliteJournal(path)
    acknowledged = append(journal)
    journal.close()
    for changed, mode in ((state, 0o500), (path, 0o400)):
        before = changed.stat().st_mode
        changed.chmod(mode)
        refused(path)
        changed.chmod(before)
    journal = SqliteJournal(path)
    assert journal.head().count == acknowledged
    assert list(journal.check()) == []
    append(journal)
    journal.close()


def refused(path: Path) -> None:
    try:
        journal = SqliteJournal(path)
        try:
            append(journal)
        finally:
            journal.close()
    except BackendError as error:
        said = str(error)
    else:
        raise AssertionError("it was written to")
    assert str(path) in said and "Nothing was recorded" in said and "belongs to" in said, said


def small_disk(folder: str) -> None:
    """Mount a disk of half a megabyte and let the journal meet its end at every possible place."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], check=True)
    for pages_left in range(0, 40, 2):
        state = private_folder(Path(folder) / "state")
        ballast = Path(folder) / "ballast"
        with ballast.open("wb") as file:
            free = os.statvfs(folder).f_bavail
            file.write(bytes(4096) * (free - pages_left))
        fill_up(state / "journal.db", ballast.unlink)
        subprocess.run(["rm", "-r", str(state)], check=True)


def small_files(folder: str) -> None:
    """The same without a mount: the system refuses to let a file grow, at every possible size."""
    for pages in range(0, 80, 3):
        path = Path(folder) / f"journal-{pages}.db"
        with largest_file(pages * 4096):
            fill_up(path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


def fill_up(path: Path, make_room: Callable[[], object]) -> None:
    """Append until it fails, make room, and see that everything acknowledged is there and more can come."""
    acknowledged = 0
    try:
        journal = SqliteJournal(path)
        try:
            while True:
                acknowledged = append(journal)
        finally:
            journal.close()
    except BackendError as error:
        said = str(error)
        assert "Nothing was recorded" in said and "space" in said, said
    make_room()
    journal = SqliteJournal(path)
    assert list(journal.check()) == []
    assert journal.head().count == acknowledged, (journal.head().count, acknowledged)
    append(journal)
    assert list(journal.check()) == []
    journal.close()


def forks(where: str) -> None:
    """Fork with an open journal, while threads use it; both sides go on, and one outlives the other."""
    path = Path(where)
    journal = SqliteJournal(path)
    append(journal)
    stop = threading.Event()
    threads = [threading.Thread(target=append_until, args=(journal, stop)) for _ in range(2)]
    for thread in threads:
        thread.start()
    children = [fork_one(journal) for _ in range(6)]
    stop.set()
    for thread in threads:
        thread.join()
    append(journal)
    # The last one to close deletes the log; with locks that are not real, this would be that moment.
    journal.close()
    assert path.with_name(path.name + "-wal").exists()
    for _, go_on in children:
        os.close(go_on)
    assert [os.waitpid(pid, 0)[1] for pid, _ in children] == [0] * len(children)
    journal = SqliteJournal(path)
    done = [r.event.actor for r in journal.read() if isinstance(r.event, CheckpointTaken) and r.event.actor]
    assert sorted(done) == sorted(f"{pid} {turn}" for pid, _ in children for turn in range(20)), done
    assert list(journal.check()) == []
    journal.close()


def append_until(journal: SqliteJournal, stop: threading.Event) -> None:
    while not stop.is_set():
        append(journal)


def fork_one(journal: SqliteJournal) -> tuple[int, int]:
    """A child that appends ten, waits until the parent has closed, and appends ten more."""
    ready_read, ready = os.pipe()
    waiting, go_on = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_on)
        for turn in range(20):
            if turn == 10:
                os.write(ready, b"x")
                os.read(waiting, 1)
            journal.append([CheckpointTaken(actor=f"{os.getpid()} {turn}")], stream="w")
        journal.close()
        os._exit(0)
    assert os.read(ready_read, 1)
    for fd in (ready_read, ready, waiting):
        os.close(fd)
    return pid, go_on


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
