"""Handlers that any process finds. What they do is a line in a file, named by the environment."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import takeback
from takeback import ABSENT, Call, DeliveryFailed

WORLD = "TAKEBACK_TEST_WORLD"


def say(*words: str) -> None:
    """One write for one line, so that a kill cannot tear it."""
    fd = os.open(Path(os.environ[WORLD]), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.write(fd, (json.dumps(words) + "\n").encode())
    os.close(fd)


def said() -> list[list[str]]:
    path = Path(os.environ[WORLD])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def sent() -> list[str]:
    """The keys that were delivered, in order, as often as they were."""
    return [key for what, key, *_ in said() if what == "sent"]


def note(text: str) -> dict[str, str]:
    say("sent", takeback.current_call().key, text)
    return {"id": text}


def note_slowly(text: str) -> dict[str, str]:
    time.sleep(0.02)
    return note(text)


def note_once(text: str) -> dict[str, str]:
    """A receiver that honours the key."""
    return note(text) if takeback.current_call().key not in sent() else {"id": text}


def unnote(call: Call) -> None:
    say("unsent", call.key, call.result["id"] if call.result else "")


def find_note(call: Call) -> Any:
    there = [line for line in said() if line[1] == call.key]
    return {"id": there[-1][2]} if there and there[-1][0] == "sent" else ABSENT


@takeback.action(undo=unnote, check=find_note)
def note_with_undo(text: str) -> dict[str, str]:
    return note(text)


@takeback.action(undo=unnote)
def note_with_blind_undo(text: str) -> dict[str, str]:
    return note(text)


async def note_later(text: str) -> dict[str, str]:
    return note(text)


def refuse(text: str) -> None:
    raise DeliveryFailed(f"nobody wants {text}", permanent=True, unsure=False)


def fail(text: str) -> None:
    say("tried", takeback.current_call().key, text)
    raise ConnectionRefusedError(text)


def hang(text: str) -> None:
    """Does it, and never says so."""
    note(text)
    time.sleep(600)


def kill(text: str) -> None:
    os._exit(9)


def secret(password: str) -> dict[str, str]:
    say("sent", takeback.current_call().key, password)
    return {"token": password}
