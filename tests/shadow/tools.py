"""Tools for shadows: each call to another system leaves a line in a file outside the workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypedDict

import takeback


def note(what: str) -> None:
    with open(os.environ["NOTES"], "a") as file:
        file.write(what + "\n")


def noted() -> list[str]:
    path = Path(os.environ["NOTES"])
    return path.read_text().splitlines() if path.exists() else []


@takeback.action(effect="restorable")
def write(path: str, text: str) -> int:
    return Path(path).write_text(text)


@takeback.action(effect="none")
def read(path: str) -> str:
    return Path(path).read_text()


class Meeting(TypedDict):
    id: str
    room: str


def unbook(call: takeback.Call) -> None:
    note(f"unbook {call.result['id']}")


def booked(call: takeback.Call) -> object:
    here = [line for line in noted() if line.endswith(call.key)]
    return {"id": f"m-{call.key}", "room": "?"} if here and here[-1].startswith("book") else takeback.ABSENT


@takeback.action(undo=unbook)
def book(room: str) -> Meeting:
    """It has no simulation; the type of its result says enough for a stand-in."""
    note(f"book {room}")
    return {"id": f"real-{room}", "room": room}


@takeback.action(effect="irreversible")
def invite(meeting: str, text: str = "") -> None:
    note(f"invite {meeting} {text}".rstrip())


def pretend(amount: int) -> dict[str, object]:
    return {"id": takeback.stand_in(), "amount": amount}


@takeback.action(undo=unbook, simulate=pretend)
def pay(amount: int) -> dict[str, object]:
    note(f"pay {amount}")
    return {"id": f"p{amount}", "amount": amount}


@takeback.action(undo=unbook)
def rate(currency: str) -> float:
    note(f"rate {currency}")
    return 1.5


def undeclared(what: str) -> None:
    note(f"undeclared {what}")


@takeback.action(undo=unbook)
async def book_later(room: str) -> Meeting:
    note(f"book later {room}")
    return {"id": f"later-{room}", "room": room}


def fail(why: str) -> None:
    raise RuntimeError(why)


@takeback.action(effect="irreversible")
def login(token: str) -> None:
    note("login")


@takeback.action(undo=unbook)
def count() -> int:
    note("count")
    return 7
