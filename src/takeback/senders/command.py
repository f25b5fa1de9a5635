"""The sender that runs commands. Exit code 0 means delivered; the environment has the key as TAKEBACK_KEY."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from typing import Any

from takeback.core.redact import redact
from takeback.errors import DeliveryFailed, UsageError
from takeback.senders.registry import Sending

KEY = "TAKEBACK_KEY"
OUTPUT_MAX = 4 << 10
PERMANENT = (64, 65, 77, 78, 126, 127)
"""Exit codes for wrong usage, wrong data, no permission, wrong settings, no such program: retrying cannot help."""


def about(words: Sequence[str], *, input: str = "") -> str:  # noqa: A002  as subprocess calls it
    """Return a short description: `command make deploy`."""
    if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
        raise UsageError(
            "a command is a list of words; nothing was deferred", hint='for example ["make", "deploy"]'
        )
    _ = input
    return f"command {redact(shlex.join([os.path.basename(words[0]), *words[1:]]))[:80]}"


def send(sending: Sending, words: Sequence[str], *, input: str = "") -> dict[str, Any]:  # noqa: A002  as above
    environment = {name: text for name, text in os.environ.items() if name != "TAKEBACK_ACTION"}
    try:
        done = subprocess.run(
            words,
            input=input.encode(),
            capture_output=True,
            timeout=sending.timeout_s,
            cwd=sending.folder,
            env=environment | {KEY: sending.key},
        )
    except subprocess.TimeoutExpired:
        raise DeliveryFailed(f"{words[0]} did not end within {sending.timeout_s:g} s") from None
    except OSError as error:
        why = f"{words[0]} was not started: {error.strerror}"
        raise DeliveryFailed(why, permanent=True, unsure=False) from None
    if done.returncode:
        output = redact(done.stderr.decode("utf-8", "replace").strip()[-300:])
        why = f"{words[0]} ended with {done.returncode}{': ' + output if output else ''}"
        raise DeliveryFailed(why, permanent=done.returncode in PERMANENT)
    return {"exit_code": 0, "output": done.stdout.decode("utf-8", "replace")[:OUTPUT_MAX]}
