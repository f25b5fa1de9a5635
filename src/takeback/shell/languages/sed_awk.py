"""Small scripts of sed and awk: whether they only change what passes through."""

from __future__ import annotations

import re

from takeback.shell.words import is_known

_ADDRESS = re.compile(
    r"\s*(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*)?(?:\s*,\s*(?:[+~]?\d+|\$|/(?:[^/\\\n]|\\.)*/[IM]*))?\s*!?\s*"
)
_TO_END = re.compile(r"[^\n]*")
_LABEL = re.compile(r"[:btT]\s*\w*")
_LETTER = re.compile(r"[pdPDqQ=nNhHgGxlz{}]\s*\d*")
_FLAGS = re.compile(r"[gpiImM0-9]*")


def is_plain_sed(script: str) -> bool:
    """Return whether a script neither writes files nor runs anything. False for a script that is not understood."""
    if not is_known(script):
        return False
    at = 0
    while at < len(script):
        if script[at] in " \t\n;":
            at += 1
            continue
        address = _ADDRESS.match(script, at)
        at = address.end() if address else at
        end = _command(script, at)
        if end is None or (
            end < len(script) and script[end] not in " \t\n;}" and script[end - 1] not in "{}"
        ):
            return False
        at = end
    return True


def _command(script: str, at: int) -> int | None:
    """Return where the command at this place ends, if it is a plain one."""
    letter = script[at : at + 1]
    if letter in ("s", "y") and at + 1 < len(script) and script[at + 1] not in "\\\n":
        return _substitution(script, at)
    if letter and letter in "aicr#":
        pattern = _TO_END  # a text, or a file that is only read
    else:
        pattern = _LABEL if letter and letter in ":btT" else _LETTER
    match = pattern.match(script, at)
    return match.end() if match else None


def _substitution(script: str, at: int) -> int | None:
    delimiter, left = script[at + 1], 2
    place = at + 2
    while place < len(script) and left:
        if script[place] == "\\":
            place += 1
        elif script[place] == delimiter:
            left -= 1
        place += 1
    flags = _FLAGS.match(script, place)
    return flags.end() if flags and not left else None


def commands_of_sed(script: str) -> list[str]:
    """Return what a script may run: by `e`, or as the text of a substitution with that flag."""
    found = re.findall(r"(?:^|[\s;{}\d$/!])e\s+([^\n]+)", script)
    for match in re.finditer(r"s([^\w\s\\])((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)\1\w*e", script):
        found.append(match[3])
    return found


def files_of_sed(script: str) -> list[str]:
    """Return the files that a script may write."""
    return re.findall(r"(?:^|[\s;{}\d$/!|gpI])[wW]\s+([^\n;}]+)", script)


def is_plain_awk(program: str) -> bool:
    """Return whether a program cannot reach a file or another program. A comparison with > counts as writing."""
    return is_known(program) and not re.search(r"system|[|>@]|getline|close|fflush|extension", program)
