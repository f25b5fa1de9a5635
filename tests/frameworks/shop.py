"""Tools of an agent, without any framework: a file, a booking in another system, a payment. Effects can be counted.

Each driver puts its framework's decorator over these functions.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from pathlib import Path
from typing import Any

import takeback

PLANS: dict[str, list[list[tuple[str, dict[str, Any]]]]] = {
    "prepare": [[("write", {"name": "a.txt", "text": "a"})], [("book", {"room": "attic"})]],
    "both": [[("write", {"name": "b.txt", "text": "b"}), ("book", {"room": "ballroom"})]],
    "pay": [[("pay", {"amount": 7})]],
    "fail": [[("write", {"name": "c.txt", "text": "c"})], [("spoil", {"name": "d.txt"})]],
    "linger": [[("linger", {"name": "e.txt"})]],
    "twice": [[("book", {"room": "attic"})], [("book", {"room": "attic"})]],
}
"""What the scripted model does when a message says this: rounds of calls, those of one round in parallel."""


def place(name: str) -> Path:
    """A file of another system, outside the workspace."""
    return Path(os.environ["SHOP"]) / name


def rows(name: str) -> list[dict[str, Any]]:
    return json.loads(place(name).read_text()) if place(name).exists() else []


def add(name: str, **row: Any) -> None:
    place(name).write_text(json.dumps([*rows(name), row]))


def key() -> str:
    """The idempotency key of this call; a bare agent has none."""
    return "" if os.environ.get("BARE") else takeback.current_call().key


def call_id(name: str) -> str:
    """The id of a call of a model: never the same again or, with IDS=repeated, the same in each of its messages."""
    with place("wanted").open("a") as file:
        file.write(f"{name}\n")
    return f"call-{name}" if os.environ.get("IDS") == "repeated" else f"call-{uuid.uuid4()}"


def cancel(call: takeback.Call) -> None:
    place("bookings").write_text(json.dumps([row for row in rows("bookings") if row["key"] != call.key]))


def find(call: takeback.Call) -> Any:
    found = [row["room"] for row in rows("bookings") if row["key"] == call.key]
    return f"booked {found[0]}" if found else takeback.ABSENT


def die(when: str) -> None:
    """Kill this process, as a machine that goes down does."""
    if os.environ.get("DIE") == when:
        os.kill(os.getpid(), signal.SIGKILL)


@takeback.action(effect="restorable")
def write(name: str, text: str) -> str:
    """Write a file."""
    Path(os.environ["WORK"], name).write_text(text)
    return f"wrote {name}"


@takeback.action(undo=cancel, check=find)
def book(room: str) -> str:
    """Book a room. If the desk is closed, fail, and open it."""
    if place("closed").exists():
        place("closed").unlink()
        raise RuntimeError("the desk is closed")
    add("bookings", key=key(), room=room)
    die("in book")
    return f"booked {room}"


@takeback.action(effect="irreversible")
def pay(amount: int) -> str:
    """Pay."""
    add("payments", amount=amount)
    return f"paid {amount}"


@takeback.action(effect="restorable")
def spoil(name: str) -> str:
    """Write half a file, and fail."""
    Path(os.environ["WORK"], name).write_text("half of it")
    raise RuntimeError("the disk of the other system is full")


@takeback.action(effect="restorable")
def linger(name: str) -> str:
    """Write a file, and work on until the driver has cancelled the turn."""
    Path(os.environ["WORK"], name).write_text("begun")
    deadline = time.monotonic() + 60
    while not place("cancelled").exists():
        assert time.monotonic() < deadline, "nobody cancelled the turn"
        time.sleep(0.01)
    return f"lingered over {name}"


async def cancel_when_begun(turn: asyncio.Future[Any]) -> None:
    """Cancel a turn in the middle of `linger`, and wait for its end."""
    while not Path(os.environ["WORK"], "e.txt").exists():
        assert not turn.done(), turn
        await asyncio.sleep(0.01)
    turn.cancel()
    place("cancelled").touch()
    await asyncio.wait([turn])


TOOLS = [write, book, pay, spoil, linger]
