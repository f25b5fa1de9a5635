"""A small project whose plans call tools that note, outside of it, how often they really ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.world.cli import Workspace

TOOLS = '''
import os, signal
import takeback

def note(what):
    """Outside the workspace, so that no rollback hides how often a tool really ran."""
    with open(os.environ["NOTES"], "a") as file:
        file.write(what + "\\n")

def search(topic):
    note("search")
    return {"text": f"about {topic}", "items": [{"id": 7}]}

def write(path, text=""):
    note("write " + path)
    with open(path, "w") as file:
        file.write(str(text))
    return {"path": path}

def break_once(path):
    """Writes, and dies the first time as if the machine had."""
    note("break")
    with open(path, "w") as file:
        file.write("half")
    if not os.path.exists(os.environ["NOTES"] + ".broke"):
        open(os.environ["NOTES"] + ".broke", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    with open(path, "w") as file:
        file.write("whole")

def fail(why):
    note("fail")
    raise ConnectionError(why)

async def later(text):
    note("later")
    return text.upper()

def unbook(call):
    note(f"unbook {call.result}")

@takeback.action(undo=unbook)
def book(room):
    note("book " + room)
    return {"room": room}

def release(call):
    os.remove(os.environ["NOTES"] + "." + call.kwargs["room"])
    note("release " + call.result["room"])

def reserved(call):
    there = os.path.exists(os.environ["NOTES"] + "." + call.kwargs["room"])
    return {"room": call.kwargs["room"]} if there else takeback.ABSENT

@takeback.action(undo=release, check=reserved)
def reserve(room):
    """Like `book`, and whether it happened can be found out."""
    note("reserve " + room)
    open(os.environ["NOTES"] + "." + room, "w").close()
    return {"room": room}

@takeback.action(effect="irreversible")
def send(to):
    note("send")
'''


def notes(shop: Workspace) -> list[str]:
    path = shop.root.parent / "notes"
    return path.read_text().splitlines() if path.exists() else []


def plan(shop: Workspace, *steps: dict[str, Any], **more: Any) -> None:
    text = json.dumps({"name": "report", "steps": list(steps), **more})
    # Beside the workspace: what the plan says is no part of what it changes.
    (shop.root.parent / "plan.json").write_text(text)


def step(id: str, tool: str, *after: str, **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": f"shop_tools:{tool}", "args": args, "after": list(after)}


FILE = "../plan.json"
SEARCH = step("find", "search", topic="cats")
WRITE = step("write", "write", path="report.md", text={"$result": "find", "path": "/text"})


def made_at(folder: Path) -> Workspace:
    """Make the project below a folder."""
    made = Workspace.at(folder)
    made.human("shop_tools.py", TOOLS)
    made.human("plan.md", "old\n")
    return made
