"""Reading many files with several processes, as for a first checkpoint.

Hashing and compressing need a processor each, which threads would not give. The parent takes part: it puts
its share straight into the store, and hands the next batch of paths to a worker that has answered, so that
nobody waits for a share that turned out large. What a worker read counts only when its packs are adopted; if
it died, the parent reads those files itself.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import IO, Any, NamedTuple, TypeVar

from takeback.storage.packs import catalog as catalogs
from takeback.storage.packs.ingest import Ingested, ingest
from takeback.storage.packs.parts import Part, parts_needed
from takeback.storage.packs.store import PackStore
from takeback.storage.packs.worker import Job, receive, send

BATCH_BYTES = 4 << 20
BATCH_FILES = 256
WORTH_BYTES = 32 << 20
WORTH_FILES = 4000
"""With less than both, starting a process costs more than it saves."""

# A worker has two batches, so that it need not wait for us. Both fit into a pipe, so that we need not wait
# for it: waiting for each other would be the end.
_AHEAD = 2
_BATCH_PATH_BYTES = 24 << 10


T = TypeVar("T")


class Batch(NamedTuple):
    paths: list[bytes]
    bytes: int


def ingest_many(
    store: PackStore, files: Iterable[tuple[bytes, int]], root_fd: int | None, *, processes: int = 2
) -> Iterator[Ingested]:
    """Read these files, given with their sizes, in any order. When this ends all of it is durable."""
    # The largest first, so that the last ones to finish are small.
    work = deque(sorted(_batches(files), key=lambda batch: -batch.bytes))
    total, count = sum(batch.bytes for batch in work), sum(len(batch.paths) for batch in work)
    workers = processes - 1 if total >= WORTH_BYTES or count >= WORTH_FILES else 0
    with ExitStack() as stack:
        crew = []
        for _ in range(workers):
            crew.append(_Worker(store, root_fd, parts_needed(total, count)))
            stack.callback(crew[-1].close)
        yield from _share(store, work, crew, root_fd)
        store.sync()  # while the workers finish
        for worker in crew:
            yield from worker.result()
    store.sync()


def _batches(files: Iterable[tuple[bytes, int]]) -> Iterator[Batch]:
    paths: list[bytes] = []
    total = path_bytes = 0
    for path, size in files:
        if paths and (
            total + size > BATCH_BYTES
            or len(paths) == BATCH_FILES
            or path_bytes + len(path) > _BATCH_PATH_BYTES
        ):
            yield Batch(paths, total)
            paths, total, path_bytes = [], 0, 0
        paths.append(path)
        total, path_bytes = total + size, path_bytes + len(path)
    if paths:
        yield Batch(paths, total)


def _share(
    store: PackStore, work: deque[Batch], crew: list[_Worker], root_fd: int | None
) -> Iterator[Ingested]:
    """Work off the batches together."""
    for worker in crew:
        worker.feed(work)
    while work:
        yield from ingest(work.popleft().paths, root_fd, store)
        for worker in crew:
            worker.feed(work)
    for worker in crew:
        worker.dismiss()


class _Worker:
    """One process, what it was given, and what it answered. Once it has failed it is left alone."""

    def __init__(self, store: PackStore, root_fd: int | None, packs: int) -> None:
        self._store = store
        self._root_fd = root_fd
        self._numbers = store.reserve(packs)
        self._given: list[bytes] = []
        self._answers: list[Ingested] = []
        self._open = 0
        self._failed = False
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = _start(root_fd)
        except OSError:
            self._failed = True
        self._send(Job(str(store.folder), self._numbers, store.pack_bytes_max, root_fd))

    def feed(self, work: deque[Batch]) -> None:
        """Take the answers that are there, and give what there is room for."""
        while self._open and not self._failed and self._has_answered():
            self._take()
        while work and self._open < _AHEAD and not self._failed:
            batch = work.popleft()
            self._given += batch.paths
            self._open += 1
            self._send(batch.paths)

    def _has_answered(self) -> bool:
        poll = select.poll()
        poll.register(self._stream("stdout"), select.POLLIN)
        return bool(poll.poll(0))

    def dismiss(self) -> None:
        """Let it finish by itself."""
        self._send([])

    def result(self) -> Iterator[Ingested]:
        """What it read, in the store now; read by ourselves if it failed."""
        while self._open and not self._failed:
            self._take()
        parts = self._receive(list[Part])
        if parts is None:
            return ingest(self._given, self._root_fd, self._store)
        self._store.adopt(parts)
        return iter(self._answers)

    def _take(self) -> None:
        self._answers += self._receive(list[Ingested]) or []
        self._open -= 1

    def _send(self, message: Any) -> None:
        try:
            if not self._failed:
                send(self._stream("stdin"), message)
        except OSError:
            self._failed = True

    def _receive(self, kind: type[T]) -> T | None:
        try:
            if not self._failed:
                return receive(self._stream("stdout"), kind)
        except (OSError, EOFError):
            self._failed = True
        return None

    def _stream(self, name: str) -> IO[bytes]:
        stream: IO[bytes] = getattr(self._process, name)
        return stream

    def close(self) -> None:
        """End the process if it still works, and leave nothing of it behind."""
        if self._process is not None:
            self._process.kill()
            for name in ("stdin", "stdout"):
                with suppress(OSError):
                    self._stream(name).close()
            self._process.wait()
        for number in self._numbers:
            catalogs.part_path(self._store.folder, number).unlink(missing_ok=True)


def _start(root_fd: int | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "takeback.storage.packs.worker"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # What fails there fails here again, and is told once.
        pass_fds=() if root_fd is None else (root_fd,),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
