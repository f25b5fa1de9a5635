"""What the processes do that the journal's crash tests kill."""

from __future__ import annotations

import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from takeback.core.events import RunBegan, StepBegan
from takeback.storage.journal.packed import BASE_BYTES
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.system.postgres_address import is_address

BIG = random.Random(7).randbytes(BASE_BYTES // 2).hex()
"""It makes a record that is packed, and the next one is stored as what differs from that."""

AnyJournal = SqliteJournal | PostgresJournal


def open_journal(place: str | Path) -> AnyJournal:
    """A path, or an address and the path of an anchor, which names the workspace too."""
    if not is_address(str(place)):
        return SqliteJournal(Path(place))
    dsn, _, anchor = str(place).partition(" ")
    return PostgresJournal(dsn, anchor, Path(anchor))


def open_and_close(path: str) -> None:
    open_journal(path).close()


def append_some(path: str, count: str) -> None:
    """Append batches of two to a run of one's own, and say so after each."""
    journal = open_journal(path)
    append_steps(journal, count=int(count))
    journal.close()


def append_in_threads(path: str, threads: str, count: str) -> None:
    """The same by several threads at once, each with a run of its own: they share commits."""
    journal = open_journal(path)
    names = [f"p{os.getpid()}t{number}" for number in range(int(threads))]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: append_steps(journal, count=int(count), name=name), names))
    journal.close()


def append_until_killed(path: str) -> None:
    append_steps(open_journal(path), count=sys.maxsize)


def append_steps(journal: AnyJournal, *, count: int, name: str = "") -> None:
    name = name or f"p{os.getpid()}"
    (began,) = journal.append([RunBegan(name)], stream="", key=name)
    acknowledge(name, "-", began.seq, began.digest)
    for turn in range(count):
        steps = [
            StepBegan(f"{name} {turn} a", ref=BIG if turn % 4 == 1 else ""),
            StepBegan(f"{name} {turn} b"),
        ]
        for record in journal.append(steps, stream=began.stream, key=f"{name} {turn}" if turn % 3 else ""):
            acknowledge(name, turn, record.seq, record.digest)


def acknowledge(*words: object) -> None:
    """One write for one line, so that a kill cannot tear it."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def gang(path: str, size: str) -> None:
    """Be several processes that append at once, until all of them are killed."""
    for _ in range(int(size)):
        if os.fork() == 0:
            append_until_killed(path)
    while True:
        os.wait()


if __name__ == "__main__":
    gang(*sys.argv[1:])
