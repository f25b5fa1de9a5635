"""A conversation with an agent: killed in the middle of a tool, resumed by another process, and taken back by a turn.

    python examples/conversation.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. The loop below stands for an agent framework; `call_tool` is what
an adapter for one does around each tool.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import takeback

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

SCRIPT: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "book a room for Friday": [("note", {"text": "Friday"}), ("book", {"room": "attic"})],
    "and one for the party": [("note", {"text": "party"}), ("book", {"room": "ballroom"})],
}
"""What the model wants for each message: tools with their arguments. It gives them no ids."""


def bookings() -> dict[str, str]:
    place = Path(os.environ["BOOKINGS"])  # another system, outside the workspace
    return json.loads(place.read_text()) if place.exists() else {}


def put(booked: dict[str, str]) -> None:
    Path(os.environ["BOOKINGS"]).write_text(json.dumps(booked))


def cancel(call: takeback.Call) -> None:
    put({key: room for key, room in bookings().items() if key != call.key})


def find(call: takeback.Call) -> Any:
    return bookings().get(call.key, takeback.ABSENT)


@takeback.action(undo=cancel, check=find)
def book(room: str) -> str:
    put(bookings() | {takeback.current_call().key: room})
    if os.environ.get("FRAGILE"):
        print(f"  the machine goes down after {room} was booked", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return room


@takeback.action(effect="restorable")
def note(text: str) -> str:
    with Path("notes.md").open("a") as notes:
        notes.write(f"{text}\n")
    return text


TOOLS: dict[str, Callable[..., str]] = {"book": book, "note": note}


def call_tool(thread: takeback.Thread, name: str, args: dict[str, Any]) -> Any:
    """Run a tool only if its action is open; otherwise return what is recorded."""
    action = thread.begin(name, args, declared=takeback.declared(TOOLS[name]))
    if isinstance(action, takeback.Action) and action.outcome == "cut-short":
        raise SystemExit(f"{name} was cut short: {action.error}")  # begin(again=True) would run it again
    if isinstance(action, takeback.Action) and action.outcome == "open":
        with action:
            action.keep(TOOLS[name](**args))
    return action.result if isinstance(action, takeback.Action) else str(action)


def converse(folder: Path) -> None:
    """Answer every message. It is the same program each time: what was done is not done again."""
    with (
        takeback.open(folder / "work", home=folder / "state", watching=False) as tb,
        tb.thread(key="chat") as thread,
    ):
        for message, wanted in SCRIPT.items():
            with thread.turn(message):
                results = [call_tool(thread, name, args) for name, args in wanted]
                print(f"  {message!r}: {results}")
        thread.delivered()


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.environ["BOOKINGS"] = str(folder / "bookings.json")
    os.chdir(work)
    program = [sys.executable, __file__, "--converse", str(folder)]
    print("The agent works, until its machine goes down:", flush=True)
    subprocess.run(program, env={**os.environ, "FRAGILE": "1"}, check=False)
    print("Another process resumes the conversation:", flush=True)
    subprocess.run(program, check=True)
    print(f"  booked: {sorted(bookings().values())}")
    Path("mine.md").write_text("my own notes\n")
    print("The second message was a mistake:")
    with takeback.open(work, home=folder / "state", watching=False) as tb, tb.thread(key="chat") as thread:
        print(f"  {thread.rollback(to='and one for the party')}")
        thread.commit()
    print(f"  booked: {sorted(bookings().values())}; notes: {Path('notes.md').read_text().split()}")
    print(f"  in the folder: {sorted(os.listdir())}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--converse"]:
        converse(Path(sys.argv[2]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
            os.chdir("/")
