"""The built-in senders by name, and what each attempt passes to them."""

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
    """One attempt at delivery."""

    key: str
    """The same for every attempt at the same intent."""
    timeout_s: float
    folder: str | os.PathLike[str] = "."
    smtp: str = ""
    """The mail server, as smtp://USER:PASSWORD@HOST:PORT, or smtps://."""
    sender: str = ""


class Sender(msgspec.Struct, frozen=True):
    """A built-in sender: `about` checks its arguments and describes the intent."""

    send: Callable[..., Any]
    about: Callable[..., str]
    undo: str = ""
    """The function that takes it back, if the arguments say how."""
    check: str = ""
    """The function that checks for it, likewise."""


def sender(name: str) -> Sender:
    module = import_module(BUILT_IN[name])
    return Sender(module.send, module.about, getattr(module, "UNDO", ""), getattr(module, "CHECK", ""))


def about(name: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Return a description of an intent. Raise UsageError if its arguments make no sense."""
    try:
        return sender(name).about(*args, **kwargs)
    except TypeError as error:
        why = re.sub(
            r"\b\w+\(\) ", "", str(error)
        )  # without the name of a function that the user did not call
        raise UsageError(
            f"{name} cannot be sent like this: {why}; nothing was deferred",
            hint="docs/OUTBOX.md shows what each built-in takes",
        ) from error
