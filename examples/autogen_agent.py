"""An agent of AutoGen: killed in a tool, resumed by another process, and taken back with its words.

    python examples/autogen_agent.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[autogen]'
autogen-ext`. The model is a script, so nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

import takeback
from takeback.frameworks.autogen import TakebackModelClient, TakebackWorkbench

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

SCRIPT = {"book the attic": "attic", "and the ballroom": "ballroom"}


class Scripted(ReplayChatCompletionClient):
    """A model that books the room of the last message, and then says so. Its calls have other ids each time."""

    def __init__(self) -> None:
        info: Any = {"vision": False, "function_calling": True, "json_output": False, "family": "unknown"}
        super().__init__([], model_info=info | {"structured_output": False})

    async def create(self, messages: Sequence[Any], **_: Any) -> CreateResult:
        last = messages[-1].content
        if isinstance(messages[-1], UserMessage):
            answer: Any = [FunctionCall(f"call-{uuid.uuid4()}", json.dumps({"room": SCRIPT[last]}), "book")]
        else:
            answer = f"I {last[0].content}."
        used = RequestUsage(prompt_tokens=1, completion_tokens=1)
        return CreateResult(finish_reason="unknown", content=answer, usage=used, cached=False)


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


@takeback.action(undo=cancel, check=find)
def book(room: str) -> str:
    """Book a room."""
    put(bookings() | {takeback.current_call().key: room})
    if os.environ.get("FRAGILE"):
        print(f"  the machine goes down after the {room} was booked", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return f"booked the {room}"


async def converse(folder: Path, words: str) -> None:
    """Say something to the agent; if the turn was begun before, go on with it."""
    workbench = TakebackWorkbench([book], folder / "work", thread="1")
    client = TakebackModelClient(Scripted(), workbench)
    agent = AssistantAgent("clerk", client, workbench=workbench, max_tool_iterations=5)
    async with workbench.turn(agent, words):
        result = await agent.run(task=words)
    print(f"  the agent: {result.messages[-1].content}", flush=True)


async def go_back(folder: Path) -> None:
    """Go back to the end of the first turn."""
    workbench = TakebackWorkbench([book], folder / "work", thread="1")
    first, *_ = await workbench.turns()
    print(f"  {await workbench.go_back(first.end)}")
    print(f"  the agent remembers {len(await workbench.turns())} turn")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ |= {"BOOKINGS": str(folder / "bookings.json"), "TAKEBACK_HOME": str(folder / "state")}
    program = [sys.executable, __file__, "--converse", str(folder)]
    print("The agent books a room, and its machine goes down:", flush=True)
    subprocess.run([*program, "book the attic"], env={**os.environ, "FRAGILE": "1"}, check=False)
    print("Another process takes the same turn again:", flush=True)
    subprocess.run([*program, "book the attic"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    (work / "mine.md").write_text("my own notes\n")
    print("A second message:", flush=True)
    subprocess.run([*program, "and the ballroom"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    print("That was a mistake:")
    asyncio.run(go_back(folder))
    print(f"  booked: {sorted(bookings().values())}; in the folder: {sorted(os.listdir(work))}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--converse"]:
        asyncio.run(converse(Path(sys.argv[2]), sys.argv[3]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
