"""Scenes with a TakebackWorkbench: `scenes FOLDER` plays each of them in one process, and prints what failed."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.tools import (
    BaseStreamTool,
    FunctionTool,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolOverride,
    ToolResult,
    Workbench,
)
from pydantic import BaseModel

import takeback
from takeback.frameworks.autogen import ApprovalPending, TakebackModelClient, TakebackWorkbench
from tests.frameworks import shop
from tests.frameworks.autogen.scripted import Scripted

WAIT_S = 60.0


class Scene:
    """A folder with a workspace and other systems, and a conversation in it."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        (folder / "shop").mkdir()
        os.environ |= {"WORK": str(self.work), "SHOP": str(folder / "shop")}
        self.tb = takeback.open(self.work)

    def workbench(self, tools: Any = shop.TOOLS) -> TakebackWorkbench:
        return TakebackWorkbench(tools, self.tb, thread="1")

    def agent(self, workbench: TakebackWorkbench, **options: Any) -> Any:
        options = {"max_tool_iterations": 9} | options
        return AssistantAgent(
            "clerk", TakebackModelClient(Scripted(), workbench), workbench=workbench, **options
        )


async def taken(workbench: TakebackWorkbench, agent: Any, word: str, **options: Any) -> Any:
    """Take a turn. One that hangs ends the scene."""
    async with asyncio.timeout(WAIT_S), workbench.turn(agent, word):
        return await agent.run(task=word, **options)


async def stopped_by(turn: Awaitable[Any], kind: type[BaseException]) -> Any:
    try:
        await turn
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


async def test_arguments_that_cannot_be_recorded_are_told_to_the_model(scene: Scene) -> None:
    workbench = scene.workbench()
    result = await workbench.call_tool("write", {"name": "\ud800", "text": "a"}, call_id="c")
    assert result.is_error and "unpaired surrogate" in result.to_text(), result
    assert workbench.thread.actions() == []
    assert (await taken(workbench, scene.agent(workbench), "prepare")).messages[-1].content == "done"


async def test_an_error_of_the_record_stops_the_turn_and_hangs_nobody(scene: Scene) -> None:
    class Broken(TakebackWorkbench):
        async def position(self) -> str:
            raise RuntimeError("the disk is gone")

    broken = Broken(shop.TOOLS, scene.tb, thread="2")
    agent = AssistantAgent("clerk", Scripted(), workbench=broken, max_tool_iterations=9)
    error = await stopped_by(taken(broken, agent, "prepare"), RuntimeError)
    assert str(error) == "the disk is gone" and not list(scene.work.iterdir())


async def test_a_cancelled_token_hangs_nobody(scene: Scene) -> None:
    workbench, token = scene.workbench(), CancellationToken()

    async def cancel() -> None:
        while not (scene.work / "e.txt").exists():
            await asyncio.sleep(0.01)
        token.cancel()
        shop.place("cancelled").touch()

    cancelling = asyncio.ensure_future(cancel())
    turn = taken(workbench, scene.agent(workbench), "linger", cancellation_token=token)
    await stopped_by(turn, asyncio.CancelledError)
    await cancelling
    (action,) = workbench.thread.actions()
    assert action.outcome == "cut-short" and await workbench.turns() == []


async def test_an_approval_stops_a_turn_that_asks_its_model_only_once(scene: Scene) -> None:
    workbench = scene.workbench()
    agent = scene.agent(workbench, max_tool_iterations=1)
    pending = await stopped_by(taken(workbench, agent, "pay"), ApprovalPending)
    assert pending.tool == "pay" and not shop.rows("payments") and await workbench.turns() == []
    scene.tb.approve(pending.approval)
    await taken(workbench, agent, "pay")  # the same agent: it has forgotten the first attempt
    assert shop.rows("payments") == [{"amount": 7}] and len(await workbench.turns()) == 1
    state = await agent.save_state()
    assert [message["type"] for message in state["llm_context"]["messages"]].count("UserMessage") == 1


async def test_a_team_is_stopped_and_goes_on(scene: Scene) -> None:
    def team(workbench: TakebackWorkbench) -> Any:
        return RoundRobinGroupChat(
            [scene.agent(workbench)], termination_condition=TextMentionTermination("done"), max_turns=3
        )

    first = scene.workbench()
    await taken(first, team(first), "prepare")
    second = scene.workbench()
    pending = await stopped_by(taken(second, team(second), "pay"), ApprovalPending)
    scene.tb.approve(pending.approval)
    third = scene.workbench()
    result = await taken(third, team(third), "pay")
    assert result.messages[-1].content == "done" and shop.rows("payments") == [{"amount": 7}]
    turns = await third.turns()
    assert [turn.name for turn in turns] == ["prepare", "pay"]
    preview = third.thread.rollback(to=third.thread.actions()[-1], preview=True)
    assert "pay" in str(preview)


