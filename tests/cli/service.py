"""Another system, as far as an agent can tell: a folder outside the workspace with a file for each booking."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import takeback


def folder() -> Path:
    return Path(os.environ["SERVICE"])


def bookings() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder().glob("*.json"))]


def cancel(call: takeback.Call) -> None:
    (folder() / f"{call.key}.json").unlink(missing_ok=True)


def find(call: takeback.Call) -> Any:
    path = folder() / f"{call.key}.json"
    return json.loads(path.read_text()) if path.exists() else takeback.ABSENT


def write(name: str, value: Any) -> Any:
    (folder() / f"{name}.json").write_text(json.dumps(value))
    return value


@takeback.action(undo=cancel, check=find)
def book(room: str) -> Any:
    return write(takeback.current_call().key, {"room": room})


@takeback.action(undo=cancel, name="charge-card")
def charge(amount: int) -> Any:
    """Nobody can look whether it happened."""
    return write(takeback.current_call().key, {"amount": amount})


@takeback.action(effect="irreversible")
def wire(amount: int, password: str = "") -> Any:
    return write("wired", {"amount": amount})


@takeback.action(effect="none")
def add(a: int, b: int) -> int:
    return a + b
