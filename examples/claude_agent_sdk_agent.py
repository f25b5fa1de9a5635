"""An agent of the Claude Agent SDK: killed in the middle of a tool, resumed by another process, and taken back.

    python examples/claude_agent_sdk_agent.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[claude-agent-sdk]'`. The program
that comes with the SDK is the real one; the model is a script on loopback, so nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, query, tool

import takeback
from takeback.frameworks.claude_agent_sdk import TakebackSessionStore, options

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

SESSION = "00000000-0000-4000-8000-000000000007"
SCRIPT = {"book the attic": "attic", "and the ballroom": "ballroom"}


class Scripted(BaseHTTPRequestHandler):
    """A model that books the room of the last message, and then says so. Its calls have other ids each time."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        block: dict[str, Any] = {"type": "text", "text": "It is booked."}
        room, is_done = "", False
        for message in asked.get("messages", ()):
            content = message["content"]
            for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
                if part.get("text") in SCRIPT:
                    room, is_done = SCRIPT[part["text"]], False
                is_done = is_done or part.get("type") == "tool_result"
        if asked.get("tools") and room and not is_done:
            name, id = "mcp__rooms__book", f"toolu_{uuid.uuid4().hex}"
            block = {"type": "tool_use", "id": id, "name": name, "input": {"room": room}}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in events(block):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


def events(block: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an answer with one block, as a model streams it."""
    is_call = block["type"] == "tool_use"
    stop = {"stop_reason": "tool_use" if is_call else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
    }
    message |= {"content": [], "usage": usage, **stop}
    delta: dict[str, Any] = {"type": "text_delta", "text": block.get("text")}
    empty: dict[str, Any] = block | {"text": ""}
    if is_call:
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        empty = block | {"input": {}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]


def bookings() -> dict[str, str]:
    place = Path(os.environ["BOOKINGS"])  # another system, outside the workspace
    return json.loads(place.read_text()) if place.exists() else {}


def put(booked: dict[str, str]) -> None:
    Path(os.environ["BOOKINGS"]).write_text(json.dumps(booked))


def cancel(call: takeback.Call) -> None:
    put({key: room for key, room in bookings().items() if key != call.key})


def find(call: takeback.Call) -> Any:
    room = bookings().get(call.key)
    return f"booked the {room}" if room else takeback.ABSENT


@tool("book", "Book a room.", {"room": str})
@takeback.action(undo=cancel, check=find)
async def book(args: dict[str, Any]) -> dict[str, Any]:
    put(bookings() | {takeback.current_call().key: args["room"]})
    if os.environ.get("FRAGILE"):
        print(f"  the machine goes down after the {args['room']} was booked", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"content": [{"type": "text", "text": f"booked the {args['room']}"}]}


async def converse(folder: Path, words: str, *, known: bool) -> None:
    """Say something to the agent."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session: dict[str, Any] = {"resume": SESSION} if known else {"session_id": SESSION}
    env = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}", "ANTHROPIC_API_KEY": "dummy"}
    env |= {"CLAUDE_CONFIG_DIR": str(folder / "claude"), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    given = options(
        folder / "work",
        mcp_servers={"rooms": [book]},
        allowed_tools=["mcp__rooms__book"],
        setting_sources=[],
        env=env,
        **session,
    )
    async for message in query(prompt=words, options=ClaudeAgentOptions(**given)):
        for part in getattr(message, "content", ()):
            if hasattr(part, "text"):
                print(f"  agent: {part.text}", flush=True)


def go_back(folder: Path) -> None:
    """Go back to the end of the first turn."""
    store = TakebackSessionStore(folder / "work")
    entries = asyncio.run(load(store))
    said = [entry for entry in entries if entry["type"] == "assistant" and "It is booked" in str(entry)]
    print(f"  {store.go_back(SESSION, said[0]['uuid'])}")
    words = [entry for entry in asyncio.run(load(store)) if entry["type"] in ("user", "assistant")]
    print(
        f"  the transcript has {len(words)} of {sum(e['type'] in ('user', 'assistant') for e in entries)} messages"
    )


async def load(store: TakebackSessionStore) -> list[Any]:
    from claude_agent_sdk import project_key_for_directory

    key = {"project_key": project_key_for_directory(str(store.workspace.root)), "session_id": SESSION}
    return await store.load(key) or []


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ |= {"BOOKINGS": str(folder / "bookings.json"), "TAKEBACK_HOME": str(folder / "state")}
    program = [sys.executable, __file__, "--converse", str(folder)]
    print("The agent books a room, and its machine goes down:", flush=True)
    subprocess.run([*program, "book the attic"], env={**os.environ, "FRAGILE": "1"}, check=False)
    print("Another process lets the session go on:", flush=True)
    subprocess.run([*program, "go on", "known"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    (work / "mine.md").write_text("my own notes\n")
    print("A second message:", flush=True)
    subprocess.run([*program, "and the ballroom", "known"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    print("That was a mistake:")
    go_back(folder)
    print(f"  booked: {sorted(bookings().values())}; in the folder: {sorted(os.listdir(work))}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--converse"]:
        asyncio.run(converse(Path(sys.argv[2]), sys.argv[3], known=len(sys.argv) > 4))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
