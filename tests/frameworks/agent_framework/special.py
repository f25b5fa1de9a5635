"""Scenes that only agents of agent-framework have, each played by `special SCENE` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    Content,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    Message,
    WorkflowCheckpoint,
    tool,
)

from takeback.frameworks.agent_framework import TakebackCheckpointStorage, TakebackMiddleware
from takeback.frameworks.agent_framework.middleware import recorded, returned
from takeback.frameworks.calling import UNKEPT
from tests.frameworks import shop
from tests.frameworks.agent_framework.agent import Scripted, made, said


def at_work() -> TakebackMiddleware:
    return TakebackMiddleware(os.environ["WORK"])


async def refusal(work: Coroutine[Any, Any, Any]) -> str:
    """Return the error that this raises."""
    try:
        await work
    except Exception as error:  # noqa: BLE001  whatever it is, it is compared
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def results(session: Any) -> list[str]:
    contents = [content for message in said(session) for content in message.contents]
    return [str(content.result) for content in contents if content.type == "function_result"]


async def an_agent_without_a_session_is_refused() -> None:
    refused = await refusal(made(at_work()).run("prepare"))
    assert "has no thread; the model was not asked" in refused, refused
    assert not shop.place("asked").exists()


async def a_refusal_is_recorded_and_told() -> None:
    undoing = at_work()
    agent = made(undoing)
    response = await agent.run("pay", session=undoing.session("1"))
    (request,) = response.user_input_requests
    (waiting,) = undoing.workspace.approvals()
    assert request.additional_properties["approval"] == waiting.id
    answer = request.to_function_approval_response(False)
    response = await agent.run(Message("user", [answer]), session=undoing.session("1"))
    assert response.text == "done" and undoing.workspace.approvals() == [] and shop.rows("payments") == []


async def what_a_rule_forbids_is_told_to_the_model() -> None:
    Path(os.environ["WORK"], "takeback.toml").write_text('[rules.effects]\nirreversible = "deny"\n')
    undoing = at_work()
    response = await made(undoing).run("pay", session=undoing.session("1"))
    assert response.text == "done" and shop.rows("payments") == []
    (told,) = results(undoing.session("1"))
    assert told.startswith("Error: pay was refused"), told


async def the_own_approval_of_a_tool_counts() -> None:
    undoing = at_work()
    tools = [tool(shop.pay, approval_mode="always_require")]
    agent = Agent(Scripted(), tools=tools, middleware=[undoing])
    response = await agent.run("pay", session=undoing.session("1"))
    answer = response.user_input_requests[0].to_function_approval_response(True)
    response = await agent.run(Message("user", [answer]), session=undoing.session("1"))
    assert response.text == "done" and shop.rows("payments") == [{"amount": 7}]


async def a_session_that_the_host_keeps_goes_on() -> None:
    undoing = at_work()
    agent, session = made(undoing), AgentSession(session_id="1")
    await agent.run("prepare", session=session)
    session = AgentSession.from_dict(session.to_dict())
    await agent.run("both", session=session)
    assert len(said(session)) == len(said(undoing.session("1"))) == 10
    # The same run again, as after a crash before the host stored the session: nothing is done twice.
    older = AgentSession.from_dict(session.to_dict())
    older.state["takeback"] = {"runs": 1}
    older.state["in_memory"]["messages"] = older.state["in_memory"]["messages"][:6]
    await agent.run("both", session=older)
    assert [row["room"] for row in shop.rows("bookings")] == ["attic", "ballroom"]
    assert len(said(undoing.session("1"))) == 10
    refused = await refusal(undoing.ago_back("1", keep=3))
    assert "has 2 runs, so 3 cannot be kept; nothing was taken back" in refused
    assert (await undoing.ago_back("1", keep=0)).verdict == "clean"
    assert shop.rows("bookings") == [] and os.listdir(os.environ["WORK"]) == []
    assert said(undoing.session("1")) == []


async def a_consumer_that_leaves_early_pauses_the_turn() -> None:
    undoing = at_work()
    agent = made(undoing)
    stream = agent.run("prepare", session=undoing.session("1"), stream=True)
    async for update in stream:
        if any(content.type == "function_result" for content in update.contents):
            break
    thread = undoing.workspace.thread(key="agent-framework/1")
    assert "write" in [action.name for action in thread.undelivered()], "it was committed"
    await agent.run("prepare", session=undoing.session("1"))
    assert thread.undelivered() == [] and len(shop.rows("bookings")) == 1


async def what_a_tool_returned_comes_back_as_it_was() -> None:
    rich = [Content.from_text("a"), Content.from_text("b")]
    again = returned(recorded(rich), found=False)
    assert [content.to_dict() for content in again] == [content.to_dict() for content in rich]
    assert returned(recorded("text"), found=False) == "text"
    assert returned({"n": 1}, found=True) == '{"n": 1}'
    assert recorded(object()) == UNKEPT


class Own:
    """A type that the storage does not know."""


async def used(storage: Any) -> Any:
    """Use a storage in each way there is, and return what it said."""
    told: list[Any] = []
    for number in range(3):
        checkpoint = WorkflowCheckpoint(
            "w" if number else "other",
            "hash",
            checkpoint_id=f"c{number}",
            previous_checkpoint_id=f"c{number - 1}" if number else None,
            timestamp=f"2026-01-0{3 - number}T00:00:00+00:00" if number else "2027-01-01T00:00:00+00:00",
            state={"n": number, "said": Message("user", [f"text {number}"])},
            iteration_count=number,
        )
        told.append(await storage.save(checkpoint))
    loaded = await storage.load("c1")
    told.append((loaded.state["n"], loaded.state["said"].text, loaded.previous_checkpoint_id))
    told.append(sorted(await storage.list_checkpoint_ids(workflow_name="w")))
    told.append(sorted(one.checkpoint_id for one in await storage.list_checkpoints(workflow_name="w")))
    told.append((await storage.get_latest(workflow_name="w")).checkpoint_id)
    told.append(await storage.get_latest(workflow_name="none"))
    told.append([await storage.delete("c1"), await storage.delete("c1")])
    told.append(await storage.list_checkpoint_ids(workflow_name="w"))
    told.append((await refusal(storage.load("c1"))).partition(":")[0])
    return told


async def a_checkpoint_storage_says_what_those_of_the_framework_say() -> None:
    ours = await used(TakebackCheckpointStorage(os.environ["WORK"]))
    for theirs in (InMemoryCheckpointStorage(), FileCheckpointStorage(os.environ["SHOP"])):
        for one, other in zip(ours, await used(theirs), strict=True):
            assert one == other, f"{one} in place of {other}"


async def a_type_that_is_not_allowed_is_refused() -> None:
    checkpoint = WorkflowCheckpoint("w", "hash", checkpoint_id="c", state={"own": Own()})
    storage = TakebackCheckpointStorage(os.environ["WORK"])
    assert "the checkpoint was not stored" in await refusal(storage.save(checkpoint))
    assert await storage.list_checkpoint_ids(workflow_name="w") == []
    allowing = TakebackCheckpointStorage(
        os.environ["WORK"], allowed_types=[f"{Own.__module__}:{Own.__qualname__}"]
    )
    assert await allowing.save(checkpoint) == "c"
    assert isinstance((await allowing.load("c")).state["own"], Own)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
