"""The shadow of a plan on the command line, promoted by another process; and rehearsals of its failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.world.cli import Workspace

TOOLS = '''
import os
from pathlib import Path
from typing import TypedDict
import takeback

def note(what):
    with open(os.environ["NOTES"], "a") as file:
        file.write(what + "\\n")

class Meeting(TypedDict):
    id: str

@takeback.action(effect="restorable")
def write(path: str, text: str) -> str:
    Path(path).write_text(text)
    return path

def state(room: str) -> Path:
    """Where the calendar keeps a booking: in a simulation in its folder, otherwise in the real calendar."""
    return (takeback.simulation() or Path(os.environ["NOTES"] + ".calendar")) / room

def cancel(call):
    state(call.kwargs["room"]).unlink()

def cancel_wrongly(call):
    """A mistake that nobody notices: it says that it is done."""
    state(call.kwargs["room"]).with_suffix(".old").exists()

def find(call):
    return {"id": call.kwargs["room"]} if state(call.kwargs["room"]).exists() else takeback.ABSENT

@takeback.action(undo=cancel, check=find, simulate=True)
def book(room: str) -> Meeting:
    state(room).parent.mkdir(exist_ok=True)
    state(room).write_text("booked")
    if takeback.simulation() is None:
        note("book " + room)
    return {"id": "real-" + room}

@takeback.action(undo=cancel, check=find)
def book_and_die(room: str) -> Meeting:
    """Books, and dies the first time, before anybody is told."""
    book(room)
    broke = Path(os.environ["NOTES"] + ".broke")
    if not broke.exists():
        broke.touch()
        os.kill(os.getpid(), 9)
    return {"id": "real-" + room}

@takeback.action(effect="irreversible")
def is_open(room: str) -> bool:
    return True

@takeback.action(undo=cancel_wrongly, simulate=True)
def reserve(room: str) -> Meeting:
    return book(room)

@takeback.action(effect="irreversible")
def invite(meeting: str) -> None:
    note("invite " + meeting)
'''
WRITE = {"id": "write", "tool": "calendar_tools:write", "args": {"path": "plan.md", "text": "new"}}
LAST = {"id": "last", "tool": "calendar_tools:write", "args": {"path": "last.md", "text": "x"}}
BOOK = {"id": "book", "tool": "calendar_tools:book", "args": {"room": "A"}}
WRONG = {"id": "wrong", "tool": "calendar_tools:reserve", "args": {"room": "B"}}
INVITE = {
    "id": "invite",
    "tool": "calendar_tools:invite",
    "args": {"meeting": {"$result": "book", "path": "/id"}},
}
FILE = "../plan.json"
EACH_WAY = pytest.mark.parametrize("way", ["", "off"], ids=["overlay", "copy"], indirect=True)


@pytest.fixture
def shop(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    made = Workspace.at(tmp_path)
    made.human("calendar_tools.py", TOOLS)
    made.human("plan.md", "old\n")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return made


def noted(shop: Workspace) -> list[str]:
    path = shop.root.parent / "notes"
    return path.read_text().splitlines() if path.exists() else []


def plan(shop: Workspace, *steps: dict[str, Any]) -> None:
    (shop.root.parent / "plan.json").write_text(json.dumps({"name": "meet", "steps": steps}))


@EACH_WAY
def test_a_plan_is_shadowed_and_promoted(shop: Workspace) -> None:
    plan(shop, WRITE, BOOK, INVITE)
    before = shop.look()
    review = shop.do("plan", "shadow", "--json", FILE).json
    assert shop.changes_since(before) == [] and noted(shop) == []
    assert [one["name"] for one in review["intended"]] == ["book", "invite"]
    assert review["changes"] == ["change plan.md"]
    assert shop.do("promote", review["run"], code=2).stderr.count("--yes") == 1
    assert "would call" in shop.do("promote", review["run"], "--preview").stdout
    done = shop.do("promote", review["run"], "--yes", "--json").json
    assert shop.read("plan.md") == "new"
    assert noted(shop) == ["book A", "invite real-A"]
    assert shop.do("promote", review["run"], "--yes", code=2).stderr
    assert done["shadow"] == review["run"]
    shop.undo(done["accepted"])
    assert shop.read("plan.md") == "old\n"


def test_a_promotion_that_was_killed_goes_on(shop: Workspace) -> None:
    meet = {"id": "meet", "tool": "calendar_tools:book_and_die", "args": {"room": "A"}}
    invite = INVITE | {"args": {"meeting": {"$result": "meet", "path": "/id"}}}
    plan(shop, WRITE, BOOK | {"args": {"room": "B"}}, meet, invite)
    review = shop.do("plan", "shadow", "--json", FILE).json
    assert shop.run("promote", review["run"], "--yes").code == -9
    assert shop.read("plan.md") == "new" and noted(shop) == ["book B", "book A"]
    shop.do("promote", review["run"], "--yes")
    assert noted(shop) == ["book B", "book A", "invite A"], "the check's result, and nothing twice"


def test_a_moved_world_is_refused_here_too(shop: Workspace) -> None:
    plan(shop, WRITE, BOOK)
    review = shop.do("plan", "shadow", "--json", FILE).json
    shop.human("mine.md", "mine")
    said = shop.do("promote", review["run"], "--yes", code=3)
    assert "the world has moved since the shadow began: mine.md" in said.stderr
    assert noted(shop) == [] and shop.read("plan.md") == "old\n"


def test_an_agent_cannot_promote(shop: Workspace) -> None:
    plan(shop, WRITE)
    review = shop.do("plan", "shadow", "--json", FILE).json
    said = shop.run("run", "--", "python3", "-m", "takeback", "promote", review["run"], "--yes")
    assert said.code == 3 and "an agent cannot promote" in said.stderr
    assert shop.read("plan.md") == "old\n"


def test_a_rehearsal_of_a_plan_that_comes_back(shop: Workspace) -> None:
    plan(shop, WRITE, BOOK)
    before = shop.look()
    said = shop.do("rehearse", "--json", FILE).json
    assert said["clean"] and said["wrong"] == [], said
    assert [(one["step"], one["failure"], one["clean"]) for one in said["trials"]] == [
        (step, failure, True) for step in ("write", "book") for failure in ("error", "timeout", "kill")
    ]
    assert shop.changes_since(before) == [] and noted(shop) == []


@EACH_WAY
def test_a_rehearsal_finds_exactly_the_step_whose_handler_is_wrong(shop: Workspace) -> None:
    plan(shop, WRITE, BOOK, WRONG, LAST)
    said = shop.do("rehearse", "--json", "--failure", "error", FILE, code=6).json
    assert said["wrong"] == ["wrong"], said
    clean = {one["step"]: one["clean"] for one in said["trials"]}
    assert clean == {"write": True, "book": True, "wrong": False, "last": False}
    assert said["trials"][-1]["left"] == ["simulated: B"]
    assert noted(shop) == []


def test_a_rehearsal_names_what_cannot_be_rehearsed(shop: Workspace) -> None:
    plan(shop, WRITE, {"id": "ask", "tool": "calendar_tools:is_open", "args": {"room": "A"}}, LAST)
    said = shop.do("rehearse", "--json", "--failure", "error", FILE, code=6).json
    assert said["wrong"] == ["ask"] and "is_open cannot be rehearsed" in said["trials"][1]["left"][0]


def test_a_rehearsal_of_a_command(shop: Workspace) -> None:
    before = shop.look()
    command = "echo x > plan.md; sleep 0.2; rm calendar_tools.py"
    said = shop.do("rehearse", "--", "sh", "-c", command).stdout
    assert said.count("comes back") == 3 and "come back clean." in said
    assert shop.changes_since(before) == []
