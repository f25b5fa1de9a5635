"""The line that an agent's shell runs for each event: the agent continues whatever happens to Takeback. Pure.

For most agents exit code 2 is a refusal, and Python also ends with 2 if its program is missing. So the line always
ends with 0: a refusal is something that Takeback prints. If Takeback cannot be started or fails, the line reports
that instead: at the first event of a session, and at each event that was read and not answered, since Takeback is
then installed but broken.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

GONE = (
    "Takeback does not work any more: it, or the Python that it was installed for, is gone or broken. Nothing that "
    "is done here is recorded, and none of it can be taken back. Install Takeback again, or take its hooks out of "
    "the settings of this agent."
)
SHELL = ("sh", "-c")
# The words after the script are the message, as $0, and the command itself.
SCRIPT = '{there} && "$@" || case $(cat) in ""|*essionStart*) echo "$0";; esac; exit 0'


def line(agent: str, command: str) -> str:
    """Return a command for one event that never blocks its agent."""
    words = shlex.split(command)
    return shlex.join([*SHELL, SCRIPT.format(there=_there(words)), _said(agent), *words])


def inner(command: str) -> list[str]:
    """Return the words of the command in such a line; for another line, as older versions wrote it, its own words."""
    words = _words(command)
    return words[4:] if is_one(command) else words


def is_one(command: str) -> bool:
    """Return True if the command never blocks its agent."""
    words = _words(command)
    return (*words[:2],) == SHELL and len(words) > 4 and words[2].endswith("; exit 0")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # written by hand, with an open quote
        return [command]


def _there(words: Sequence[str]) -> str:
    """Return tests for the files of the command. Without them the shell and Python would complain at each event."""
    if not words[0].startswith("/"):
        return 'command -v "$1" >/dev/null'
    files = [number for number, word in enumerate(words, 1) if word.startswith("/")]
    return " && ".join(f'[ {"-x" if number == 1 else "-r"} "${number}" ]' for number in files)


def _said(agent: str) -> str:
    """Return the message for the human; with Cursor, which cannot show one, it goes to the agent."""
    return json.dumps({"additional_context" if agent == "cursor" else "systemMessage": GONE})
