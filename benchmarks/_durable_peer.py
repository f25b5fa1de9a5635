"""One peer of `durable`, in a process and an environment of its own, without Takeback.

    python _durable_peer.py NAME ADDRESS

It prints its version when it is ready. Then it reads a number from each line, and prints the seconds that this
many records, or jobs, took. A queue is filled before the clock starts, and the clock stops with the last job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

BODY = "x" * 440

Work = Callable[[int], float]
"""Do so much; gives the seconds."""


def timed(work: Callable[[int], object]) -> Work:
    def run(count: int) -> float:
        start = time.perf_counter()
        work(count)
        return time.perf_counter() - start

    return run


# Records


def dbos(address: str) -> Work:
    """A step of a workflow that returns a text."""
    library: Any = import_module("dbos")
    library.DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})

    @library.DBOS.step()  # type: ignore[untyped-decorator]
    def step(text: str) -> str:
        return text

    @library.DBOS.workflow()  # type: ignore[untyped-decorator]
    def workflow(count: int) -> None:
        for _ in range(count):
            step(BODY)

    library.DBOS.launch()
    return timed(workflow)


def sqlite_saver(address: str) -> Work:
    import sqlite3

    saver: Any = import_module("langgraph.checkpoint.sqlite").SqliteSaver
    return puts(saver(sqlite3.connect(address, check_same_thread=False)))


def postgres_saver(address: str) -> Work:
    psycopg: Any = import_module("psycopg")
    saver: Any = import_module("langgraph.checkpoint.postgres").PostgresSaver
    rows = import_module("psycopg.rows").dict_row
    return puts(saver(psycopg.connect(address, autocommit=True, prepare_threshold=0, row_factory=rows)))


def puts(saver: Any) -> Work:
    """A checkpoint of a graph with one channel."""
    base: Any = import_module("langgraph.checkpoint.base")
    saver.setup()

    def work(count: int) -> None:
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for n in range(count):
            checkpoint = base.empty_checkpoint() | {"channel_values": {"body": BODY}}
            config = saver.put(config, checkpoint, {"step": n}, {})

    return timed(work)


# Queues


class Last:
    """Signals when the last job was done."""

    def __init__(self) -> None:
        self.at = 0.0

    async def job(self, *_: object, **__: object) -> None:
        self.at = time.perf_counter()


def procrastinate(address: str) -> Work:
    library: Any = import_module("procrastinate")
    app = library.App(connector=library.PsycopgConnector(conninfo=address))
    last = Last()
    task = app.task(name="bench.noop")(last.job)

    async def make() -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def drain(count: int) -> float:
        async with app.open_async():
            await task.batch_defer_async(*[{"text": BODY}] * count)
            start = time.perf_counter()
            await app.run_worker_async(wait=False, concurrency=4, install_signal_handlers=False)
            return last.at - start

    asyncio.run(make())
    return lambda count: asyncio.run(drain(count))


def pgqueuer(address: str, batch: int = 10) -> Work:
    """Drain the queue with the default number of jobs at a time."""
    library: Any = import_module("pgqueuer")
    asyncpg: Any = import_module("asyncpg")
    database, types = import_module("pgqueuer.db"), import_module("pgqueuer.types")
    last = Last()

    async def opened() -> tuple[Any, Any]:
        line = await asyncpg.connect(address)
        return line, import_module("pgqueuer.queries").Queries(database.AsyncpgDriver(line))

    async def make() -> None:
        line, queries = await opened()
        await queries.install()
        await line.close()

    async def drain(count: int) -> float:
        line, queries = await opened()
        manager = library.QueueManager(queries)
        manager.entrypoint("noop")(last.job)
        await queries.enqueue(["noop"] * count, [BODY.encode()] * count, [0] * count)
        start = time.perf_counter()
        await manager.run(mode=types.QueueExecutionMode.drain, batch_size=batch)
        await line.close()
        return last.at - start

    asyncio.run(make())
    return lambda count: asyncio.run(drain(count))


PEERS: dict[str, tuple[str, Callable[[str], Work]]] = {
    "DBOS, SQLite": ("dbos", dbos),
    "DBOS, PostgreSQL": ("dbos", dbos),
    "LangGraph SqliteSaver": ("langgraph-checkpoint-sqlite", sqlite_saver),
    "LangGraph PostgresSaver": ("langgraph-checkpoint-postgres", postgres_saver),
    "Procrastinate": ("procrastinate", procrastinate),
    "pgqueuer": ("pgqueuer", pgqueuer),
    "pgqueuer, 50 at a time": ("pgqueuer", lambda address: pgqueuer(address, 50)),
}


def main(name: str, address: str) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    package, make = PEERS[name]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep what a library prints apart from the answers
    work = make(address)
    print(metadata.version(package), file=answers, flush=True)
    for line in sys.stdin:
        print(work(int(line)), file=answers, flush=True)
    os._exit(0)  # some libraries have threads that do not end


if __name__ == "__main__":
    main(*sys.argv[1:])
