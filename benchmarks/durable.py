"""What durable records and the queue cost in each store, against the bare store and its peers, in the same run.

    ./dev bench durable [--quick] [--peers]

Only ratios carry over to another machine. A record is one append of about 440 bytes, durable when it returns: by one
run, and by 64 runs in as many threads. The bare store is a commit of the same bytes with the driver alone. A queue is
drained by one worker, whose handler does nothing. `--peers` measures others too, in an environment of their own:
DBOS with a step of a workflow, LangGraph's savers with the put of a checkpoint, Procrastinate and pgqueuer with a job
that does nothing. All take turns, and none omits a sync. Memory is that of a fresh process.
"""

from __future__ import annotations

import argparse
import os
import queue as queues_of
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw
import psycopg

from benchmarks import _durable_queue as queue
from benchmarks._durable_peer import Work, timed
from benchmarks.journal import bare_database, event
from takeback.core import events as e
from takeback.core.record import seal
from takeback.ports.journal import Journal
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from tests.resources.postgres.world import Server

RUNS = 64
ROUNDS = 5
STORES = ("SQLite", "PostgreSQL")
STORE_OF = {
    "DBOS, SQLite": "SQLite",
    "LangGraph SqliteSaver": "SQLite",
    "DBOS, PostgreSQL": "PostgreSQL",
    "LangGraph PostgresSaver": "PostgreSQL",
}
QUEUES = ("Procrastinate", "pgqueuer", "pgqueuer, 50 at a time")

ONE_RUN_MIN = 0.5
MANY_RUNS_MIN = 3.0
DBOS_MIN = 10.0
QUEUE_MIN = 10.0
GROWTH_MAX = 10.0
"""Megabytes, for ten times as many intents."""


def by_turns(works: dict[str, tuple[Work, int]], rounds: int) -> dict[str, float]:
    """Return the median rate of each. They take turns, because the speed of a machine varies."""
    found: dict[str, list[float]] = {name: [] for name in works}
    turns = list(works.items())
    for _ in range(rounds):
        random.shuffle(turns)
        for name, (work, count) in turns:
            found[name].append(count / work(count))
    return {name: statistics.median(rates) for name, rates in found.items()}


# Records


def one_run(journal: Journal) -> Work:
    stream = journal.append([e.RunBegan("run")], stream="")[0].stream
    action = event()

    def work(count: int) -> None:
        for _ in range(count):
            journal.append([action], stream=stream)

    return timed(work)


