"""Tools of an agent: a file, a booking in another system, a payment. Their effects can be counted."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

import takeback


def place(name: str) -> Path:
    """A file of another system, outside the workspace."""
    return Path(os.environ["SHOP"]) / name


def rows(name: str) -> list[dict[str, Any]]:
    return json.loads(place(name).read_text()) if place(name).exists() else []


def add(name: str, **row: Any) -> None:
    place(name).write_text(json.dumps([*rows(name), row]))


def cancel(call: takeback.Call) -> None:
    place("bookings").write_text(json.dumps([row for row in rows("bookings") if row["key"] != call.key]))


def find(call: takeback.Call) -> Any:
    found = [row["room"] for row in rows("bookings") if row["key"] == call.key]
    return f"booked {found[0]}" if found else takeback.ABSENT


def die(when: str) -> None:
    if os.environ.get("DIE") == when:
        os.kill(os.getpid(), signal.SIGKILL)


@tool
@takeback.action(effect="restorable")
def write(name: str, text: str) -> str:
    """Write a file."""
    Path(os.environ["WORK"], name).write_text(text)
    return f"wrote {name}"


@tool
@takeback.action(undo=cancel, check=find)
def book(room: str) -> str:
    """Book a room."""
    add("bookings", key=takeback.current_call().key, room=room)
    die("in book")
    return f"booked {room}"


@tool
@takeback.action(effect="irreversible")
def pay(amount: int) -> str:
    """Pay."""
    add("payments", amount=amount)
    return f"paid {amount}"


@tool
@takeback.action(effect="restorable")
def spoil(name: str) -> str:
    """Write half a file, and fail."""
    Path(os.environ["WORK"], name).write_text("half of it")
    raise RuntimeError("the disk of the other system is full")


TOOLS = [write, book, pay, spoil]
