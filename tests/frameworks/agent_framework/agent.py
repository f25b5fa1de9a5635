"""The driver for agents of agent-framework: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionMiddleware,
    Message,
    ResponseStream,
    tool,
)

from takeback.frameworks.agent_framework import TakebackMiddleware
from tests.frameworks import shop
from tests.frameworks.driver import Account


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A model that follows the plan of the last message, one set of calls at a time."""

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **more: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        with shop.place("asked").open("a") as file:
            file.write("x")
        last = max(n for n, one in enumerate(messages) if one.role == "user" and one.text in shop.PLANS)
        done = sum(one.role == "assistant" for one in messages[last:])
        plan = shop.PLANS[messages[last].text]
        calls = [
            Content.from_function_call(shop.call_id(name), name, arguments=args)
            for name, args in (plan[done] if done < len(plan) else [])
        ]
        contents = calls or [Content.from_text("done")]

        async def whole() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", contents)])

        async def pieces() -> AsyncIterator[ChatResponseUpdate]:
            for content in calls or [Content.from_text("do"), Content.from_text("ne")]:
                yield ChatResponseUpdate(contents=[content], role="assistant", message_id="m")

        return ResponseStream(pieces(), finalizer=ChatResponse.from_updates) if stream else whole()


class Killing(FunctionMiddleware):
    """Kills the process when Takeback has recorded a call, and the run has not ended."""

    async def process(self, context: Any, call_next: Any) -> None:
        await call_next()
        if context.function.name == "book":
            shop.die("after book")


def made(undoing: TakebackMiddleware) -> Agent:
    layers = [] if os.environ.get("BARE") else [Killing(), undoing]
    return Agent(Scripted(), tools=[tool(function) for function in shop.TOOLS], middleware=layers)


def texts(messages: Sequence[Message]) -> list[str]:
    return [one.text for one in messages if one.role == "user" and one.text]


def said(session: Any) -> list[Message]:
    return [
        message
        for state in session.state.values()
        if isinstance(state, dict)
        for message in state.get("messages", ())
    ]


async def commanded(command: str, word: str, undoing: TakebackMiddleware, account: Account) -> None:
    agent, session = made(undoing), await undoing.asession("1")
    if command in ("say", "resume"):
        response = await agent.run(word, session=session)
        for request in response.user_input_requests:
            account.asked = request.function_call.name
            shop.place("request").write_text(json.dumps(request.to_dict()))
    elif command == "stream":
        stream = agent.run(word, session=session, stream=True)
        pieces = [update.text async for update in stream if update.text]
        assert pieces == ["do", "ne"], pieces
        await stream.get_final_response()
    elif command == "answer":
        request = Content.from_dict(json.loads(shop.place("request").read_text()))
        answer = request.to_function_approval_response(word == "yes")
        answer.additional_properties["by"] = "ann"
        await agent.run(Message("user", [answer]), session=session)
    elif command == "cancel":
        await shop.cancel_when_begun(asyncio.ensure_future(agent.run(word, session=session)))
    elif command == "back":
        keep = 1 + texts(said(session)).index(word)
        account.verdict = str((await undoing.ago_back("1", keep=keep)).verdict)
    else:
        raise SystemExit(command)


def main(command: str, word: str = "") -> None:
    account = Account()
    undoing = TakebackMiddleware(os.environ["WORK"])
    try:
        asyncio.run(commanded(command, word, undoing, account))
    except RuntimeError as error:
        account.error = str(error)
    names: dict[str, str] = {}
    for message in said(undoing.session("1")):
        for content in message.contents:
            if content.type == "function_call":
                names[content.call_id] = content.name
            elif content.type == "function_result":
                failed = content.exception or str(content.result).startswith("Error")
                account.results.append([names[content.call_id], "error" if failed else "ok"])
        if message.text:
            account.said.append(message.text)
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
