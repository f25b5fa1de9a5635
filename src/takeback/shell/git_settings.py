"""What the settings of a repository have git run. They lie in the workspace, where an agent can write them."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

INCLUDED_MAX = 5
OF_EVERY_INDEX = "post-index-change"
"""The hook that runs whenever the index is written, also by a command that only looks."""
_RUN = (
    *("core.fsmonitor", "core.sshcommand", "core.gitproxy", "core.askpass", "core.alternaterefscommand"),
    *("diff.external", "diff.*.command", "diff.*.textconv", "interactive.difffilter", "merge.*.driver"),
    *("filter.*.clean", "filter.*.smudge", "filter.*.process", "gpg.program", "gpg.*.program"),
    *("trailer.*.command", "trailer.*.cmd", "difftool.*.cmd", "mergetool.*.cmd", "tar.*.command"),
    *("remote.*.uploadpack", "remote.*.receivepack", "uploadpack.packobjectshook", "gc.recentobjectshook"),
)
_YOURS = (
    "core.editor",
    "sequence.editor",
    "core.pager",
    "pager.*",
    "credential.helper",
    "credential.*.helper",
)
"""What runs on a terminal, or is asked for a password: its user's, unless it does what cannot be taken back."""
_HARMLESS = re.compile(r"(?:true|false|yes|no|on|off|[01])?|git[- ]lfs\s.*", re.IGNORECASE)
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*(.*)")

Read = Callable[[str], str | None]
"""The text of a file of the workspace."""


class Runs(msgspec.Struct, frozen=True):
    """A setting that has git run something."""

    file: str
    line: int
    name: str
    command: str
    """A line of shell."""
    is_yours: bool = False


class Settings(msgspec.Struct, frozen=True):
    runs: tuple[Runs, ...]
    hooks: str
    """The folder with the hooks."""


def settings(read: Read, root: str, words: Sequence[str]) -> Settings:
    """What the settings of the repository at `root` have a command of git run."""
    every = list(_every(read, f"{root}/.git/config", INCLUDED_MAX))
    hooks = [value for _, _, name, value in every if name == "core.hookspath"]
    found = [
        Runs(path, line, name, command, _fits(name, _YOURS))
        for path, line, name, value in every
        if (command := _command(name, value, words))
    ]
    folder = posixpath.normpath(posixpath.join(root, hooks[-1])) if hooks else f"{root}/.git/hooks"
    return Settings(tuple(found), folder)


def _command(name: str, value: str, words: Sequence[str]) -> str:
    """What a setting has git run, as a line of shell; empty where it runs nothing."""
    if name.startswith("alias."):
        line = value[1:] if value.startswith("!") else f"git {value}"
        return line if name.removeprefix("alias.") in map(str.lower, words[1:]) else ""
    if name.endswith(".url") and value.startswith("ext::"):
        return value.removeprefix("ext::")
    if name.endswith(".helper"):
        return value[1:] if value.startswith("!") else value if value.startswith("/") else ""
    return value if _fits(name, (*_RUN, *_YOURS)) and not _HARMLESS.fullmatch(value) else ""


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _every(read: Read, path: str, left: int) -> Iterator[tuple[str, int, str, str]]:
    """Every setting in a file and in those of the workspace that it includes."""
    text, section = read(path) or "", ""
    for number, line in enumerate(text.split("\n"), 1):
        head = _SECTION.match(line)
        if head:
            section = ".".join(filter(None, (head[1].lower(), head[2])))
        if found := _SETTING.match(line, head.end() if head else 0):
            name, value = f"{section}.{found[1].lower()}", _plain(found[2])
            yield path, number, name, value
            if name.startswith("include") and name.endswith(".path") and left:
                there = posixpath.normpath(posixpath.join(posixpath.dirname(path), value))
                yield from _every(read, there, left - 1)


def _plain(value: str) -> str:
    return re.sub(r'\\(.)|"', lambda found: found[1] or "", value.strip())
