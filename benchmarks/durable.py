"""What a durable action record costs in each store, against the bare store and its peers, in the same run.

    python benchmarks/durable.py [--quick]

Only ratios carry over to another machine. A record is one append of about 440 bytes, durable when it returns: by one
run, and by 64 runs in as many threads. The bare store is a commit of the same bytes with the driver alone. Peers are
measured where they are installed: DBOS with a step of a workflow, LangGraph's savers with the put of a checkpoint.
The server belongs to the benchmark, and syncs as it would anywhere.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw
import psycopg

from benchmarks.journal import bare_database, event
from takeback.core import events as e
from takeback.core.record import seal
from takeback.ports import Journal
from takeback.storage.postgres.journal import PostgresJournal
from takeback.storage.sqlite import SqliteJournal
from tests.resources.postgres.world import Server

RUNS = 64
ROUNDS = 5

ONE_RUN_MAX = 2.0
MANY_RUNS_MIN = 3.0
DBOS_MIN = 10.0

Work = Callable[[int], object]
"""Make this many durable records."""


def rate(work: Work, count: int) -> float:
    start = time.perf_counter()
    work(count)
    return count / (time.perf_counter() - start)


def by_turns(works: dict[str, Work], count: int) -> dict[str, float]:
    """The median rate of each, measured by turns, since a machine is not always equally quick."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            found[name].append(rate(work, count))
    return {name: statistics.median(rates) for name, rates in found.items()}


# Ours


def one_run(journal: Journal) -> Work:
    stream = journal.append([e.RunBegan("run")], stream="")[0].stream
    action = event()

    def work(count: int) -> None:
        for _ in range(count):
            journal.append([action], stream=stream)

    return work


def many_runs(journal: Journal) -> Work:
    works = [one_run(journal) for _ in range(RUNS)]

    def work(count: int) -> None:
        threads = [threading.Thread(target=one, args=(count // RUNS,)) for one in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return work


# Bare


def bare_sqlite(db: apsw.Connection, body: bytes) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            db.execute("INSERT INTO bare (body) VALUES (?)", (body,))

    return work


def bare_postgres(dsn: str, body: bytes) -> Work:
    db = psycopg.connect(dsn, autocommit=True)
    db.execute("CREATE TABLE bare (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, body bytea)")

    def work(count: int) -> None:
        for _ in range(count):
            db.execute("INSERT INTO bare (body) VALUES (%s)", (body,), prepare=True)

    return work


# Peers


def peers(folder: Path, dsn: str, body: bytes) -> dict[str, Work]:
    """Those that are installed."""
    found: dict[str, Work] = {}
    if importlib.util.find_spec("dbos"):
        found["DBOS, SQLite"] = dbos(f"sqlite:///{folder / 'dbos.db'}", body)
    if importlib.util.find_spec("langgraph"):
        if importlib.util.find_spec("langgraph.checkpoint.sqlite"):
            found["LangGraph SqliteSaver"] = langgraph_sqlite(folder / "langgraph.db", body)
        if importlib.util.find_spec("langgraph.checkpoint.postgres"):
            found["LangGraph PostgresSaver"] = langgraph_postgres(dsn, body)
    return found


def dbos(address: str, body: bytes) -> Work:
    library: Any = importlib.import_module("dbos")
    library.DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})

    @library.DBOS.step()  # type: ignore[untyped-decorator]
    def step(text: str) -> str:
        return text

    @library.DBOS.workflow()  # type: ignore[untyped-decorator]
    def workflow(count: int, text: str) -> None:
        for _ in range(count):
            step(text)

    library.DBOS.launch()
    text = body.decode()
    return lambda count: workflow(count, text)


def langgraph_sqlite(path: Path, body: bytes) -> Work:
    saver: Any = importlib.import_module("langgraph.checkpoint.sqlite").SqliteSaver
    import sqlite3

    return puts(saver(sqlite3.connect(path, check_same_thread=False)), body)


def langgraph_postgres(dsn: str, body: bytes) -> Work:
    saver: Any = importlib.import_module("langgraph.checkpoint.postgres").PostgresSaver
    rows = importlib.import_module("psycopg.rows").dict_row
    return puts(saver(psycopg.connect(dsn, autocommit=True, row_factory=rows)), body)


def puts(saver: Any, body: bytes) -> Work:
    base: Any = importlib.import_module("langgraph.checkpoint.base")
    saver.setup()

    def work(count: int) -> None:
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for n in range(count):
            checkpoint = base.empty_checkpoint() | {"channel_values": {"body": body.decode()}}
            config = saver.put(config, checkpoint, {"step": n}, {})

    return work


# The table


def line(what: str, ours: float, against: str, theirs: float, goal: str, *, met: bool) -> None:
    figures = f"{ours:,.0f}/s against {theirs:,.0f}/s = {ours / theirs:.2f}"
    print(f"{what:<30} {against:<26} {figures:<42} {goal:<10} {'met' if met else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description="measure durable records in each store")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    count = 128 if parser.parse_args().quick else 1280
    server = Server(durable=True)
    try:
        with tempfile.TemporaryDirectory(prefix="takeback-bench-") as name:
            measure(Path(name), server.make(schema=""), count)
    finally:
        server.stop()


def measure(folder: Path, dsn: str, count: int) -> None:
    shared = PostgresJournal(dsn, "bench", folder / "shared.anchor")
    embedded = SqliteJournal(folder / "journal.db")
    record = embedded.append([event()], stream="bench")[0]
    body, _ = seal(record.envelope)
    works: dict[str, Work] = {
        "bare SQLite": bare_sqlite(bare_database(folder / "bare.db"), body),
        "SQLite, 1 run": one_run(embedded),
        f"SQLite, {RUNS} runs": many_runs(embedded),
        "bare PostgreSQL": bare_postgres(dsn, body),
        "PostgreSQL, 1 run": one_run(shared),
        f"PostgreSQL, {RUNS} runs": many_runs(shared),
        **peers(folder, dsn, body),
    }
    found = by_turns(works, count)
    for store in ("SQLite", "PostgreSQL"):
        one, many, bare = found[f"{store}, 1 run"], found[f"{store}, {RUNS} runs"], found[f"bare {store}"]
        line(
            f"{store}, 1 run",
            one,
            f"bare {store}",
            bare,
            f"≥ 1/{ONE_RUN_MAX:g}",
            met=one * ONE_RUN_MAX >= bare,
        )
        goal = MANY_RUNS_MIN if store == "PostgreSQL" else 1.0
        line(f"{store}, {RUNS} runs", many, f"bare {store}", bare, f"≥ {goal:g}", met=many >= goal * bare)
        for peer in [name for name in found if name.startswith(("DBOS", "LangGraph"))]:
            least = DBOS_MIN if peer.startswith("DBOS") else 1.0
            line(f"{store}, 1 run", one, peer, found[peer], f"≥ {least:g}", met=one >= least * found[peer])
    shared.close()
    embedded.close()


if __name__ == "__main__":
    main()
