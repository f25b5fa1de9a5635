"""The savers of `./dev bench savers`, in the environment of LangGraph: `_savers_inside ADDRESS QUICK`.

Each kind of work is done by all savers in turn, in short rounds in a random order, since the speed of a machine
varies from one second to the next. The state is 25 kB of messages, and each put adds one.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import psycopg
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from takeback.frameworks.langgraph import TakebackSaver

MESSAGES, TEXT = 100, "x" * 160
SIZE_STEPS = 150
Work = Callable[[int], Any]


def message(number: int) -> AIMessage:
    return AIMessage(f"{TEXT} {number}", id=f"message-{number}")


class Putting:
    """A thread whose list of messages grows by one with each put; or writes of one message."""

    def __init__(self, saver: Any, thread: str) -> None:
        self._saver = saver
        self._messages = [message(number) for number in range(MESSAGES)]
        self._config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        self._steps = 0

    def _next(self) -> tuple[Any, Any, Any, Any]:
        self._steps += 1
        step = self._steps
        self._messages = [*self._messages, message(MESSAGES + step)]
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": self._messages, "count": step}
        versions = {
            "messages": self._saver.get_next_version(step, None),
            "count": self._saver.get_next_version(step, None),
        }
        checkpoint["channel_versions"] = versions
        return self._config, checkpoint, {"source": "loop", "step": step, "parents": {}}, versions

    def put(self, count: int) -> None:
        for _ in range(count):
            self._config = self._saver.put(*self._next())

    def writes(self, count: int) -> None:
        for _ in range(count):
            self._steps += 1
            task = f"task-{self._steps}"
            self._saver.put_writes(self._config, [("messages", [message(self._steps)])], task)

    async def aput(self, count: int) -> None:
        for _ in range(count):
            self._config = await self._saver.aput(*self._next())

    async def awrites(self, count: int) -> None:
        for _ in range(count):
            self._steps += 1
            task = f"task-{self._steps}"
            await self._saver.aput_writes(self._config, [("messages", [message(self._steps)])], task)


class Stepping:
    """A graph that adds a message in each step, and waits until each step is stored."""

    def __init__(self, saver: Any, thread: str) -> None:
        self._left = 0
        builder = StateGraph(MessagesState)
        builder.add_node("speak", self._speak)
        builder.add_edge(START, "speak")
        builder.add_conditional_edges("speak", lambda _: "speak" if self._left else END)
        self._graph = builder.compile(checkpointer=saver)
        self._config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": 10_000}
        self._number = 0
        self._first: list[Any] = [message(-number) for number in range(1, MESSAGES + 1)]

    def _speak(self, _: Any) -> Any:
        self._left -= 1
        self._number += 1
        return {"messages": [message(self._number)]}

    def _given(self, count: int) -> Any:
        self._left = count
        first, self._first = self._first, []
        return {"messages": first}

    def steps(self, count: int) -> None:
        self._graph.invoke(self._given(count), self._config, durability="sync")

    async def asteps(self, count: int) -> None:
        await self._graph.ainvoke(self._given(count), self._config, durability="sync")


def by_turns(
    what: str, works: dict[str, Work], count: int, rounds: int, loop: asyncio.AbstractEventLoop
) -> dict[str, dict[str, float]]:
    """Return the time of one unit of each, in milliseconds: that of a good round, the best quarter of them.

    What else runs on the machine makes some rounds slower, and none quicker. CPU time is that of this process.
    """
    found: dict[str, list[float]] = {name: [] for name in works}
    used: dict[str, list[float]] = {name: [] for name in works}
    turns = list(works.items())
    for round_number in range(rounds + 1):
        random.shuffle(turns)
        for name, work in turns:
            begun, begun_cpu = time.perf_counter(), time.process_time()
            if asyncio.iscoroutine(made := work(count)):
                loop.run_until_complete(made)
            if round_number:  # the first one is warm-up
                found[name].append((time.perf_counter() - begun) / count * 1000)
                used[name].append((time.process_time() - begun_cpu) / count * 1000)
    return {what: _good(found), f"{what}, CPU time": _good(used)}


def _good(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.quantiles(times, n=4)[0] for name, times in found.items()}


def bare_file(folder: Path) -> Work:
    """A commit of 500 bytes in a SQLite file, durable: no saver in a file can be quicker."""
    db = apsw.Connection(str(folder / "bare.db"))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    db.execute("CREATE TABLE bare (body)")
    return lambda count: (
        [db.execute("INSERT INTO bare VALUES (?)", (b"x" * 500,)) for _ in range(count)] and None
    )


def bare_server(dsn: str) -> Work:
    db = psycopg.connect(dsn, autocommit=True)
    db.execute("CREATE TABLE bare (body bytea)")
    return lambda count: (
        [db.execute("INSERT INTO bare VALUES (%s)", (b"x" * 500,)) for _ in range(count)] and None
    )


def size_of(state: Path) -> int:
    return sum(
        path.stat().st_size for path in state.glob("conversations.db*") if not path.name.endswith("-shm")
    )


def main(address: str, quick: str) -> None:
    count, rounds = (5, 8) if quick else (5, 40)
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(prefix="takeback-bench-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        for name in ("file", "server", "steps", "size"):
            (folder / name).mkdir()
        ours = stack.enter_context(TakebackSaver.from_conn_string(folder / "file"))
        theirs = stack.enter_context(SqliteSaver.from_conn_string(str(folder / "theirs.db")))
        theirs.setup()
        opening = AsyncSqliteSaver.from_conn_string(str(folder / "async.db"))
        theirs_async = loop.run_until_complete(opening.__aenter__())
        server = stack.enter_context(TakebackSaver.from_conn_string(address, root=folder / "server"))
        their_server = stack.enter_context(PostgresSaver.from_conn_string(address))
        their_server.setup()
        bare = {"bare commit, file": bare_file(folder), "bare commit, server": bare_server(address)}
        sync = {
            "Takeback, file": ours,
            "SqliteSaver": theirs,
            "Takeback, PostgreSQL": server,
            "PostgresSaver": their_server,
        }
        both = {"Takeback, file, async": ours, "AsyncSqliteSaver": theirs_async}
        results: dict[str, dict[str, float]] = {}
        puts = {name: Putting(saver, f"put {name}") for name, saver in (sync | both).items()}
        plain: dict[str, Work] = {name: puts[name].put for name in sync}
        results |= by_turns(
            "put", bare | plain | {name: puts[name].aput for name in both}, count, rounds, loop
        )
        plain = {name: puts[name].writes for name in sync}
        results |= by_turns(
            "put_writes", bare | plain | {name: puts[name].awrites for name in both}, count, rounds, loop
        )
        graphs = {name: Stepping(saver, f"graph {name}") for name, saver in (sync | both).items()}
        plain = {name: graphs[name].steps for name in sync}
        results |= by_turns(
            "graph step", plain | {name: graphs[name].asteps for name in both}, count, rounds, loop
        )
        loop.run_until_complete(opening.__aexit__(None, None, None))

        with TakebackSaver.from_conn_string(folder / "size") as saver:
            Stepping(saver, "t").steps(SIZE_STEPS)
            state = saver.workspace.state
        with SqliteSaver.from_conn_string(str(folder / "size.db")) as saver:
            Stepping(saver, "t").steps(SIZE_STEPS)
        results["size"] = {
            "Takeback, file": size_of(state) / 1e6,
            "SqliteSaver": (folder / "size.db").stat().st_size / 1e6,
        }
        with psycopg.connect(address, autocommit=True) as db:
            before = _occupied(db)
            Stepping(server, "size").steps(SIZE_STEPS)
            between = _occupied(db)
            Stepping(their_server, "size").steps(SIZE_STEPS)
            after = _occupied(db)
        results["size"] |= {
            "Takeback, PostgreSQL": (between - before) / 1e6,
            "PostgresSaver": (after - between) / 1e6,
        }
    sys.stdout.write(json.dumps(results))


def _occupied(db: psycopg.Connection[Any]) -> int:
    row = db.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row
    return int(row[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
