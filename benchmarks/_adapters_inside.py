"""One framework of `./dev bench adapters`, in its own environment: `_adapters_inside FRAMEWORK FOLDER QUICK`.

A turn is CALLS rounds: the model asks for one call, and its tool returns at once. Each kind of agent takes turns with
the others in a random order, since the speed of a machine varies from one second to the next.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import apsw

import takeback

CALLS = 8
FILES = 200
SYNCS = 2
"""The beginning of a call and its end: each is durable before the next thing happens."""

Turns = Callable[[], Awaitable[Any]]


class Kinds(NamedTuple):
    """The same agent three times, each as a function that runs one turn of a conversation of its own."""

    bare: Turns
    protected: Turns
    own: Turns
    """With what the framework itself stores of a conversation, and without Takeback."""


@takeback.action(effect="restorable")
def measure(number: int) -> str:
    """Measure something."""
    return f"measured {number}"


def arguments() -> dict[str, Any]:
    return {"number": random.randrange(1_000_000)}


async def langgraph(tb: takeback.Workspace, folder: Path, stack: AsyncExitStack) -> Kinds:
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from takeback.frameworks.langchain import Takeback

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            last = max(n for n, message in enumerate(messages) if isinstance(message, HumanMessage))
            done = sum(isinstance(message, AIMessage) for message in messages[last:])
            call = {"name": "measure", "args": arguments(), "id": f"call-{uuid.uuid4()}", "type": "tool_call"}
            answer = AIMessage("", tool_calls=[call]) if done < CALLS else AIMessage("done")
            return ChatResult(generations=[ChatGeneration(message=answer)])

    def kind(saver: Any, *layers: Any) -> Turns:
        agent: Any = create_agent(Scripted(), [tool(measure)], middleware=layers, checkpointer=saver)

        async def turn() -> None:
            config: Any = {"configurable": {"thread_id": str(uuid.uuid4())}}
            await agent.ainvoke({"messages": [HumanMessage("go")]}, config, durability="sync")

        return turn

    saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(folder / "own.db")))
    return Kinds(kind(InMemorySaver()), kind(InMemorySaver(), Takeback(tb)), kind(saver))


async def openai_agents(tb: takeback.Workspace, folder: Path, _: AsyncExitStack) -> Kinds:
    from agents import Agent, Runner, SQLiteSession, function_tool
    from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

    from takeback.frameworks.openai_agents import protect

    def answer(call: ModelCall) -> list[Any]:
        items: Any = [] if isinstance(call.input, str) else call.input
        last = max((n for n, item in enumerate(items) if item.get("role") == "user"), default=0)
        done = sum(item.get("type") == "function_call" for item in items[last:])
        if done < CALLS:
            return [function_call("measure", json.dumps(arguments()), call_id=f"call-{uuid.uuid4()}")]
        return [assistant_message("done", item_id=f"msg-{uuid.uuid4()}")]

    def made() -> Any:
        model = ScriptedModel([ModelStep.respond(answer)] * (CALLS + 1))
        return Agent(name="clerk", model=model, tools=[function_tool(measure)])

    async def bare() -> None:
        await Runner.run(made(), "go")

    async def protected() -> None:
        await Runner.run(protect(made(), tb, thread=str(uuid.uuid4())), "go")

    async def own() -> None:
        session = SQLiteSession(str(uuid.uuid4()), folder / "own.db")
        await Runner.run(made(), "go", session=session)
        session.close()

    return Kinds(bare, protected, own)


async def pydantic_ai(tb: takeback.Workspace, folder: Path, _: AsyncExitStack) -> Kinds:
    from pydantic_ai import Agent, Tool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelResponse,
        TextPart,
        ToolCallPart,
    )
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from takeback.frameworks.pydantic_ai import Takeback

    db = database(folder / "own.db")

    class Storing(AbstractCapability[Any]):
        """The framework has no durable store: its documents say to store the messages as JSON."""

        async def wrap_tool_execute(self, ctx: Any, *, args: Any, handler: Any, **_: Any) -> Any:
            result = await handler(args)
            body = ModelMessagesTypeAdapter.dump_json(ctx.messages)
            await asyncio.to_thread(db.execute, "INSERT INTO bare VALUES (?)", (body,))
            return result

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done < CALLS:
            return ModelResponse(parts=[ToolCallPart("measure", arguments(), f"call-{uuid.uuid4()}")])
        return ModelResponse(parts=[TextPart("done")])

    def kind(*layers: Any) -> Turns:
        agent = Agent(FunctionModel(answer), tools=[Tool(measure, takes_ctx=False)], capabilities=layers)
        return lambda: agent.run("go", conversation_id=str(uuid.uuid4()))

    return Kinds(kind(), kind(Takeback(tb)), kind(Storing()))


def database(path: Path) -> apsw.Connection:
    """A SQLite file whose commits are synced."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    db.execute("CREATE TABLE bare (body)")
    return db


def answers(tb: takeback.Workspace) -> Turns:
    """The answers of one turn, recorded without a framework."""

    async def turn() -> None:
        thread = tb.thread(key=str(uuid.uuid4()))
        messages: list[Any] = [{"role": "user", "content": "go"}]
        for number in range(CALLS):

            async def make(number: int = number) -> Any:
                return {
                    "role": "assistant",
                    "calls": [{"name": "measure", "args": arguments(), "id": number}],
                }

            with thread.turn(f"after {number}").here():
                messages.append(await thread.aanswer(messages, make))

    return turn


def syncs(db: apsw.Connection) -> Turns:
    """The commits of one turn that no adapter can do without, with the driver alone."""

    async def turn() -> None:
        for _ in range(CALLS * SYNCS):
            db.execute("INSERT INTO bare VALUES (?)", (b"x" * 500,))

    return turn


async def by_turns(works: dict[str, Turns], rounds: int) -> dict[str, dict[str, float]]:
    """Return milliseconds of wall time and of CPU time for one round of each: those of a good turn, the best quarter.

    What else runs on the machine makes some turns slower, and none quicker.
    """
    wall: dict[str, list[float]] = {name: [] for name in works}
    cpu: dict[str, list[float]] = {name: [] for name in works}
    turns = list(works.items())
    for number in range(rounds + 2):
        random.shuffle(turns)
        for name, work in turns:
            begun, used = time.perf_counter(), time.process_time()
            await work()
            if number > 1:  # the first ones are warm-up
                wall[name].append((time.perf_counter() - begun) / CALLS * 1000)
                cpu[name].append((time.process_time() - used) / CALLS * 1000)
    return {name: {"wall": _good(wall[name]), "cpu": _good(cpu[name])} for name in works}


def _good(times: list[float]) -> float:
    return statistics.quantiles(times, n=4)[0]


async def main(framework: str, scratch: str, quick: str) -> None:
    folder = Path(scratch)
    (folder / "project").mkdir()
    for number in range(FILES):
        (folder / "project" / f"{number}.txt").write_text(f"file {number}")
    kinds = {"langgraph": langgraph, "openai_agents": openai_agents, "pydantic_ai": pydantic_ai}
    async with AsyncExitStack() as stack:
        with takeback.open(folder / "project") as tb:
            works = (await kinds[framework](tb, folder, stack))._asdict()
            works["answers"] = answers(tb)
            works["syncs"] = syncs(database(folder / "bare.db"))
            found = await by_turns(works, 12 if quick else 60)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
