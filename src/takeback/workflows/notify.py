"""How an alert reaches somebody: a command, a webhook, the desktop, or anything that apprise reaches.

A notifier is one text, KIND or KIND:TARGET. It may hold a secret (most webhook addresses do), so it is kept with
Takeback's own state and shown only up to where the secret begins.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from takeback.errors import BackendError, UsageError

COMMAND_S = 30
WEBHOOK_S = 10


def check_notifier(text: str) -> str:
    """This notifier, if it can be one."""
    kind, _, target = text.partition(":")
    if kind not in KINDS or bool(target) == (kind == "desktop"):
        raise UsageError(
            f"{shown(text)} is no notifier; nothing was done",
            hint="one of command:COMMAND, webhook:URL, desktop, apprise:URL",
        )
    if kind == "webhook" and not all(_address(target)):
        raise UsageError("a webhook is a whole address with https:// or http://; nothing was done")
    return text


def _address(url: str) -> tuple[str, str]:
    """The scheme and the host of a web address; empty where it has none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # a port that is no number is found only when it is asked for
        host = parts.hostname or ""
    except ValueError:
        return "", ""
    return (parts.scheme, host) if parts.scheme in ("http", "https") else ("", "")


def shown(text: str) -> str:
    """A notifier without what may be a secret in it."""
    kind, _, target = text.partition(":")
    if kind == "webhook":
        scheme, host = _address(target)
        return f"{kind}:{scheme}://{host}/…" if scheme else f"{kind}:…"
    if kind == "command":
        return f"{kind}:{target.split()[0] if target.split() else ''} …"
    if kind == "apprise":
        return f"{kind}:{target.partition(':')[0]}://…" if "://" in target else f"{kind}:…"
    # Of what is no notifier nobody knows where its secret begins.
    return f"{kind[:20]}:…" if target else kind[:20]


def send(notifier: str, message: str, findings: list[dict[str, Any]]) -> None:
    """Send it, or raise BackendError with what went wrong."""
    kind, _, target = notifier.partition(":")
    try:
        KINDS[kind](target, message, findings)
    except BackendError:
        raise
    except (OSError, ValueError, LookupError, HTTPException, subprocess.SubprocessError) as error:
        # Its own words may repeat an address; only its kind is told.
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise BackendError(f"{shown(notifier)} was not reached: {reason}") from None


def _command(target: str, message: str, findings: list[dict[str, Any]]) -> None:
    data = json.dumps({"text": message, "findings": findings})
    done = subprocess.run(shlex.split(target), input=data.encode(), capture_output=True, timeout=COMMAND_S)
    if done.returncode:
        raise BackendError(f"{shown('command:' + target)} failed with exit code {done.returncode}")


def _webhook(target: str, message: str, findings: list[dict[str, Any]]) -> None:
    from urllib.request import Request, urlopen

    data = json.dumps({"text": message, "findings": findings}).encode()
    request = Request(target, data, {"Content-Type": "application/json", "User-Agent": "takeback"})
    with urlopen(request, timeout=WEBHOOK_S):
        pass


def _desktop(_target: str, message: str, _findings: list[dict[str, Any]]) -> None:
    if sys.platform == "darwin":
        words = ["osascript", "-e", f'display notification {json.dumps(message)} with title "Takeback"']
    else:
        words = ["notify-send", "--app-name=Takeback", "--", "Takeback", message]
    done = subprocess.run(words, capture_output=True, timeout=COMMAND_S)
    if done.returncode:
        raise BackendError(f"{words[0]} failed with exit code {done.returncode}")


def _apprise(target: str, message: str, _findings: list[dict[str, Any]]) -> None:
    try:
        from apprise import Apprise
    except ImportError:
        raise BackendError(
            "apprise is not installed, so nothing was sent", hint="pip install 'takeback[notify]'"
        ) from None
    service = Apprise()
    if not service.add(target):
        raise BackendError(f"apprise does not know {shown('apprise:' + target)}")
    if not service.notify(title="Takeback", body=message):
        raise BackendError(f"{shown('apprise:' + target)} was not reached")


KINDS: dict[str, Callable[[str, str, list[dict[str, Any]]], None]] = {
    "command": _command,
    "webhook": _webhook,
    "desktop": _desktop,
    "apprise": _apprise,
}
