"""The driver for the Claude Agent SDK, with its real program: see tests/frameworks/driver.py."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

from takeback.frameworks.claude_agent_sdk import TakebackSessionStore, options, orphans
from tests.frameworks import shop
from tests.frameworks.claude_agent_sdk.model import SERVER, answering
from tests.frameworks.driver import Account

SESSION = "6f1f6f1e-0000-4000-8000-000000000001"
GO_ON = "go on"
SCHEMAS: dict[str, dict[str, type]] = {
    "write": {"name": str, "text": str},
    "book": {"room": str},
    "pay": {"amount": int},
    "spoil": {"name": str},
    "linger": {"name": str},
}


def made(function: Any) -> Any:
    """The SDK's tool over one of the shop's functions."""

    @functools.wraps(function)
    async def handler(args: dict[str, Any]) -> dict[str, Any]:
        text = await asyncio.to_thread(function, **args)
        return {"content": [{"type": "text", "text": text}]}

    name = function.__name__
    return tool(name, function.__doc__ or name, SCHEMAS[name])(handler)


def killing(server: Any) -> None:
    """Kill the process when Takeback has recorded a booking, and the program has not stored its result."""
    entry = server["instance"].get_request_handler("tools/call")

    async def call(context: Any, params: Any) -> Any:
        result = await entry.handler(context, params)
        if params.name == "book":
            shop.die("after book")
        return result

    server["instance"].add_request_handler("tools/call", entry.params_type, call)


class Conversation:
    """The one conversation of the driver."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.root = str(Path(os.environ["WORK"]).resolve())
        self.bare = bool(os.environ.get("BARE"))
        self.store = None if self.bare else TakebackSessionStore(self.root)
        self.variables = variables
        self.last: ResultMessage | None = None

    async def entries(self) -> list[Any]:
        if self.store is None:
            places = Path(self.variables["CLAUDE_CONFIG_DIR"]).glob(f"projects/*/{SESSION}.jsonl")
            return [json.loads(line) for place in places for line in place.read_text().splitlines()]
        for name in self.store._store.threads():
            batches = list(self.store._batches(name, "main"))[::-1]
            return [entry for batch in batches for entry in batch.entries]
        return []

    async def options(self, **more: Any) -> ClaudeAgentOptions:
        known = bool(await self.entries())
        given: dict[str, Any] = {"resume": SESSION} if known else {"session_id": SESSION}
        given |= {"setting_sources": [], "stderr": lambda _: None, "env": self.variables}
        given["allowed_tools"] = [f"mcp__{SERVER}__{name}" for name in SCHEMAS] + ["Bash", "Write"]
        tools = [made(function) for function in shop.TOOLS]
        if self.store is None:
            given["env"] |= orphans.marking(self.root)
            given |= {"cwd": self.root, "mcp_servers": {SERVER: create_sdk_mcp_server(SERVER, tools=tools)}}
            return ClaudeAgentOptions(**given, **more)
        ready = options(self.store, mcp_servers={SERVER: tools}, **given, **more)
        killing(ready["mcp_servers"][SERVER])
        return ClaudeAgentOptions(**ready)

    async def say(self, words: str) -> None:
        async for message in query(prompt=words, options=await self.options()):
            if isinstance(message, ResultMessage):
                self.last = message

    async def stream(self, words: str) -> None:
        async with ClaudeSDKClient(await self.options(include_partial_messages=True)) as client:
            await client.query(words)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    self.last = message

    async def answer(self, word: str) -> None:
        """Go on with the call that the program had deferred; this time a human is there."""

        async def ask_human(name: str, args: dict[str, Any], context: Any) -> Any:
            return PermissionResultAllow() if word == "yes" else PermissionResultDeny(message="too much")

        async with ClaudeSDKClient(await self.options(can_use_tool=ask_human)) as client:
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    self.last = message

    async def deferred(self) -> None:
        """Go on with the call that the program had deferred, with nobody to ask."""
        async with ClaudeSDKClient(await self.options()) as client:
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    self.last = message

    async def cancel(self, word: str) -> None:
        await shop.cancel_when_begun(asyncio.ensure_future(self.say(word)))

    async def back(self, word: str) -> str:
        assert self.store is not None
        found, inside = "", False
        for entry in await self.entries():
            if entry.get("type") == "user" and (text := text_in(entry)):
                inside = text == word
            elif entry.get("type") == "assistant" and inside and text_in(entry):
                found = entry["uuid"]
        return str((await self.store.ago_back(SESSION, found)).verdict)

    async def tell(self, account: Account) -> None:
        if self.last and self.last.deferred_tool_use:
            account.asked = self.last.deferred_tool_use.name.rpartition("__")[2]
        names: dict[str, str] = {}
        for entry in await self.entries():
            if entry.get("type") not in ("user", "assistant") or entry.get("isMeta"):
                continue
            if entry["message"].get("model") == "<synthetic>":
                continue  # the program itself fills a gap
            if text := text_in(entry):
                account.said.append(text)
            for block in blocks(entry):
                if block.get("type") == "tool_use":
                    names[block["id"]] = block["name"].rpartition("__")[2]
                elif block.get("type") == "tool_result":
                    kind = "error" if block.get("is_error") else "ok"
                    account.results.append([names[block["tool_use_id"]], kind])


def blocks(entry: Any) -> list[Any]:
    content = entry["message"]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_in(entry: Any) -> str:
    return "".join(block["text"] for block in blocks(entry) if block.get("type") == "text")


async def commanded(command: str, word: str, talk: Conversation, account: Account) -> None:
    if command == "say":
        await talk.say(word)
    elif command == "stream":
        await talk.stream(word)
    elif command == "resume":
        if talk.bare:
            orphans.end_orphans(talk.root)
        await talk.say(GO_ON)
    elif command == "answer":
        await talk.answer(word)
    elif command == "deferred":
        await talk.deferred()
    elif command == "cancel":
        await talk.cancel(word)
    elif command == "back":
        account.verdict = await talk.back(word)
    else:
        raise SystemExit(command)
    await talk.tell(account)


def main(command: str, word: str = "") -> None:
    account = Account()
    with answering(Path(os.environ["SHOP"]) / "home", Path(os.environ["SHOP"]) / "asked.jsonl") as variables:
        talk = Conversation(variables)
        asyncio.run(commanded(command, word, talk, account))
    account.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