def many_runs(journal: Journal) -> Work:
    works = [one_run(journal) for _ in range(RUNS)]

    def work(count: int) -> None:
        threads = [threading.Thread(target=one, args=(count // RUNS,)) for one in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return timed(work)


def bare_sqlite(db: apsw.Connection, body: bytes) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            db.execute("INSERT INTO bare (body) VALUES (?)", (body,))

    return timed(work)


def bare_groups(db: apsw.Connection, body: bytes) -> Work:
    """Commit as many rows at once as there are runs, in one thread: no run waits for another, and none is woken."""

    def work(count: int) -> None:
        for _ in range(count // RUNS):
            with db:
                db.executemany("INSERT INTO bare (body) VALUES (?)", [(body,)] * RUNS)

    return timed(work)


def bare_threads(db: apsw.Connection, body: bytes) -> Work:
    """Commit the rows of as many threads as there are runs: this one commits for all that wait, and wakes them.

    Nothing is sealed, chained or checked. So this is what sharing a commit costs in this interpreter.
    """

    def work(count: int) -> None:
        waiting: queues_of.SimpleQueue[threading.Lock] = queues_of.SimpleQueue()

        def one() -> None:
            for _ in range(count // RUNS):
                bell = threading.Lock()
                bell.acquire()
                waiting.put(bell)
                bell.acquire()

        threads = [threading.Thread(target=one) for _ in range(RUNS)]
        for thread in threads:
            thread.start()
        left = count // RUNS * RUNS
        while left:
            bells = [waiting.get()]
            while not waiting.empty():
                bells.append(waiting.get())
            with db:
                db.executemany("INSERT INTO bare (body) VALUES (?)", [(body,)] * len(bells))
            for bell in bells:
                bell.release()
            left -= len(bells)
        for thread in threads:
            thread.join()

    return timed(work)


def bare_postgres(dsn: str, body: bytes) -> Work:
    db = psycopg.connect(dsn, autocommit=True)
    db.execute("CREATE TABLE bare (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, body bytea)")

    def work(count: int) -> None:
        for _ in range(count):
            db.execute("INSERT INTO bare (body) VALUES (%s)", (body,), prepare=True)

    return timed(work)


# Peers


class Peer:
    """A peer in a process of its own: see `_durable_peer`."""

    def __init__(self, python: str, name: str, address: str) -> None:
        script = str(Path(__file__).with_name("_durable_peer.py"))
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [python, script, name, address], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.version = self._answer()

    def __call__(self, count: int) -> float:
        assert self._process.stdin
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout
        if not (line := self._process.stdout.readline().strip()):
            raise SystemExit(f"{self._process.args!r} ended without an answer")
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def peers(folder: Path, server: Server, names: tuple[str, ...]) -> dict[str, Peer]:
    """Start the peers, if wanted: `./dev bench durable --peers` sets where they are installed."""
    python = os.environ.get("TAKEBACK_PEERS", "")
    found = {}
    for name in names if python else ():
        path = folder / f"{name}.db"
        embedded = f"sqlite:///{path}" if name.startswith("DBOS") else str(path)
        address = embedded if STORE_OF.get(name) == "SQLite" else server.make(schema="")
        found[name] = Peer(python, name, address)
    if found:
        print(", ".join(f"{name} {peer.version}" for name, peer in found.items()))
    return found


# The tables


def line(what: str, ours: float, against: str, theirs: float, goal: float) -> None:
    figures = f"{ours:,.0f}/s against {theirs:,.0f}/s = {ours / theirs:.2f}"
    verdict = "met" if ours >= goal * theirs else "MISSED"
    print(f"{what:<24} {against:<26} {figures:<42} ≥ {goal:<6g} {verdict}")


def records(folder: Path, server: Server, count: int) -> None:
    dsn = server.make(schema="")
    shared = PostgresJournal(dsn, "bench", folder / "shared.anchor")
    embedded = SqliteJournal(folder / "journal.db")
    record = embedded.append([event()], stream="bench")[0]
    body, _ = seal(record.envelope)
    others = peers(folder, server, tuple(STORE_OF))
    found = by_turns(
        {
            "bare SQLite": (bare_sqlite(bare_database(folder / "bare.db"), body), count),
            f"bare SQLite, {RUNS} at once": (
                bare_groups(bare_database(folder / "groups.db"), body),
                5 * count,
            ),
            f"bare SQLite, {RUNS} threads": (
                bare_threads(bare_database(folder / "threads.db"), body),
                5 * count,
            ),
            "SQLite, 1 run": (one_run(embedded), count),
            f"SQLite, {RUNS} runs": (many_runs(embedded), 5 * count),
            "bare PostgreSQL": (bare_postgres(dsn, body), count),
            "PostgreSQL, 1 run": (one_run(shared), count),
            f"PostgreSQL, {RUNS} runs": (many_runs(shared), 5 * count),
            **{name: (peer, count // 4) for name, peer in others.items()},
        },
        ROUNDS,
    )
    for store in STORES:
        one, many, bare = found[f"{store}, 1 run"], found[f"{store}, {RUNS} runs"], found[f"bare {store}"]
        line(f"{store}, 1 run", one, f"bare {store}", bare, ONE_RUN_MIN)
        line(f"{store}, {RUNS} runs", many, f"bare {store}", bare, MANY_RUNS_MIN)
        for what, how in (
            (f"{RUNS} at once", f"{RUNS} rows in a commit"),
            (f"{RUNS} threads", f"{RUNS} bare threads"),
        ):
            if floor := found.get(f"bare {store}, {what}"):
                figures = f"{floor:,.0f}/s, {floor / bare:.2f} times the bare rate"
                print(f"{'  the floor':<24} {how:<26} {figures}")
        for peer in [name for name in others if STORE_OF[name] == store]:
            line(f"{store}, 1 run", one, peer, found[peer], DBOS_MIN if peer.startswith("DBOS") else 1.0)
    for other in others.values():
        other.close()
    shared.close()
    embedded.close()


def queues(folder: Path, server: Server, count: int) -> None:
    shared = PostgresJournal(server.make(schema=""), "queue", folder / "queue-shared.anchor")
    embedded = SqliteJournal(folder / "queue.db")
    others = peers(folder, server, QUEUES)
    works: dict[str, tuple[Work, int]] = {
        "SQLite": (lambda count: queue.drained(embedded, count), count),
        "PostgreSQL": (lambda count: queue.drained(shared, count), count),
        **{name: (peer, count) for name, peer in others.items()},
    }
    found = by_turns(works, 3)
    for store in STORES:
        if not others:
            print(f"{store + ' queue, 1 worker':<51} {found[store]:,.0f}/s")
        for peer in others:
            line(f"{store} queue, 1 worker", found[store], peer, found[peer], QUEUE_MIN)
    for other in others.values():
        other.close()
    shared.close()
    embedded.close()


def memory(count: int) -> None:
    """Measure the memory of a process that defers this many intents, one that drains and one that lists them."""
    for what in queue.WAYS:
        few, many = queue.peak_mb(what, count // 10), queue.peak_mb(what, count)
        figures = f"{few:.0f} MB for {count // 10:,}, {many:.0f} MB for {count:,}"
        each = (many - few) * 1e6 / (count - count // 10)
        verdict = "met" if many - few <= GROWTH_MAX else f"MISSED: {each:,.0f} bytes for each"
        print(f"{f'memory to {what} intents':<51} {figures:<42} ≤ {GROWTH_MAX:g} MB   {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description="measure durable records and the queue in each store")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--peers", action="store_true", help="measure others too")
    part = 10 if parser.parse_args().quick else 1
    server = Server(durable=True)
    try:
        with tempfile.TemporaryDirectory(prefix="takeback-bench-") as name:
            records(Path(name), server, 1280 // part)
            queues(Path(name), server, 5000 // part)
    finally:
        server.stop()
    memory(100_000 // part)


if __name__ == "__main__":
    main()
