"""What the settings of a repository make git run. They are in the workspace, where an agent can write them."""

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


class RunSetting(msgspec.Struct, frozen=True):
    """A setting that makes git run something."""

    file: str
    line: int
    name: str
    command: str
    """A line of shell."""
    is_yours: bool = False


class Settings(msgspec.Struct, frozen=True):
    runs: tuple[RunSetting, ...]
    hooks: str
    """The folder with the hooks."""
    recurses: bool
    """Whether commands that change the tree go into submodules, too."""


def settings(read: Read, files: Sequence[str], top: str, words: Sequence[str]) -> Settings:
    """Return what the settings of the repository at `top`, in these files, make a git command run."""
    found_in = [one for path in files for one in every(read, path)]
    hooks = [value for _, _, name, value in found_in if name == "core.hookspath"]
    found = [
        RunSetting(path, line, name, command, _fits(name, _YOURS))
        for path, line, name, value in found_in
        if (command := _command(name, value, words))
    ]
    folder = posixpath.normpath(posixpath.join(top, hooks[-1])) if hooks else ""
    recurses = any(name == "submodule.recurse" and value.lower() != "false" for _, _, name, value in found_in)
    return Settings(tuple(found), folder or f"{posixpath.dirname(files[0])}/hooks", recurses)


def _command(name: str, value: str, words: Sequence[str]) -> str:
    """Return what a setting makes git run, as a line of shell; empty if it runs nothing."""
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


def every(read: Read, path: str, left: int = INCLUDED_MAX) -> Iterator[tuple[str, int, str, str]]:
    """Yield every setting in a file and in those that it includes: the file, the line, the name and the value."""
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
                yield from every(read, there, left - 1)


def _plain(value: str) -> str:
    return re.sub(r'\\(.)|"', lambda found: found[1] or "", value.strip())
