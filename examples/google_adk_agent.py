"""An agent of Google ADK: killed in the middle of a tool, resumed by another process, and taken back with its words.

    python examples/google_adk_agent.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. It needs `pip install 'takeback[google-adk]'`. The model is a
script, so nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import uuid
import warnings
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

import takeback
from takeback.frameworks.google_adk import TakebackPlugin, TakebackSessionService

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")
warnings.filterwarnings("ignore", message=".*EXPERIMENTAL.*")
logging.disable(logging.WARNING)  # ADK warns that a scripted model counts no tokens

WHERE = {"user_id": "ann", "session_id": "1"}
SCRIPT = {"book the attic": "attic", "and the ballroom": "ballroom"}


class Scripted(BaseLlm):
    """A model that books the room of the last message, and then says so. Its calls have other ids each time."""

    async def generate_content_async(
        self, llm_request: Any, *_: Any, **__: Any
    ) -> AsyncGenerator[LlmResponse]:
        last = llm_request.contents[-1].parts[-1]
        if last.text:
            args = {"room": SCRIPT[last.text]}
            call = types.FunctionCall(name="book", args=args, id=str(uuid.uuid4()))
            answer = types.Part(function_call=call)
        else:
            answer = types.Part(text=f"I {last.function_response.response['result']}.")
        yield LlmResponse(content=types.Content(role="model", parts=[answer]))


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


def made(folder: Path) -> tuple[Runner, TakebackPlugin]:
    service = TakebackSessionService(folder / "work")
    plugin = TakebackPlugin(service)
    app = App(
        name="desk",
        root_agent=LlmAgent(name="clerk", model=Scripted(model="scripted"), tools=[book]),
        plugins=[plugin],
        resumability_config=ResumabilityConfig(is_resumable=True),
    )
    return Runner(app=app, session_service=service, auto_create_session=True), plugin


async def invocations(runner: Runner) -> list[str]:
    session = await runner.session_service.get_session(app_name="desk", **WHERE)
    return list(dict.fromkeys(event.invocation_id for event in session.events)) if session else []


async def converse(folder: Path, words: str) -> None:
    """Say something to the agent; without words, let its last invocation go on where it was."""
    runner, _ = made(folder)
    given: dict[str, Any] = {"new_message": types.UserContent(words)} if words else {}
    if not words:
        given = {"invocation_id": (await invocations(runner))[-1]}
    async for event in runner.run_async(**WHERE, **given):
        for part in event.content.parts if event.content else ():
            if part.text:
                print(f"  {event.author}: {part.text}", flush=True)


async def go_back(folder: Path) -> None:
    """Rewind the session to before its second message."""
    runner, plugin = made(folder)
    second = (await invocations(runner))[1]
    print(f"  {await plugin.rewind(runner, **WHERE, rewind_before_invocation_id=second)}")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ |= {"BOOKINGS": str(folder / "bookings.json"), "TAKEBACK_HOME": str(folder / "state")}
    program = [sys.executable, __file__, "--converse", str(folder)]
    print("The agent books a room, and its machine goes down:", flush=True)
    subprocess.run([*program, "book the attic"], env={**os.environ, "FRAGILE": "1"}, check=False)
    print("Another process lets the invocation go on:", flush=True)
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
    if sys.argv[1:2] == ["--converse"]:
        asyncio.run(converse(Path(sys.argv[2]), sys.argv[3]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
