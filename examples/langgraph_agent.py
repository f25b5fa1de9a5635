"""An agent of LangChain: killed in the middle of a tool, resumed by another process, and taken back with its words.

    python examples/langgraph_agent.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[langchain]'`. The model is a
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

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

import takeback
from takeback.frameworks.langchain import Takeback
from takeback.frameworks.langgraph import TakebackSaver

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

THREAD: Any = {"configurable": {"thread_id": "1"}}
SCRIPT = {"book the attic": "attic", "and the ballroom": "ballroom"}


class Scripted(BaseChatModel):
    """A model that books the room of the last message, and then says so. Its calls have other ids each time."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = messages[-1]
        answer = AIMessage(f"I {last.content}.")
        if isinstance(last, HumanMessage):
            call = {"name": "book", "args": {"room": SCRIPT[str(last.content)]}, "id": str(uuid.uuid4())}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


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
    """Say something to the agent; without words, let the thread go on where it was."""
    with TakebackSaver.from_conn_string(folder / "work") as saver:
        agent = create_agent(Scripted(), [book], middleware=[Takeback(saver)], checkpointer=saver)
        given = {"messages": [HumanMessage(words)]} if words else None
        for message in agent.invoke(given, THREAD, durability="sync")["messages"]:
            if message.content:
                print(f"  {message.type}: {message.content}", flush=True)


def go_back(folder: Path) -> None:
    """Go back to the end of the first turn."""
    with TakebackSaver.from_conn_string(folder / "work") as saver:
        agent = create_agent(Scripted(), [book], middleware=[Takeback(saver)], checkpointer=saver)
        ends = [state for state in agent.get_state_history(THREAD) if not state.next]
        print(f"  {saver.go_back('1', ends[-1].config['configurable']['checkpoint_id'])}")
        print(f"  the agent remembers {len(agent.get_state(THREAD).values['messages'])} messages")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ |= {"BOOKINGS": str(folder / "bookings.json"), "TAKEBACK_HOME": str(folder / "state")}
    program = [sys.executable, __file__, "--converse", str(folder)]
    print("The agent books a room, and its machine goes down:", flush=True)
    subprocess.run([*program, "book the attic"], env={**os.environ, "FRAGILE": "1"}, check=False)
    print("Another process lets the thread go on:", flush=True)
    subprocess.run([*program, ""], check=True)
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
