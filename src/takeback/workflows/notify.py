"""Notifiers of alerts: a command, a webhook, the desktop, or any service that apprise supports.

A notifier is one text, KIND or KIND:TARGET. It may contain a secret (most webhook addresses do), so it is kept with
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
    """Return this notifier. Raise UsageError if it is not valid."""
    kind, _, target = text.partition(":")
    if kind not in KINDS or bool(target) == (kind == "desktop"):
        raise UsageError(
            f"{shown(text)} is not a notifier; nothing was done",
            hint="use command:COMMAND, webhook:URL, desktop or apprise:URL",
        )
    if kind == "webhook" and not all(_address(target)):
        raise UsageError("a webhook needs a full address with https:// or http://; nothing was done")
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
    if kind == "webhook":
        scheme, host = _address(target)
        return f"{kind}:{scheme}://{host}/…" if scheme else f"{kind}:…"
    if kind == "command":
        return f"{kind}:{target.split()[0] if target.split() else ''} …"
    if kind == "apprise":
        return f"{kind}:{target.partition(':')[0]}://…" if "://" in target else f"{kind}:…"
    # In a text that is not a notifier, a secret may begin anywhere.
    return f"{kind[:20]}:…" if target else kind[:20]


def send(notifier: str, message: str, findings: list[dict[str, Any]]) -> None:
    """Send the alert. Raise BackendError if that fails."""
    kind, _, target = notifier.partition(":")
    try:
        KINDS[kind](target, message, findings)
    except BackendError:
        raise
    except (OSError, ValueError, LookupError, HTTPException, subprocess.SubprocessError) as error:
        # The error's text may repeat the address, so only its kind is reported.
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
