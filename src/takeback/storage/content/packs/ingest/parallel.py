"""Reading many files with several processes, as for a first checkpoint.

Hashing and compressing need a processor each, which threads would not get. The parent takes part: it puts its share
straight into the store, and hands the next batch of paths to each worker that has answered, so that a large batch
does not delay the rest. The paths may still be being collected meanwhile. What a worker read counts only when its
packs are adopted; if it died, the parent reads those files itself.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from typing import IO, Any, NamedTuple, TypeVar

from takeback.storage.content.packs.format import catalog as catalogs
from takeback.storage.content.packs.ingest.files import Ingested, ingest
from takeback.storage.content.packs.ingest.parts import PackPart, parts_needed
from takeback.storage.content.packs.ingest.worker import IngestJob, Share, receive, send
from takeback.storage.content.packs.store import PackStore

BATCH_BYTES = 4 << 20
BATCH_FILES = 256
WORTH_BYTES = 32 << 20
WORTH_FILES = 4000
"""With less than both, starting a process costs more than it saves."""

# A worker has two batches, so that it need not wait for us. Both fit into a pipe, so that we need not wait for it:
# if each waited for the other, that would be a deadlock.
_AHEAD = 2
_BATCH_PATH_BYTES = 24 << 10

# After so many files of our own we look whether a worker needs more: one that waits for us is a processor unused.
_PIECE_FILES = 16


T = TypeVar("T")


class FileBatch(NamedTuple):
    paths: list[bytes]
    bytes: int


def ingest_many(
    store: PackStore, files: Iterable[tuple[bytes, int]], root_fd: int | None, *, processes: int = 2
) -> Iterator[Ingested]:
    """Read these files, given with their sizes, in any order. When this ends, everything is durable.

    Each path is returned at least once. A path that is returned again was read again; the last result counts.
    """
    batches = _batches(files)
    first, much = _first(batches)
    with ExitStack() as stack:
        crew: list[_Worker] = []
        for _ in range(processes - 1 if much else 0):
            crew.append(_Worker(store, root_fd))
            stack.callback(crew[-1].close)
        yield from _share(store, chain(first, batches), crew, root_fd)
        store.sync()  # while the workers finish
        for worker in crew:
            yield from worker.result()
    store.sync()


def _first(batches: Iterator[FileBatch]) -> tuple[list[FileBatch], bool]:
    """Return as many batches as it takes to decide whether several processes pay off; and whether they do."""
    first: list[FileBatch] = []
    total = count = 0
    for batch in batches:
        first.append(batch)
        total, count = total + batch.bytes, count + len(batch.paths)
        if total >= WORTH_BYTES or count >= WORTH_FILES:
            return first, True
    return first, False


def _batches(files: Iterable[tuple[bytes, int]]) -> Iterator[FileBatch]:
    paths: list[bytes] = []
    total = path_bytes = 0
    for path, size in files:
        if paths and (
            total + size > BATCH_BYTES
            or len(paths) == BATCH_FILES
            or path_bytes + len(path) > _BATCH_PATH_BYTES
        ):
            yield FileBatch(paths, total)
            paths, total, path_bytes = [], 0, 0
        paths.append(path)
        total, path_bytes = total + size, path_bytes + len(path)
    if paths:
        yield FileBatch(paths, total)


def _share(
    store: PackStore, work: Iterator[FileBatch], crew: list[_Worker], root_fd: int | None
) -> Iterator[Ingested]:
    """Work through the batches together with the workers."""
    for worker in crew:
        worker.feed(work)
    for batch in work:
        for start in range(0, len(batch.paths), _PIECE_FILES):
            yield from ingest(batch.paths[start : start + _PIECE_FILES], root_fd, store.put)
            for worker in crew:
                yield from worker.answers()
                worker.feed(work)
    for worker in crew:
        worker.dismiss()


class _Worker:
    """One worker process, and what it was given. Once it has failed it is not used again."""

    def __init__(self, store: PackStore, root_fd: int | None) -> None:
        self._store = store
        self._root_fd = root_fd
        self._numbers: list[int] = []
        self._given: list[bytes] = []
        self._given_bytes = 0
        self._open = 0
        self._failed = False
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = _start(root_fd)
        except OSError:
            self._failed = True
        self._send(IngestJob(str(store.folder), store.pack_bytes_max, root_fd))

    def answers(self) -> Iterator[Ingested]:
        """Yield what the worker has answered so far. Only its end decides whether that is kept."""
        while self._open and not self._failed and self._has_answered():
            yield from self._take()

    def feed(self, work: Iterator[FileBatch]) -> None:
        """Send the worker as many batches as it has room for."""
        while self._open < _AHEAD and not self._failed and (batch := next(work, None)):
            self._given += batch.paths
            self._given_bytes += batch.bytes
            needed = parts_needed(self._given_bytes, len(self._given), self._store.pack_bytes_max)
            more = self._store.reserve(max(0, needed - len(self._numbers)))
            self._numbers += more
            self._open += 1
            self._send(Share(batch.paths, more[0] if more else 0, len(more)))

    def _has_answered(self) -> bool:
        poll = select.poll()
        poll.register(self._stream("stdout"), select.POLLIN)
        return bool(poll.poll(0))

    def dismiss(self) -> None:
        """Tell the worker that there is nothing more to read."""
        self._send(Share())

    def result(self) -> Iterator[Ingested]:
        """Yield the rest of what the worker read, now in the store; if it failed, read all of it here."""
        while self._open and not self._failed:
            yield from self._take()
        parts = self._receive(list[PackPart])
        if parts is None:
            yield from ingest(self._given, self._root_fd, self._store.put)
        else:
            self._store.adopt(parts)

    def _take(self) -> list[Ingested]:
        self._open -= 1
        return self._receive(list[Ingested]) or []

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
        """Kill the process if it still runs, and remove its files."""
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
        [sys.executable, "-m", "takeback.storage.content.packs.ingest.worker"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a failure there shows again here, and is reported once
        pass_fds=() if root_fd is None else (root_fd,),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
