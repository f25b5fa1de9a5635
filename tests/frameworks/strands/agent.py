"""The driver for Strands: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.hooks import AfterToolCallEvent
from strands.models.model import Model

from takeback.frameworks.strands import Takeback
from tests.frameworks import shop
from tests.frameworks.driver import Account


class Scripted(Model):
    """A model that follows the plan of the last prompt, one set of calls at a time."""

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        last = max(n for n, message in enumerate(messages) if prompt_of(message))
        done = sum(message["role"] == "assistant" for message in messages[last:])
        plan = shop.PLANS[prompt_of(messages[last])]
        calls = plan[done] if done < len(plan) else []
        yield {"messageStart": {"role": "assistant"}}
        for name, args in calls:
            use = {"name": name, "toolUseId": shop.call_id(name)}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def prompt_of(message: Any) -> str:
    return "".join(block.get("text", "") for block in message["content"]) if message["role"] == "user" else ""


def killing(event: AfterToolCallEvent) -> None:
    """Kill the process when Takeback has recorded a call, and Strands has not."""
    if event.tool_use["name"] == "book":
        shop.die("after book")


class Bare(Takeback):
    """The same session, without anything around the tool calls."""

    async def _around(self, context: Any, proceed: Any) -> AsyncIterator[Any]:
        async for event in proceed(context):
            yield event


def agent_of(session: Takeback) -> Agent:
    tools = [tool(function) for function in shop.TOOLS]
    return Agent(Scripted(), tools=tools, session_manager=session, hooks=[killing], callback_handler=None)


async def commanded(command: str, word: str, session: Takeback, account: Account) -> Any:
    agent = agent_of(session)
    if command == "say":
        return await agent.invoke_async(word)
    if command == "stream":
        async for _ in agent.stream_async(word):
            pass
    elif command == "resume":
        return await agent.invoke_async(None)
    elif command == "answer":
        [interrupt] = agent._interrupt_state.interrupts.values()
        said = {"interruptId": interrupt.id, "response": {"approved": word == "yes", "by": "ann"}}
        return await agent.invoke_async([{"interruptResponse": said}])
    elif command == "cancel":
        await shop.cancel_when_begun(asyncio.ensure_future(agent.invoke_async(word)))
    elif command == "back":
        prompts = [n for n, message in enumerate(agent.messages) if prompt_of(message)]
        chosen = next(i for i, n in enumerate(prompts) if prompt_of(agent.messages[n]) == word)
        account.verdict = str(session.go_back([*prompts, len(agent.messages)][chosen + 1]).verdict)
    return None


def main(command: str, word: str = "") -> None:
    account = Account()
    kind = Bare if os.environ.get("BARE") else Takeback
    found = asyncio.run(commanded(command, word, kind(os.environ["WORK"], "talk"), account))
    if found is not None and found.stop_reason == "interrupt":
        account.asked = found.interrupts[0].reason["approve"]
    names: dict[str, str] = {}
    for message in agent_of(kind(os.environ["WORK"], "talk")).messages:
        for block in message["content"]:
            if "text" in block:
                account.said.append(block["text"])
            elif "toolUse" in block:
                names[block["toolUse"]["toolUseId"]] = block["toolUse"]["name"]
            elif "toolResult" in block:
                result = block["toolResult"]
                kind_of = "error" if result["status"] == "error" else "ok"
                account.results.append([names[result["toolUseId"]], kind_of])
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
