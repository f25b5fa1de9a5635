"""An agent of Strands: killed in the middle of a tool, resumed by another process, and taken back with its words.

    python examples/strands_agent.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[strands]'`. The model is a
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
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.models.model import Model

import takeback
from takeback.frameworks.strands import Takeback

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

ROOMS = {"book the attic": "attic", "and the ballroom": "ballroom"}


class Scripted(Model):
    """A model that books the room of the last prompt, and then says so. Its calls have other ids each time."""

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        block = messages[-1]["content"][0]
        yield {"messageStart": {"role": "assistant"}}
        if "text" in block:
            use = {"name": "book", "toolUseId": str(uuid.uuid4())}
            given = json.dumps({"room": ROOMS[block["text"]]})
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": given}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            said = f"I {block['toolResult']['content'][0]['text']}."
            yield {"contentBlockDelta": {"delta": {"text": said}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if "text" in block else "end_turn"}}


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


@tool
@takeback.action(undo=cancel, check=find)
def book(room: str) -> str:
    """Book a room."""
    put(bookings() | {takeback.current_call().key: room})
    if os.environ.get("FRAGILE"):
        print(f"  the machine goes down after the {room} was booked", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return f"booked the {room}"


def converse(folder: Path, words: str) -> None:
    """Say something to the agent; without words, let the session go on where it was."""
    session = Takeback(folder / "work", "hotel")
    agent = Agent(Scripted(), tools=[book], session_manager=session, callback_handler=None)
    print(f"  the agent: {str(agent(words or None)).strip()}", flush=True)


def go_back(folder: Path, messages: int) -> None:
    """Go back to where the conversation had this many messages."""
    print(f"  {Takeback(folder / 'work', 'hotel').go_back(messages)}")
    again = Agent(Scripted(), session_manager=Takeback(folder / "work", "hotel"), callback_handler=None)
    print(f"  the agent remembers {len(again.messages)} messages")


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
    subprocess.run([*program, ""], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    (work / "mine.md").write_text("my own notes\n")
    print("A second message:", flush=True)
    subprocess.run([*program, "and the ballroom"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    print("That was a mistake:")
    go_back(folder, 4)
    print(f"  booked: {sorted(bookings().values())}; in the folder: {sorted(os.listdir(work))}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--converse"]:
        converse(Path(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
