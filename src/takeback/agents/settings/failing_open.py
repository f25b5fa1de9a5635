"""The line that an agent's shell runs for each event: the agent goes on whatever becomes of Takeback. Pure.

To most agents exit code 2 is a refusal, and it is also how Python ends where its program is missing. So the line
ends with 0 in any case: a refusal is something that Takeback says. Where it cannot be started, or ends badly, the
line says so in its place: at the first event of a session, and at each event that was taken and not answered, for
then Takeback is there and broken.
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
# The words after the script are what is said, as $0, and the command itself.
SCRIPT = '{there} && "$@" || case $(cat) in ""|*essionStart*) echo "$0";; esac; exit 0'


def line(agent: str, command: str) -> str:
    """A command for one event, such that its agent goes on without it."""
    words = shlex.split(command)
    return shlex.join([*SHELL, SCRIPT.format(there=_there(words)), _said(agent), *words])


def inner(command: str) -> list[str]:
    """The words of the command in such a line; of another one, as older versions wrote them, its own."""
    words = _words(command)
    return words[4:] if is_one(command) else words


def is_one(command: str) -> bool:
    """Whether an agent goes on without this command."""
    words = _words(command)
    return (*words[:2],) == SHELL and len(words) > 4 and words[2].endswith("; exit 0")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # somebody wrote it by hand, and left a quote open
        return [command]


def _there(words: Sequence[str]) -> str:
    """Tests for what the command is made of. Without them a shell and Python would complain at each event."""
    if not words[0].startswith("/"):
        return 'command -v "$1" >/dev/null'
    files = [number for number, word in enumerate(words, 1) if word.startswith("/")]
    return " && ".join(f'[ {"-x" if number == 1 else "-r"} "${number}" ]' for number in files)


def _said(agent: str) -> str:
    """What the human hears; Cursor has no place for that, so its agent hears it."""
    return json.dumps({"additional_context" if agent == "cursor" else "systemMessage": GONE})
