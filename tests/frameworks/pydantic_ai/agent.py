"""The driver for agents of pydantic-ai: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from takeback.frameworks.pydantic_ai import Takeback
from tests.frameworks import shop
from tests.frameworks.driver import Account


def said(message: ModelMessage) -> str:
    """What the human said in a message."""
    return "".join(str(part.content) for part in message.parts if isinstance(part, UserPromptPart))


def planned(messages: list[ModelMessage]) -> list[tuple[str, dict[str, Any]]]:
    """The next set of calls that the plan of the last message asks for."""
    last = max(number for number, message in enumerate(messages) if said(message))
    done = sum(isinstance(message, ModelResponse) for message in messages[last:])
    plan = shop.PLANS[said(messages[last])]
    return plan[done] if done < len(plan) else []


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Give calls other ids in each process, as real models do."""
    calls = [ToolCallPart(name, args, shop.call_id(name)) for name, args in planned(messages)]
    return ModelResponse(parts=[*calls] or [TextPart("done")])


async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    calls = [part for part in answer(messages, info).parts if isinstance(part, ToolCallPart)]
    if not calls:
        yield "do"
        yield "ne"
    for number, call in enumerate(calls):
        yield {number: DeltaToolCall(call.tool_name, call.args_as_json_str(), tool_call_id=call.tool_call_id)}


class Killing(AbstractCapability[Any]):
    """Kills the process when Takeback has recorded a call, and the turn has not ended."""

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, args: Any, handler: Any, **_: Any) -> Any:
        result = await handler(args)
        if call.tool_name == "book":
            shop.die("after book")
        return result


class Counting(AbstractCapability[Any]):
    """Says how often the model is asked."""

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        with shop.place("asked").open("a") as file:
            file.write("x")
        return request_context


def made(undoing: Takeback) -> Agent[None, Any]:
    layers = [] if os.environ.get("BARE") else [Killing(), undoing, Counting()]
    tools: list[Any] = [Tool(function, takes_ctx=False) for function in shop.TOOLS]
    model = FunctionModel(answer, stream_function=stream)
    return Agent(model, tools=tools, output_type=[str, DeferredToolRequests], capabilities=layers)


async def commanded(command: str, word: str, undoing: Takeback, account: Account) -> None:
    agent = made(undoing)
    now = await undoing.aconversation("1")
    if command in ("say", "resume"):
        result = await agent.run(word, conversation=now)
        if isinstance(result.output, DeferredToolRequests):
            account.asked = result.output.approvals[0].tool_name
    elif command == "stream":
        if os.environ.get("EVENTS"):
            async with agent.run_stream_events(word, conversation=now) as events:
                async for _ in events:
                    pass
        else:
            async with agent.run_stream(word, conversation=now) as streamed:
                texts = [text async for text in streamed.stream_text(delta=True, debounce_by=None)]
                assert texts == ["do", "ne"], texts
    elif command == "answer":
        requests = now.deferred_tool_requests
        assert requests is not None
        ids = [call.tool_call_id for call in requests.approvals]
        results = requests.build_results(
            approvals=dict.fromkeys(ids, word == "yes"), metadata={id: {"by": "ann"} for id in ids}
        )
        await agent.run(conversation=now, deferred_tool_results=results)
    elif command == "cancel":
        await shop.cancel_when_begun(asyncio.ensure_future(agent.run(word, conversation=now)))
    elif command == "back":
        begins = [number for number, message in enumerate(now.messages) if said(message)]
        words = [said(now.messages[number]) for number in begins]
        ends = [*begins[1:], len(now.messages)]
        keep = dict(zip(words, ends, strict=True))[word]
        account.verdict = str((await undoing.ago_back("1", keep=keep)).verdict)
    else:
        raise SystemExit(command)


def main(command: str, word: str = "") -> None:
    account = Account()
    undoing = Takeback(os.environ["WORK"])
    try:
        asyncio.run(commanded(command, word, undoing, account))
    except RuntimeError as error:
        account.error = str(error)
    for message in undoing.conversation("1").messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                account.results.append([part.tool_name, "ok" if part.outcome == "success" else "error"])
            elif isinstance(part, RetryPromptPart):
                account.results.append([str(part.tool_name), "error"])
            elif isinstance(part, UserPromptPart | TextPart):
                account.said.append(str(part.content))
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
