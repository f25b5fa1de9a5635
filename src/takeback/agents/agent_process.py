"""Finding the agent's process from one that it started: a session is over when the agent's process has ended."""

from __future__ import annotations

import os
import re

from takeback.system.processes import parent_of

CLIMB_MAX = 12
WORDS_BYTES_MAX = 4096

NAMES = {
    "claude-code": "claude",
    "ruflo": "claude",
    "codex": "codex",
    "cursor": "cursor",
    "gemini": "gemini",
    "opencode": "opencode",
}
INTERPRETERS = re.compile(r"(node|nodejs|bun|deno|python[\d.]*)$")


def leader_of(agent: str, pid: int) -> int:
    """Return the agent's own process, at or above this one, or 0 if none is certain.

    It is the nearest one with the agent's name. A process of another name may be a helper that ends in a moment, and
    then the whole session would be taken for over. So this never guesses.
    """
    name = NAMES.get(agent)
    for _ in range(CLIMB_MAX if name else 0):
        if pid <= 1:
            break
        if name and _is_called(pid, name):
            return pid
        pid = parent_of(pid)
    return 0


def _is_called(pid: int, name: str) -> bool:
    words = _reported(pid, "cmdline").split("\0")
    titles = [_reported(pid, "comm").strip(), os.path.basename(words[0])]
    if INTERPRETERS.match(titles[1]):
        script = next((word for word in words[1:] if word and not word.startswith("-")), "")
        titles += script.split("/")
    # `claude`, `claude-code`, `gemini-cli`, `codex.js`; not `claudette`.
    return any(re.match(rf"{name}(?![a-z0-9])", title.lower()) for title in titles)


def _reported(pid: int, what: str) -> str:
    """Return what the kernel reports about a process, or "" if the process is gone."""
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(WORDS_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""
