"""Notifiers: a command, a webhook, the desktop, or any service that apprise supports.

A notifier is one text, KIND or KIND:TARGET. It may contain a secret (most webhook addresses do), so it is shown only
up to where the secret begins. In a project's file the secret is a variable, $NAME.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import msgspec

from takeback.core.redact import redact
from takeback.errors import BackendError, UsageError
from takeback.senders.command import KEY as KEY_VARIABLE
from takeback.senders.http import KEY as KEY_HEADER

COMMAND_S = 30
WEBHOOK_S = 10
ADDRESSED = ("apprise", "webhook")
"""The kinds whose target is an address, in which $NAME stands for a variable. A command has the variables itself."""


class NoticeMessage(msgspec.Struct, frozen=True):
    """What a notifier is sent."""

    id: str
    """The same in each attempt, so that a receiver can recognise a repetition."""
    text: str
    """For people."""
    findings: list[dict[str, Any]] = []
    """The same for programs."""
    again: bool = False
    """True if the same message may have been received already: the process that sent it was killed."""


def check_notifier(text: str) -> str:
    """Return this notifier. Raise UsageError if it is not valid."""
    kind, _, target = text.partition(":")
    if kind not in KINDS or bool(target) == (kind == "desktop"):
        raise UsageError(
            f"{shown(text)} is not a notifier; nothing was done",
            hint="use command:COMMAND, webhook:URL, desktop or apprise:URL",
        )
    if kind == "webhook" and "$" not in target and not all(_address(target)):
        raise UsageError("a webhook needs a full address with https:// or http://; nothing was done")
    return text


def check_shared(text: str) -> str:
    """Return this notifier of a file that others can read. Raise UsageError if it contains a secret."""
    check_notifier(text)
    kind, _, target = text.partition(":")
    bare = kind == "apprise" and "$" not in target and not target.endswith("://")
    if bare or redact(text) != text or (kind == "webhook" and "@" in target):
        raise UsageError(
            f"{shown(text)} contains a secret, or may contain one; nothing was done",
            hint=f'name a variable instead: "{kind}:$TAKEBACK_NOTIFY_URL"',
        )
    return text


def _address(url: str) -> tuple[str, str]:
    """Return the scheme and the host of a web address, or empty texts if it is not one."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if the port is not a number
        host = parts.hostname or ""
    except ValueError:
        return "", ""
    return (parts.scheme, host) if parts.scheme in ("http", "https") else ("", "")


def shown(text: str) -> str:
    """Return a notifier without the part that may be a secret."""
    kind, _, target = text.partition(":")
    if kind in ADDRESSED and target.startswith("$"):
        return text  # the name of a variable, which is not a secret
    if kind == "webhook":
        scheme, host = _address(target)
        return f"{kind}:{scheme}://{host}/…" if scheme else f"{kind}:…"
    if kind == "command":
        return f"{kind}:{target.split()[0] if target.split() else ''} …"
    if kind == "apprise":
        return f"{kind}:{target.partition(':')[0]}://…" if "://" in target else f"{kind}:…"
    # In a text that is not a notifier, a secret may begin anywhere.
    return f"{kind[:20]}:…" if target else kind[:20]


def send(notifier: str, message: NoticeMessage) -> None:
    """Send the message. Raise BackendError if that fails."""
    kind, _, target = notifier.partition(":")
    try:
        KINDS[kind](target, message)
    except BackendError:
        raise
    except (OSError, ValueError, LookupError, HTTPException, subprocess.SubprocessError) as error:
        # The error's text may repeat the address, so only its kind is reported.
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise BackendError(f"{shown(notifier)} was not reached: {reason}") from None


def _command(target: str, message: NoticeMessage) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "TAKEBACK_ACTION"}
    done = subprocess.run(
        shlex.split(target),
        input=_encoded(message),
        capture_output=True,
        timeout=COMMAND_S,
        env=environment | {KEY_VARIABLE: message.id},
    )
    if done.returncode:
        raise BackendError(f"{shown('command:' + target)} failed with exit code {done.returncode}")


def _webhook(target: str, message: NoticeMessage) -> None:
    from urllib.request import Request, urlopen

    headers = {
        "Content-Type": "application/json",
        "User-Agent": "takeback",
        KEY_HEADER: message.id,
        "webhook-id": message.id,
    }
    with urlopen(Request(target, _encoded(message), headers), timeout=WEBHOOK_S):
        pass


def _encoded(message: NoticeMessage) -> bytes:
    return json.dumps(msgspec.to_builtins(message)).encode()


def _desktop(_target: str, message: NoticeMessage) -> None:
    if sys.platform == "darwin":
        said = f'display notification {json.dumps(message.text)} with title "Takeback"'
        words = ["osascript", "-e", said]
    else:
        words = ["notify-send", "--app-name=Takeback", "--", "Takeback", message.text]
    done = subprocess.run(words, capture_output=True, timeout=COMMAND_S)
    if done.returncode:
        raise BackendError(f"{words[0]} failed with exit code {done.returncode}")


def _apprise(target: str, message: NoticeMessage) -> None:
    try:
        from apprise import Apprise
    except ImportError:
        raise BackendError(
            "apprise is not installed, so nothing was sent", hint="pip install 'takeback[notify]'"
        ) from None
    service = Apprise()
    if not service.add(target):
        raise BackendError(f"apprise does not know {shown('apprise:' + target)}")
    if not service.notify(title="Takeback", body=message.text):
        raise BackendError(f"{shown('apprise:' + target)} was not reached")


KINDS: dict[str, Callable[[str, NoticeMessage], None]] = {
    "command": _command,
    "webhook": _webhook,
    "desktop": _desktop,
    "apprise": _apprise,
}
