"""An agent of pydantic-ai: killed in the middle of a tool, resumed by another process, and taken back with its words.

    python examples/pydantic_ai_agent.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[pydantic-ai]'`. The model is a
script, so nothing leaves this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import takeback
from takeback.frameworks.pydantic_ai import Takeback

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

SCRIPT = {"book the attic": "attic", "and the ballroom": "ballroom"}


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Book the room of the last message, and then say so. The calls have other ids each time."""
    last = messages[-1].parts[-1]
    if isinstance(last, UserPromptPart):
        room = {"room": SCRIPT[str(last.content)]}
        return ModelResponse(parts=[ToolCallPart("book", room, str(uuid.uuid4()))])
    return ModelResponse(parts=[TextPart(f"I {last.content}.")])  # type: ignore[union-attr]


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


def converse(folder: Path, words: str) -> None:
    """Say something to the agent. After a crash, say it again: the turn goes on where it was."""
    undoing = Takeback(folder / "work")
    agent = Agent(FunctionModel(scripted), tools=[book], capabilities=[undoing])
    result = agent.run_sync(words, conversation=undoing.conversation("1"))
    print(f"  user: {words}\n  agent: {result.output}", flush=True)


def go_back(folder: Path) -> None:
    """Go back to the end of the first turn, which has four messages."""
    undoing = Takeback(folder / "work")
    print(f"  {undoing.go_back('1', keep=4)}")
    print(f"  the agent remembers {len(undoing.conversation('1').messages)} messages")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ |= {"BOOKINGS": str(folder / "bookings.json"), "TAKEBACK_HOME": str(folder / "state")}
    program = [sys.executable, __file__, "--converse", str(folder)]
    print("The agent books a room, and its machine goes down:", flush=True)
    subprocess.run([*program, "book the attic"], env={**os.environ, "FRAGILE": "1"}, check=False)
    print("Another process says the same again:", flush=True)
    subprocess.run([*program, "book the attic"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    (work / "mine.md").write_text("my own notes\n")
    print("A second message:", flush=True)
    subprocess.run([*program, "and the ballroom"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    print("That was a mistake:")
    go_back(folder)
    print(f"  booked: {sorted(bookings().values())}; in the folder: {sorted(os.listdir(work))}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--converse"]:
        converse(Path(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
