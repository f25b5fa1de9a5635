"""Another system with handlers that any process can import. It lives in this process."""

from __future__ import annotations

from typing import Any

import takeback

WORLD: dict[str, Any] = {}
MADE: list[str] = []
ASKED: list[str] = []
CANCELLED: list[str] = []
BROKEN: set[str] = set()
"""The handlers that fail for now."""


def cancel(call: takeback.Call) -> None:
    CANCELLED.append(call.key)
    if "cancel" in BROKEN:
        raise ConnectionError("nobody answers")
    WORLD.pop(call.key, None)


def find(call: takeback.Call) -> Any:
    ASKED.append(call.key)
    return WORLD.get(call.key, takeback.ABSENT)


@takeback.action(undo=cancel, check=find)
def book(room: str, token: str = "") -> Any:
    MADE.append(room)
    WORLD[takeback.current_call().key] = {"room": room}
    return {"room": room}


@takeback.action(effect="none")
def add(a: int, b: int) -> int:
    MADE.append("add")
    return a + b


@takeback.action(effect="none")
def login(user: str, password: str) -> dict[str, str]:
    return {"user": user, "token": "battery staple"}


@takeback.action(effect="irreversible")
def wire(amount: int) -> int:
    MADE.append("wire")
    return amount


@takeback.action(effect="irreversible", check=find)
def sign(paper: str) -> str:
    WORLD[takeback.current_call().key] = paper
    return paper
