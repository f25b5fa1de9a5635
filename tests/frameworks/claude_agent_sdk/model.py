"""A model for the SDK's real program, on loopback: it follows `shop.PLANS`, with other ids in each process."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.agents.scripted_model import Handler, Turn, anthropic_answer, parts_of
from tests.frameworks import shop

SERVER = "shop"
OWN_TOOLS: list[list[tuple[str, dict[str, Any]]]] = [
    [("Bash", {"command": "echo f > f.txt"}), ("Write", {"file_path": "$WORK/g.txt", "content": "g"})]
]
"""What the program does with tools of its own when a message says `own`."""
DELEGATED = {"description": "an errand", "prompt": "errand", "subagent_type": "general-purpose"}
SLOW_COMMAND: list[list[tuple[str, dict[str, Any]]]] = [
    [
        (
            "Bash",
            {"command": "touch begun; until [ -e $SHOP/release ]; do sleep 0.05; done; echo late > late.txt"},
        )
    ]
]
"""A command that ends when the test says so, for a message that says `slow`."""


class PlannedTurn(Turn):
    """What is to be answered, with ids that no other process gives."""

    def id(self, place: int) -> str:
        return f"toolu_{uuid.uuid4().hex}"

    @property
    def words(self) -> str:
        return self.text


class PlanHandler(Handler):
    """Answers with the next round of calls of the plan that the last prompt named."""

    plans: dict[str, list[list[tuple[str, dict[str, Any]]]]] = shop.PLANS | {
        "own": OWN_TOOLS,
        "slow": SLOW_COMMAND,
        "delegate": [[("Agent", DELEGATED)]],
        "errand": [[("Bash", {"command": "echo s > s.txt"}), ("book", {"room": "cellar"})]],
    }
    seen: Path | None = None

    def do_POST(self) -> None:  # noqa: N802 - its name is the base class's
        body = self._body()
        if not self.path.partition("?")[0].endswith("/v1/messages"):
            return self._answer({"input_tokens": 1})
        if self.seen:
            with self.seen.open("a", encoding="utf-8") as log:
                log.write(json.dumps(body) + "\n")
        whole, events = anthropic_answer(self._next(body), body)
        return self._stream(events, ends="") if body.get("stream") else self._answer(whole)

    def _next(self, body: dict[str, Any]) -> PlannedTurn:
        if not body.get("tools"):  # a side question, such as one for a title
            return PlannedTurn("side", 0, "shopping", ())
        word, rounds = "", 0
        for message in body.get("messages", ()):
            parts = parts_of(message.get("content"))
            if message.get("role") == "user":
                if any(part.get("is_error") and "interrupted" in str(part) for part in parts):
                    rounds -= 1  # what was interrupted is tried again
                for part in parts:
                    if str(part.get("text", "")).strip() in self.plans:
                        word, rounds = str(part["text"]).strip(), 0
            elif any(part.get("type") == "tool_use" for part in parts):
                rounds += 1
        plan = self.plans.get(word, [])
        calls = plan[rounds] if rounds < len(plan) else []
        tools = tuple({"name": _full(name), "input": _filled(args)} for name, args in calls)
        return PlannedTurn(word or "none", rounds, "" if tools else "done", tools)


def _full(name: str) -> str:
    """Return a tool's name as the model has to call it: one of the program's own begins with a capital letter."""
    return name if name[0].isupper() else f"mcp__{SERVER}__{name}"


def _filled(args: dict[str, Any]) -> dict[str, Any]:
    texts = {name: os.path.expandvars(value) for name, value in args.items() if isinstance(value, str)}
    return args | texts


@contextmanager
def answering(home: Path, seen: Path | None = None) -> Iterator[dict[str, str]]:
    """Yield the variables of a program that asks this model, and nobody else, with a home of its own."""
    home.mkdir(exist_ok=True)
    PlanHandler.seen = seen
    server = ThreadingHTTPServer(("127.0.0.1", 0), PlanHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}",
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
        }
    finally:
        server.shutdown()
        server.server_close()
