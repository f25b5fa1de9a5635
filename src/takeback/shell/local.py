"""Effects that stay with this session: its own processes, servers on this machine, containers of this folder.

They cannot be taken back either, but no one else loses anything by them: so they are unknown, not irreversible,
unless the rules say otherwise. Where it is not certain that something is of this kind, it is not.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from takeback.shell.options import Given
from takeback.shell.sink import Folders, RunningProcess, Sink
from takeback.shell.words import is_known

# Signals

_SIGNAL = re.compile(r"-(?:\d+|[A-Z][A-Z0-9+-]*)")
_JOB = re.compile(r"%[\w+%?-]*")


def signals_own(words: Sequence[str], running: Sequence[RunningProcess]) -> bool:
    """Return whether `kill` with these words reaches only jobs of its own shell, and the session's own processes."""
    rest = list(words)
    if rest and rest[0] in ("-s", "-n", "--signal"):
        rest = rest[2:]
    elif rest and (_SIGNAL.fullmatch(rest[0]) or rest[0].startswith("--signal=")):
        rest = rest[1:]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    own = {str(one.pid) for one in running if one.own}
    # A minus stands for the group that a process leads.
    return bool(rest) and all(_JOB.fullmatch(word) or word.removeprefix("-") in own for word in rest)


def unnamed(words: Sequence[str]) -> str:
    """Return what to say of a `kill` that finds out only when it runs which processes it signals; else nothing."""
    if all(map(is_known, words)):
        return ""
    return ", and which of them is known only when it runs; a number in its place is judged by itself"


def matches_own(program: str, given: Given, running: Sequence[RunningProcess]) -> bool:
    """Return whether all that `pkill` or `killall` would find are the session's own processes."""
    understood = all(meaning for _, meaning, _ in given.options)
    if not running or not understood or not given.operands or not all(map(is_known, given.operands)):
        return False
    found = [one for one in running if any(_fits(program, word, given, one) for word in given.operands)]
    return all(one.own for one in found)


def _fits(program: str, word: str, given: Given, one: RunningProcess) -> bool:
    if program == "killall":
        return posixpath.basename(word)[:15] == one.name[:15] or word in one.line
    text = one.line if given.has("full") else one.name
    try:
        return re.search(word, text, re.IGNORECASE) is not None
    except re.error:
        return True


# Requests

_LOOPBACK = re.compile(
    r"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|0\.0\.0\.0)(?::\d+)?(?:[/?#][^\s{}\[\]]*)?",
    re.IGNORECASE,
)


def is_loopback(address: str) -> bool:
    """Return whether a request to this address stays on this machine."""
    return is_known(address) and _LOOPBACK.fullmatch(address) is not None


def asks_loopback(given: Given) -> bool:
    """Return whether every address that a command names is one of this machine, and nothing leads it elsewhere."""
    addresses = [*given.operands, *given.values("url")]
    return bool(addresses) and all(map(is_loopback, addresses))


# Containers

COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")


def is_of_project(folder: str, containers: Sequence[str]) -> bool:
    """Return whether, by their names, containers belong to the compose project in this folder."""
    project = re.sub(r"[^a-z0-9_-]", "", posixpath.basename(folder).lower()).lstrip("_-")
    named = re.compile(rf"{re.escape(project)}[-_][\w-]+[-_]\d+")
    return bool(project and containers) and all(named.fullmatch(name) for name in containers)


def stays_here(kind: str, words: Sequence[str], given: Given, folders: Folders, sink: Sink) -> bool:
    """Return whether an effect that a rule calls irreversible stays with this session, by the test the rule names."""
    if given.has("beyond"):
        return False
    match kind:
        case "signal":
            return signals_own(words[1:], sink.running())
        case "match":
            return matches_own(posixpath.basename(words[0]), given, sink.running())
        case "loopback":
            return asks_loopback(given)
        case "compose":
            return bool(sink.folder_with(COMPOSE, folders))
        case "container":
            found = sink.folder_with(COMPOSE, folders)
            return bool(found) and is_of_project(found, given.operands)
        case _:
            return False


def more_of(kind: str, words: Sequence[str]) -> str:
    """Return what else to report about a command that does not stay with this session."""
    return unnamed(words) if kind == "signal" else ""
