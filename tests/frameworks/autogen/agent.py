"""The driver for AutoGen's AssistantAgent with TakebackWorkbench: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.tools import FunctionTool

import takeback
from takeback.frameworks.autogen import ApprovalPending, TakebackModelClient, TakebackWorkbench
from tests.frameworks import shop
from tests.frameworks.autogen.scripted import Scripted
from tests.frameworks.driver import Account

ROUNDS_MAX = 9


class Killing(TakebackWorkbench):
    """Kills the process when Takeback has recorded a call, and the state of the agent is not stored."""

    async def call_tool_stream(self, name: str, *more: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async for event in super().call_tool_stream(name, *more, **options):
            yield event
        if name == "book":
            shop.die("after book")


def tools() -> list[Any]:
    return [FunctionTool(function, description=str(function.__doc__)) for function in shop.TOOLS]


async def said(agent: Any, command: str, word: str) -> None:
    if command == "stream":
        async for _ in agent.run_stream(task=word):
            pass
    else:
        await agent.run(task=word)


async def told(agent: Any, account: Account) -> None:
    """Tell what the agent knows."""
    for message in (await agent.save_state())["llm_context"]["messages"]:
        if message["type"] == "FunctionExecutionResultMessage":
            account.results += [
                [one["name"], "error" if one["is_error"] else "ok"] for one in message["content"]
            ]
        elif isinstance(message["content"], str):
            account.said.append(message["content"])


async def protected(command: str, word: str, account: Account) -> None:
    with takeback.open(os.environ["WORK"]) as tb:
        workbench = Killing(tools(), tb, thread="1")
        agent: Any = AssistantAgent(
            "clerk",
            TakebackModelClient(Scripted(), workbench),
            workbench=workbench,
            max_tool_iterations=ROUNDS_MAX,
            model_client_stream=command == "stream",
        )

        async def turn() -> None:
            async with workbench.turn(agent, word):
                await said(agent, command, word)

        if command == "back":
            ends = [one.end for one in await workbench.turns() if one.name == word]
            account.verdict = str((await workbench.go_back(ends[-1])).verdict)
        elif command == "cancel":
            await shop.cancel_when_begun(asyncio.ensure_future(turn()))
        else:
            if command == "answer":
                (tb.approve if word == "yes" else tb.deny)(tb.approvals()[0].id)
                word = "pay"
            try:
                await turn()
            except ApprovalPending as pending:
                account.asked = pending.tool
        # What is stored, not what is in the memory of this process.
        kept: Any = AssistantAgent("clerk", Scripted())
        with contextlib.suppress(Stored):
            async with workbench.turn(kept):
                await told(kept, account)
                raise Stored


class Stored(Exception):
    """Leaves a turn that only looked at what is stored."""


async def bare(command: str, word: str) -> None:
    await said(AssistantAgent("clerk", Scripted(), tools=tools(), max_tool_iterations=9), command, word)


def main(command: str, word: str = "") -> None:
    account = Account()
    asyncio.run(bare(command, word) if os.environ.get("BARE") else protected(command, word, account))
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
