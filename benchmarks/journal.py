"""What the journal costs, against the floor that SQLite sets, in the same run.

    python benchmarks/journal.py [--quick]

Only ratios carry over to another machine. The floor of an append is a bare commit of the same bytes, to a WAL
database with synchronous = FULL; the two take turns. Many writers are compared with as many processes
that commit the same bytes with SQLite's own busy timeout.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import apsw

from takeback.core import events as e
from takeback.core.change import Change, Target, Version
from takeback.core.history import History
from takeback.core.record import seal
from takeback.storage.journal.sqlite.journal import SqliteJournal

WRITERS = 8
EVENTS = 100_000
FILES = 500

APPEND_RATIO_MAX = 1.5
WRITERS_RATIO_MIN = 1.0
FOLD_S_MAX = 1.5
FOLD_MB_MAX = 200


def event(number: int = 0) -> e.ActionBegan:
    """Return an action as an agent's tool call records it: about 440 bytes when sealed."""
    return e.ActionBegan(
        "write_file",
        e.Effect.RESTORABLE,
        actor="agent",
        session="3f1c9a52-7c1e-4c55-b8f0-0d7a4a1f5e11",
        key=f"edit-{number}",
        marks=(e.Mark("files", f"b3:{number:064x}", "a scan"),),
        arguments={"path": f"src/module_{number % FILES}.py", "text": "<redacted>"},
    )


# One writer


def one_append(folder: Path, count: int) -> tuple[float, float]:
    """Return the medians of an append and of a bare commit of its bytes, in seconds."""
    journal = SqliteJournal(folder / "one.db")
    (record,) = journal.append([e.RunBegan("run")], stream="")
    (record,) = journal.append([event()], stream=record.stream)
    body, _ = seal(record.envelope)
    bare = bare_database(folder / "one-bare.db")
    ours: list[float] = []
    theirs: list[float] = []
    action = event()
    turns: list[tuple[list[float], Callable[[], object]]] = [
        (ours, lambda: journal.append([action], stream=record.stream)),
        (theirs, lambda: bare.execute("INSERT INTO bare (body) VALUES (?)", (body,))),
    ]
    for _ in range(count):
        # A disk may still be busy with one commit during the next, so the order is random.
        random.shuffle(turns)
        for times, work in turns:
            times.append(timed(work))
    journal.close()
    bare.close()
    return statistics.median(ours), statistics.median(theirs)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare_database(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.set_busy_timeout(60_000)
    db.execute("PRAGMA journal_mode = wal").fetchall()
    db.execute(
        "PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, body BLOB)"
    )
    return db


# Many writers


def many_writers(folder: Path, count: int, rounds: int) -> tuple[float, float]:
    """Return commits per second of all writers together, ours and bare: medians of several rounds, in turns."""
    ours, theirs = [], []
    for number in range(rounds):
        ours.append(throughput(append_many, folder / f"many-{number}.db", count))
        bare_database(
            folder / f"bare-{number}.db"
        ).close()  # made once: SQLite does not wait to switch to WAL
        theirs.append(throughput(commit_many, folder / f"bare-{number}.db", count))
    return statistics.median(ours), statistics.median(theirs)


def throughput(work: Callable[[Path, int, Barrier], None], path: Path, count: int) -> float:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(WRITERS + 1, timeout=120)
    writers = [context.Process(target=work, args=(path, count, ready)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    ready.wait()
    start = time.perf_counter()
    ready.wait()
    taken = time.perf_counter() - start
    for writer in writers:
        writer.join()
    return WRITERS * count / taken


def append_many(path: Path, count: int, ready: Barrier) -> None:
    journal = SqliteJournal(path)
    (run,) = journal.append([e.RunBegan("run")], stream="")
    action = event()
    ready.wait()
    for _ in range(count):
        journal.append([action], stream=run.stream)
    ready.wait()
    journal.close()


def commit_many(path: Path, count: int, ready: Barrier) -> None:
    db = bare_database(path)
    body = bytes(440)
    ready.wait()
    for _ in range(count):
        db.execute("BEGIN IMMEDIATE; INSERT INTO bare (body) VALUES (?); COMMIT", (body,))
    ready.wait()
    db.close()


# A long journal


def story(count: int) -> Iterator[tuple[str, list[e.Event]]]:
    """Write runs of a hundred actions, each of which changes a file, with a checkpoint now and then."""
    seq = 1
    run = ""
    while seq <= count:
        if seq % 200 == 1:
            run = f"r{seq}"
            batch: list[e.Event] = [e.RunBegan(f"run {seq}")]
        elif seq % 50 == 0:
            batch = [e.CheckpointTaken("a step", marks=(e.Mark("files", f"b3:{seq:064x}"),))]
        else:
            target = Target("files", f"src/module_{seq % FILES}.py")
            change = Change(target, Version(f"b3:{seq:064x}"), Version(f"b3:{seq + 1:064x}"))
            batch = [event(seq), e.ActionEnded(f"a{seq}", e.Outcome.DONE, changes=(change,))]
        yield ("" if seq % 200 == 1 else run), batch
        seq += len(batch)


def long_journal(path: Path, count: int) -> None:
    journal = SqliteJournal(path)
    for stream, batch in story(count):
        journal.append(batch, stream=stream)
    journal.close()


def fold(path: Path) -> None:
    """Open and fold, alone in a fresh process."""
    start = time.perf_counter()
    journal = SqliteJournal(path)
    history = History.of(journal.read())
    taken = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform == "linux" else 1 << 20
    )
    journal.close()
    assert not history.breaches, history.breaches[:3]
    print(json.dumps({"seq": history.seq, "s": taken, "mb": peak_mb}))


def folded(path: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--fold", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(result.stdout))


def line(what: str, figures: str, goal: str, *, met: bool) -> None:
    print(f"{what:<44} {figures:<44} {goal:<12} {'met' if met else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the journal against bare SQLite")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--fold", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fold:
        fold(arguments.fold)
        return
    part = 10 if arguments.quick else 1
    with tempfile.TemporaryDirectory(prefix="takeback-bench-") as name:
        folder = Path(name)
        print(f"{'':<44} {'measured':<44} {'goal':<12}")
        ours, theirs = one_append(folder, 3000 // part)
        ratio = ours / theirs
        figures = f"{ours * 1e6:.0f} µs / {theirs * 1e6:.0f} µs = {ratio:.2f}"
        line(
            "one durable append / a bare commit",
            figures,
            f"≤ {APPEND_RATIO_MAX}",
            met=ratio <= APPEND_RATIO_MAX,
        )
        ours, theirs = many_writers(folder, 400 // part, 3)
        ratio = ours / theirs
        figures = f"{ours:.0f}/s / {theirs:.0f}/s = {ratio:.2f}"
        line(
            f"{WRITERS} processes, appends / bare commits",
            figures,
            f"≥ {WRITERS_RATIO_MIN}",
            met=ratio >= WRITERS_RATIO_MIN,
        )
        long_journal(folder / "long.db", EVENTS // part)
        found = folded(folder / "long.db")
        figures = f"{found['s']:.2f} s, {found['mb']:.0f} MB"
        goal = f"< {FOLD_S_MAX} s, < {FOLD_MB_MAX} MB"
        met = found["s"] < FOLD_S_MAX and found["mb"] < FOLD_MB_MAX
        line(f"open and fold {found['seq']:,} events", figures, goal, met=met)


if __name__ == "__main__":
    main()
