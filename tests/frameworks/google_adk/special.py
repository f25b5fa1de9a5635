"""Scenes that only apps of Google ADK have, each played by `special SCENE` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from takeback.frameworks.google_adk import TakebackPlugin, TakebackSessionService
from tests.frameworks import shop
from tests.frameworks.google_adk.agent import WHERE, Scripted, made, run


def service() -> TakebackSessionService:
    return TakebackSessionService(os.environ["WORK"])


async def refusal(work: Coroutine[Any, Any, Any]) -> str:
    """Return the error that this raises."""
    try:
        await work
    except Exception as error:  # noqa: BLE001  whatever it is, it is compared
        return str(error)
    return "nothing was raised"


async def conversed(sessions: Any) -> Any:
    """Use a session service in each way there is, and return what it said."""
    told: list[Any] = []
    state = {"own": 1, "user:name": "ann", "app:color": "red", "temp:gone": True}
    first = await sessions.create_session(app_name="a/b", user_id="u/1", session_id=" s ", state=state)
    told.append((first.id, first.state))
    await sessions.create_session(app_name="a/b", user_id="u", session_id="other")
    await sessions.create_session(app_name="a", user_id="b/u/1", session_id="s")
    for number in range(3):
        delta = {"n": number, "user:n": number, "temp:x": 1, "when": None}
        event = Event(author="user", id=f"e{number}", timestamp=100.0 + number, invocation_id="i")
        event.actions = EventActions(state_delta=delta)
        event.content = types.Content(role="user", parts=[types.Part(text=f"text {number}")])
        await sessions.append_event(first, event)
        await sessions.append_event(first, event)  # delivered again
    await sessions.append_event(first, Event(author="model", id="p", partial=True))
    told.append((first.state, len(first.events), first.last_update_time))
    where = {"app_name": "a/b", "user_id": "u/1", "session_id": "s"}
    for config in (None, {"num_recent_events": 1}, {"num_recent_events": 0}, {"after_timestamp": 101.0}):
        found = await sessions.get_session(**where, config=GetSessionConfig(**config) if config else None)
        texts = [event.content.parts[0].text for event in found.events]
        told.append((found.state, found.last_update_time, texts))
    told.append(await sessions.get_user_state(app_name="a/b", user_id="u/1"))
    told.append(await sessions.get_user_state(app_name="a/b", user_id="nobody"))
    told.append(await sessions.get_session(app_name="a/b", user_id="u/1", session_id="none"))
    for user in ("u/1", None, "nobody"):
        listed = (await sessions.list_sessions(app_name="a/b", user_id=user)).sessions
        told.append([(one.user_id, one.id, one.events, one.state.get("app:color")) for one in listed])
    try:
        await sessions.create_session(**where)
    except AlreadyExistsError as error:
        told.append(str(error))
    await sessions.delete_session(**where)
    await sessions.delete_session(**where)
    told.append(await sessions.get_session(**where))
    try:
        await sessions.append_event(first, Event(author="user"))
    except SessionNotFoundError as error:
        told.append(str(error))
    return told


async def a_session_service_says_what_that_of_adk_says() -> None:
    ours, theirs = await conversed(service()), await conversed(InMemorySessionService())
    for one, other in zip(ours, theirs, strict=True):
        assert one == other, f"{one} in place of {other}"


async def a_value_that_json_lacks_is_refused() -> None:
    sessions = service()
    where = {"app_name": "a", "user_id": "u", "session_id": "s"}
    refused = await refusal(sessions.create_session(**where, state={"f": object()}))
    assert "value that JSON lacks" in refused
    assert await sessions.get_session(**where) is None


async def tools_in_a_thread_pool_know_their_call() -> None:
    runner, plugin = made(service())
    config = RunConfig(tool_thread_pool_config=ToolThreadPoolConfig())
    await run(runner, types.Part(text="prepare"), run_config=config)
    assert shop.rows("bookings")[0]["key"]
    thread = plugin.workspace.thread(key="google-adk/desk/ann/1")
    assert len({action.turn for action in thread.actions()} - {""}) == 1


def app(plugin: TakebackPlugin, sessions: Any, **more: Any) -> Runner:
    tools: Any = shop.TOOLS
    agent = LlmAgent(name="clerk", model=Scripted(model="scripted"), tools=tools, **more)
    return Runner(
        app=App(name="desk", root_agent=agent, plugins=[plugin]),
        session_service=sessions,
        auto_create_session=True,
    )


async def a_callback_that_fails_leaves_no_call_at_work() -> None:
    def guard(**_: Any) -> None:
        raise RuntimeError("the guard is not there")

    plugin, sessions = TakebackPlugin(os.environ["WORK"]), InMemorySessionService()
    runner = app(plugin, sessions, before_tool_callback=guard)
    assert "guard" in await refusal(run(runner, types.Part(text="prepare")))
    (session,) = (await sessions.list_sessions(app_name="desk")).sessions
    with plugin.workspace.thread(key=f"google-adk/desk/ann/{session.id}") as thread:
        assert [action.outcome for action in thread.actions()] != ["open"]
        thread.commit()


async def a_consumer_that_leaves_early_pauses_the_turn() -> None:
    sessions = service()
    runner, plugin = made(sessions)
    stream = runner.run_async(**WHERE, new_message=types.UserContent("prepare"))
    async for event in stream:
        if event.get_function_responses():
            break
    await stream.aclose()
    thread = plugin.workspace.thread(key="google-adk/desk/ann/1")
    assert "write" in [action.name for action in thread.undelivered()], "it was committed"
    session = await sessions.get_session(app_name="desk", **WHERE)
    assert session
    await run(runner, invocation_id=session.events[-1].invocation_id)
    assert thread.undelivered() == [] and len(shop.rows("bookings")) == 1


async def it_works_with_any_session_service() -> None:
    plugin, sessions = TakebackPlugin(os.environ["WORK"]), InMemorySessionService()
    runner = app(plugin, sessions)
    for word in ("prepare", "both"):
        await run(runner, types.Part(text=word))
    session = await sessions.get_session(app_name="desk", **WHERE)
    assert session
    second = next(event for event in session.events if event.content.parts[0].text == "both")
    report = await plugin.rewind(runner, **WHERE, rewind_before_invocation_id=second.invocation_id)
    assert report.verdict == "clean" and os.listdir(os.environ["WORK"]) == ["a.txt"]
    refused = await refusal(plugin.rewind(runner, **WHERE, rewind_before_invocation_id="none"))
    assert "has no invocation none; nothing was taken back" in refused


async def what_a_rule_forbids_is_told_to_the_model() -> None:
    with open(os.path.join(os.environ["WORK"], "takeback.toml"), "w") as file:
        file.write('[rules.effects]\nirreversible = "deny"\n')
    sessions = service()
    await run(made(sessions)[0], types.Part(text="pay"))
    session = await sessions.get_session(app_name="desk", **WHERE)
    assert session
    (told,) = [one for event in session.events for one in event.get_function_responses()]
    assert "was refused" in told.response["error"] and shop.rows("payments") == []


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
