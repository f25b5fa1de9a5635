"""A crew of CrewAI: killed in the middle of a tool, kicked off again by another process, and taken back.

    python examples/crewai_agent.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[crewai]'`. The model is a
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

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool

import takeback
from takeback.frameworks.crewai import protect_model, protect_tools

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

ROOMS = {"book the attic": "attic", "and the ballroom": "ballroom"}


class Scripted(BaseLLM):
    """A model that books the room of its task, and then says so. Its calls have other ids each time."""

    def supports_function_calling(self) -> bool:
        return True

    def get_input_tokens_count(self, *_: Any, **__: Any) -> int:
        return 0

    def call(self, messages: Any, *_: Any, **more: Any) -> Any:
        if messages[-1]["role"] == "tool":
            return f"I {messages[-1]['content']}."
        arguments = json.dumps({"room": ROOMS[more["from_task"].description]})
        function = {"name": "book", "arguments": arguments}
        return [{"id": str(uuid.uuid4()), "type": "function", "function": function}]


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


def kick_off(folder: Path, message: str, words: str) -> None:
    """Have the crew do what a message says."""
    with takeback.open(folder / "work") as tb, tb.thread(key="hotel") as thread:
        agent = Agent(
            role="clerk",
            goal="book rooms",
            backstory="a friendly clerk",
            tools=protect_tools([book], thread),
            llm=protect_model(Scripted(model="scripted"), thread),
        )
        task = Task(description=words, expected_output="what was booked", agent=agent)
        with thread.turn(message):
            print(f"  the crew: {Crew(agents=[agent], tasks=[task]).kickoff().raw}", flush=True)
        thread.commit()


def go_back(folder: Path, message: str) -> None:
    """Take back what the crew did because of a message, and of all later ones."""
    with takeback.open(folder / "work") as tb, tb.thread(key="hotel") as thread:
        print(f"  {thread.rollback(to=message)}")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ |= {"BOOKINGS": str(folder / "bookings.json"), "TAKEBACK_HOME": str(folder / "state")}
    os.environ |= {"XDG_DATA_HOME": str(folder / "crewai"), "CREWAI_DISABLE_TELEMETRY": "true"}
    program = [sys.executable, __file__, "--kick-off", str(folder)]
    print("The crew books a room, and its machine goes down:", flush=True)
    first, fragile = [*program, "message-1", "book the attic"], {**os.environ, "FRAGILE": "1"}
    subprocess.run(first, env=fragile, check=False)
    print("Another process kicks it off again:", flush=True)
    subprocess.run(first, check=True)
    print(f"  booked: {sorted(bookings().values())}")
    (work / "mine.md").write_text("my own notes\n")
    print("A second message:", flush=True)
    subprocess.run([*program, "message-2", "and the ballroom"], check=True)
    print(f"  booked: {sorted(bookings().values())}")
    print("That was a mistake:")
    go_back(folder, "message-2")
    print(f"  booked: {sorted(bookings().values())}; in the folder: {sorted(os.listdir(work))}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--kick-off"]:
        kick_off(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
