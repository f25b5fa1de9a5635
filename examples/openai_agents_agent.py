"""An agent of OpenAI Agents: killed in a tool, resumed by another process, and taken back with its words.

    python examples/openai_agents_agent.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[openai-agents]'`. The model is a
script, so nothing leaves this machine.
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
from pathlib import Path
from typing import Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

import takeback
from takeback.frameworks.openai_agents import TakebackSession, protect

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

SCRIPT = {"book the attic": "attic", "and the ballroom": "ballroom"}


def answer(call: ModelCall) -> list[Any]:
    """Book the room of the last message, and then say so. The calls have other ids each time."""
    items: Any = call.input
    last = items[-1]
    if last.get("role") == "user":
        return [function_call("book", {"room": SCRIPT[last["content"]]}, call_id=f"call-{uuid.uuid4()}")]
    return [assistant_message(f"I {last['output']}.")]


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


@function_tool
@takeback.action(undo=cancel, check=find)
def book(room: str) -> str:
    """Book a room."""
    put(bookings() | {takeback.current_call().key: room})
    if os.environ.get("FRAGILE"):
        print(f"  the machine goes down after the {room} was booked", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return f"booked the {room}"


async def converse(folder: Path, words: str) -> None:
    """Say something to the agent; without words, resume the turn that did not end."""
    session = TakebackSession("1", folder / "work")
    model = ScriptedModel([ModelStep.respond(answer)] * 2)
    agent = protect(Agent(name="clerk", model=model, tools=[book]), session)
    result = await Runner.run(agent, words or await session.resume(), session=session)
    print(f"  the agent: {result.final_output}", flush=True)


async def go_back(folder: Path) -> None:
    """Go back to the end of the first turn."""
    session = TakebackSession("1", folder / "work")
    first, *_ = await session.turns()
    print(f"  {await session.go_back(first.end)}")
    print(f"  the session has {len(await session.turns())} turn")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ |= {"BOOKINGS": str(folder / "bookings.json"), "TAKEBACK_HOME": str(folder / "state")}
    program = [sys.executable, __file__, "--converse", str(folder)]
    print("The agent books a room, and its machine goes down:", flush=True)
    subprocess.run([*program, "book the attic"], env={**os.environ, "FRAGILE": "1"}, check=False)
    print("Another process resumes the turn:", flush=True)
    subprocess.run([*program, ""], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    (work / "mine.md").write_text("my own notes\n")
    print("A second message:", flush=True)
    subprocess.run([*program, "and the ballroom"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    print("That was a mistake:")
    asyncio.run(go_back(folder))
    print(f"  booked: {sorted(bookings().values())}; in the folder: {sorted(os.listdir(work))}")


if __name__ == "__main__":
    set_tracing_disabled(True)
    if sys.argv[1:2] == ["--converse"]:
        asyncio.run(converse(Path(sys.argv[2]), sys.argv[3]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
