"""The driver for OpenAI Agents with TakebackSession: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from agents import Agent, Runner, RunState, SQLiteSession, function_tool, handoff

from takeback.frameworks.openai_agents import TakebackSession, protect
from tests.frameworks import shop
from tests.frameworks.driver import Account
from tests.frameworks.openai_agents.scripted import scripted, text_of


def bare_or_protected(session: Any) -> Any:
    """The agent; with Takeback its process can be killed between the record of a call and the session."""
    agent = Agent(name="clerk", model=scripted(), tools=[function_tool(function) for function in shop.TOOLS])
    clerk = agent
    shape = os.environ.get("SHAPE")
    if shape == "handoff":
        agent = Agent(name="desk", model=scripted(through="transfer_to_clerk"), handoffs=[handoff(clerk)])
        clerk.handoffs.append(agent)  # in a circle
    elif shape == "tool":
        tools = [clerk.as_tool("clerk", "Does what a clerk does.")]
        agent = Agent(name="desk", model=scripted(through="clerk"), tools=tools)
    if os.environ.get("BARE"):
        return agent
    agent = protect(agent, session)
    for tool in agent.tools:
        if tool.name == "book":
            tool.on_invoke_tool = killing(tool.on_invoke_tool)
    return agent


def killing(invoke: Any) -> Any:
    async def invoked(context: Any, given: str) -> Any:
        result = await invoke(context, given)
        shop.die("after book")
        return result

    return invoked


async def commanded(command: str, word: str, agent: Any, session: Any, account: Account) -> Any:
    state = shop.place("state")
    if command == "say":
        return await Runner.run(agent, word, session=session)
    if command in ("stream", "restream"):
        began = await session.resume() if command == "restream" else word
        streamed = Runner.run_streamed(agent, began, session=session)
        async for _ in streamed.stream_events():
            pass
        return streamed
    if command == "resume":
        began = [] if os.environ.get("BARE") else await session.resume()
        return await Runner.run(agent, began or word, session=session)
    if command == "answer":
        stopped: Any = await RunState.from_string(agent, state.read_text())
        for item in stopped.get_interruptions():
            (stopped.approve if word == "yes" else stopped.reject)(item)
        return await Runner.run(agent, stopped, session=session)
    if command == "cancel":
        await shop.cancel_when_begun(asyncio.ensure_future(Runner.run(agent, word, session=session)))
    elif command == "back":
        turns = [turn for turn in await session.turns() if text_of(turn.input[0]) == word]
        account.verdict = str((await session.go_back(turns[-1].end)).verdict)
    else:
        raise SystemExit(command)
    return None


async def told(session: Any, account: Account) -> None:
    """Tell what the session has."""
    names: dict[str, str] = {}
    for item in await session.get_items():
        if item.get("type") == "function_call":
            names[item["call_id"]] = item["name"]
        elif item.get("type") == "function_call_output":
            failed = "error" in str(item["output"]).lower() or "not approved" in str(item["output"])
            account.results.append([names[item["call_id"]], "error" if failed else "ok"])
        elif text_of(item):
            account.said.append(text_of(item))


async def main(command: str, word: str = "") -> None:
    account = Account()
    session: Any = (
        SQLiteSession("1", shop.place("bare.db"))
        if os.environ.get("BARE")
        else TakebackSession("1", os.environ["WORK"])
    )
    agent = bare_or_protected(session)
    result = await commanded(command, word, agent, session, account)
    if result is not None and result.interruptions:
        account.asked = result.interruptions[0].tool_name
        shop.place("state").write_text(result.to_state().to_string())
    await told(session, account)
    account.print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