async def test_a_tool_that_failed_is_recorded_as_failed(scene: Scene) -> None:
    workbench = scene.workbench()
    assert (await taken(workbench, scene.agent(workbench), "fail")).messages[-1].content == "done"
    assert [(action.name, action.outcome) for action in workbench.thread.actions()] == [
        ("write", "done"),
        ("spoil", "failed"),
    ]


class CountArgs(BaseModel):
    to: int


class Counting(BaseStreamTool[CountArgs, TextMessage, TextMessage]):
    """A tool that streams."""

    def __init__(self) -> None:
        super().__init__(CountArgs, TextMessage, "count", "Counts.")
        self.made = 0

    async def run(self, args: CountArgs, cancellation_token: CancellationToken) -> TextMessage:
        raise AssertionError("it streams")

    async def run_stream(
        self, args: CountArgs, cancellation_token: CancellationToken
    ) -> AsyncGenerator[TextMessage, None]:
        self.made += 1
        for number in range(args.to):
            yield TextMessage(content=str(number), source="count")

    def return_value_as_string(self, value: Any) -> str:
        return str(value.content)


async def test_what_a_tool_streams_passes_through(scene: Scene) -> None:
    counting = Counting()
    for expected in (["0", "1", "2"], ["2"]):
        workbench = scene.workbench([counting])
        stream = workbench.call_tool_stream("count", {"to": 3}, call_id="c")
        found = [
            event.to_text() if isinstance(event, ToolResult) else event.content async for event in stream
        ]
        assert found == expected and counting.made == 1, found


class Remote(Workbench):
    """A workbench whose tools are elsewhere."""

    def __init__(self) -> None:
        self.called: list[Any] = []

    async def list_tools(self) -> Any:
        return [{"name": "remember"}]

    async def call_tool(self, name: str, arguments: Any = None, *more: Any, **options: Any) -> ToolResult:
        self.called.append(arguments)
        return ToolResult(name=name, result=[TextResultContent(content="remembered")])

    async def start(self) -> None:
        self.called.append("start")

    async def stop(self) -> None:
        self.called.append("stop")

    async def reset(self) -> None: ...

    async def save_state(self) -> Any:
        return {"n": 1}

    async def load_state(self, state: Any) -> None:
        self.called.append(state)


async def test_any_workbench_can_be_wrapped(scene: Scene) -> None:
    remote = Remote()
    async with scene.workbench(remote) as workbench:
        assert await workbench.list_tools() == [{"name": "remember"}]
        for _ in range(2):
            result = await workbench.call_tool("remember", {"text": "milk"}, call_id="c")
            assert result.to_text() == "remembered"
        await workbench.load_state(await workbench.save_state())
    assert remote.called == ["start", {"text": "milk"}, {"n": 1}, "stop"]


async def test_names_can_be_overridden(scene: Scene) -> None:
    tools: Any = [FunctionTool(shop.write, description="")]
    workbench = scene.workbench()
    for kind in (StaticWorkbench, StaticStreamWorkbench):
        workbench = scene.workbench(kind(tools, {"write": ToolOverride(name="put")}))
        assert [tool["name"] for tool in await workbench.list_tools()] == ["put"]
        result = await workbench.call_tool("put", {"name": "a", "text": "b"}, call_id="c")
        assert result.name == "put" and result.to_text() == "wrote a", result
    (action,) = workbench.thread.actions()
    assert action.name == "put" and action.outcome == "done"


async def test_a_rule_that_forbids_a_call_is_told_to_the_model(scene: Scene) -> None:
    (scene.work / "takeback.toml").write_text('[rules.tools]\ndeny = ["book"]\n')
    workbench = scene.workbench()
    agent = scene.agent(workbench)
    assert (await taken(workbench, agent, "prepare")).messages[-1].content == "done"
    assert "was refused" in str(await agent.save_state()) and not shop.rows("bookings")


async def test_what_is_impossible_is_refused(scene: Scene) -> None:
    workbench = scene.workbench()
    assert "nothing was taken back" in str(
        await stopped_by(workbench.go_back("nowhere"), takeback.UsageError)
    )

    async def dumped() -> None:
        workbench.dump_component()

    assert "would record nothing" in str(await stopped_by(dumped(), takeback.UsageError))
    unknown = await workbench.call_tool("unknown", {}, call_id="c")
    assert unknown.is_error and "not found" in unknown.to_text()


SCENES: list[Callable[[Scene], Any]] = [
    value for name, value in list(globals().items()) if name.startswith("test_")
]


def main(folder: str) -> None:
    failed = 0
    for number, scene in enumerate(SCENES):
        try:
            asyncio.run(scene(Scene(Path(folder) / str(number))))
            sys.stdout.write(f"passed {scene.__name__}\n")
        except Exception:  # noqa: BLE001  the next scene is played all the same
            failed += 1
            sys.stdout.write(f"FAILED {scene.__name__}\n{traceback.format_exc()}\n")
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
