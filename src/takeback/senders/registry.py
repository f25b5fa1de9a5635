"""What every sender is given, and how one says that it did not get through."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from takeback.errors import UsageError

BUILT_IN = {
    "http": "takeback.senders.http",
    "webhook": "takeback.senders.webhook",
    "email": "takeback.senders.email",
    "command": "takeback.senders.command",
}


class Sending(msgspec.Struct, frozen=True):
    """One attempt."""

    key: str
    """The same for every attempt at the same intent."""
    timeout_s: float
    folder: str | os.PathLike[str] = "."
    smtp: str = ""
    """The mail server, as smtp://USER:PASSWORD@HOST:PORT, or smtps://."""
    sender: str = ""


class Sender(msgspec.Struct, frozen=True):
    """A built-in way of sending: `about` checks what it is given and says what it is."""

    send: Callable[..., Any]
    about: Callable[..., str]
    undo: str = ""
    """The function that takes it back, where the arguments say how."""
    check: str = ""
    """The function that looks for it, likewise."""


def sender(name: str) -> Sender:
    module = import_module(BUILT_IN[name])
    return Sender(module.send, module.about, getattr(module, "UNDO", ""), getattr(module, "CHECK", ""))


def about(name: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """What an intent is, in words; a UsageError where its arguments make no sense."""
    try:
        return sender(name).about(*args, **kwargs)
    except TypeError as error:
        why = re.sub(r"\b\w+\(\) ", "", str(error))  # without the name of a function that nobody called
        raise UsageError(
            f"{name} cannot be sent like this: {why}; nothing was deferred",
            hint="docs/OUTBOX.md shows what each built-in takes",
        ) from error
