"""The driver for apps of Google ADK with TakebackSessionService: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.genai import types

import takeback
from takeback.frameworks.google_adk import TakebackPlugin, TakebackSessionService
from tests.frameworks import shop
from tests.frameworks.driver import Account

CONFIRMATION = "adk_request_confirmation"
WHERE = {"user_id": "ann", "session_id": "1"}


def said(content: Any) -> str:
    """What the human said in a message."""
    if content is None or content.role != "user":
        return ""
    return "".join(part.text or "" for part in content.parts)


class Scripted(BaseLlm):
    """A model that follows the plan of the last message, one set of calls at a time."""

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = llm_request.contents
        last = max(number for number, content in enumerate(contents) if said(content))
        done = sum(content.role == "model" for content in contents[last:])
        plan = shop.PLANS[said(contents[last])]
        calls = [
            types.Part(function_call=types.FunctionCall(name=name, args=args, id=shop.call_id(name)))
            for name, args in (plan[done] if done < len(plan) else [])
        ]
        if stream and not calls:
            for text in ("do", "ne"):
                yield answered([types.Part(text=text)], partial=True)
        yield answered(calls or [types.Part(text="done")])


def answered(parts: list[Any], *, partial: bool = False) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=parts), partial=partial)


@takeback.action(effect="restorable")
async def linger(name: str) -> str:
    """Write a file, and work on until the driver has cancelled the turn. ADK runs other functions in its loop."""
    return await asyncio.to_thread(shop.linger, name)


class Killing(BasePlugin):
    """Kills the process when Takeback has recorded a call, and ADK has not."""

    async def after_tool_callback(self, *, tool: Any, **_: Any) -> None:
        if tool.name == "book":
            shop.die("after book")


def made(service: TakebackSessionService) -> tuple[Runner, TakebackPlugin]:
    plugin = TakebackPlugin(service)
    tools: list[Any] = [linger if tool is shop.linger else tool for tool in shop.TOOLS]
    app = App(
        name="desk",
        root_agent=LlmAgent(name="clerk", model=Scripted(model="scripted"), tools=tools),
        plugins=[] if os.environ.get("BARE") else [plugin, Killing(name="killing")],
        resumability_config=ResumabilityConfig(is_resumable=True),
    )
    return Runner(app=app, session_service=service, auto_create_session=True), plugin


async def run(runner: Runner, *parts: Any, **more: Any) -> list[str]:
    """Run one invocation, and return the texts that it streamed."""
    content = types.Content(role="user", parts=list(parts)) if parts else None
    events = [event async for event in runner.run_async(**WHERE, new_message=content, **more)]
    return [part.text for event in events if event.partial and event.content for part in event.content.parts]


async def commanded(command: str, word: str, service: TakebackSessionService, account: Account) -> None:
    runner, plugin = made(service)
    found = await service.get_session(app_name="desk", **WHERE)
    events = found.events if found else []
    if command == "say":
        await run(runner, types.Part(text=word))
    elif command == "stream":
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        assert await run(runner, types.Part(text=word), run_config=config) == ["do", "ne"]
    elif command == "resume":
        await run(runner, invocation_id=events[-1].invocation_id)
    elif command == "answer":
        (asked,) = [
            (call, event)
            for event in events
            for call in event.get_function_calls()
            if call.name == CONFIRMATION
        ]
        told = {"confirmed": word == "yes", "payload": {"by": "bob"}}
        answer = types.FunctionResponse(id=asked[0].id, name=CONFIRMATION, response=told)
        await run(runner, types.Part(function_response=answer), invocation_id=asked[1].invocation_id)
    elif command == "cancel":
        await shop.cancel_when_begun(asyncio.ensure_future(run(runner, types.Part(text=word))))
    elif command == "back":
        begun = [(said(event.content), event.invocation_id) for event in events if said(event.content)]
        numbers = [number for number, (text, _) in enumerate(begun) if text == word]
        report = await plugin.rewind(runner, **WHERE, rewind_before_invocation_id=begun[numbers[0] + 1][1])
        account.verdict = str(report.verdict)
    else:
        raise SystemExit(command)


async def tell(service: TakebackSessionService, account: Account) -> None:
    session = await service.get_session(app_name="desk", **WHERE)
    kept: list[Any] = []
    for event in session.events if session else ():
        if before := event.actions.rewind_before_invocation_id:
            first = next(
                (number for number, one in enumerate(kept) if one.invocation_id == before), len(kept)
            )
            del kept[first:]
        else:
            kept.append(event)
    results: dict[str, list[str]] = {}
    for event in kept:
        waiting = event.actions.requested_tool_confirmations
        for call in event.get_function_calls():
            if call.name == CONFIRMATION:
                account.asked = call.args["originalFunctionCall"]["name"]
        for told in event.get_function_responses():
            if told.name == CONFIRMATION:
                account.asked = ""
            elif told.id not in waiting:
                results[told.id] = [told.name, "error" if "error" in told.response else "ok"]
        for part in event.content.parts if event.content else ():
            if part.text:
                account.said.append(part.text)
    account.results = list(results.values())


def main(command: str, word: str = "") -> None:
    account = Account()
    service = TakebackSessionService(os.environ["WORK"])
    try:
        asyncio.run(commanded(command, word, service, account))
    except RuntimeError as error:
        account.error = str(error)
    asyncio.run(tell(service, account))
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
