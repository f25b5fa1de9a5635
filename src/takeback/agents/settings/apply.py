"""Changing the settings of an agent on the disk: the whole file at once, and only if it is still as it was seen."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from takeback.agents import settings
from takeback.errors import BackendError, TakebackError, UsageError
from takeback.resources.files.put_back.exchange import exchange
from takeback.settings import agent_files

FOLDERS = (".claude", ".codex", ".cursor", ".gemini", ".opencode", "opencode", "plugins")


class Edit(msgspec.Struct, frozen=True):
    """A change of one file that was not made yet. None stands for a file that is not there."""

    path: Path
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """The change, to be shown first; nothing where there is none."""
        old, new = (self.before or "").splitlines(), (self.after or "").splitlines()
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm="")
        return "".join(f"{line}\n" for line in lines)

    @property
    def back(self) -> Edit:
        """The change that takes this one back."""
        return Edit(self.path, self.after, self.before)

    def make(self) -> None:
        """Write it. Raises ConflictError, having changed nothing, if the file is no longer as it was seen."""
        if self.after == self.before:
            return
        try:
            if self.after is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            exchange(self.path, _encoded(self.before), _encoded(self.after))
        except OSError as error:
            raise BackendError(
                f"{self.path} could not be written ({error.strerror}); it is as it was",
                hint="see who may write the file and its folder, then try it again",
            ) from None
        if self.after is None:
            _drop_if_empty(self.path.parent)


def place(agent: str, *, project: Path, home: Path, user: bool) -> Path:
    """The file with the hooks of an agent: where ours are, else where they belong."""
    found = places(agent, project=project, home=home, user=user)
    return next((path for path in found if has_ours(agent, path)), found[0])


def places(agent: str, *, project: Path, home: Path, user: bool) -> list[Path]:
    """Every file that may hold its hooks, first the one in which we put ours. If it is a link, what it leads to."""
    of = settings.layout(agent)
    paths = [agent_files.place(of.agent, home)] if user else [project / name for name in of.in_project]
    return [Path(os.path.realpath(path)) for path in paths]


def everywhere(agent: str, project: Path, home: Path) -> list[Path]:
    """All settings that the agent reads here, the nearest first, each once: a project may be a link to HOME."""
    found = [places(agent, project=project, home=home, user=user) for user in (False, True)]
    return list(dict.fromkeys(path for paths in found for path in paths))


def installing(agent: str, path: Path, command: str = "") -> Edit:
    before = _seen(path)
    with named(path):
        if why := settings.unread(agent, before or ""):
            raise UsageError(f"{why}; nothing was changed", hint="take that out first")
        after = settings.install(agent, before or "", command)
    if before is not None and not before.endswith("\n"):
        # An empty file gets no last line end. So it is known from one that was not there.
        after = after.removesuffix("\n")
    return Edit(path, before, after)


def uninstalling(agent: str, path: Path) -> Edit:
    before = _seen(path)
    if not before:
        return Edit(path, before, before)
    with named(path):
        if not before.endswith("\n") and not settings.uninstall(agent, f"{before}\n"):
            return Edit(path, before, "")
        return Edit(path, before, settings.uninstall(agent, before) or None)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Whoever reads an error about settings wants to know which."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from None


def has_ours(agent: str, path: Path) -> bool:
    """Whether there are hooks of ours. In what cannot be read there are none that would run."""
    try:
        return bool(settings.commands(agent, read(path)))
    except TakebackError:
        return False


def plugins(path: Path) -> dict[str, bool]:
    """Takeback's plugin in a file of Claude Code, and whether it is on. One that cannot be read says nothing."""
    try:
        return settings.plugins(read(path))
    except TakebackError:
        return {}


def switched_off_by(agent: str, paths: Iterable[Path]) -> Path | None:
    """The file that tells the agent to run no hooks. The nearest that says anything decides, so they come first."""
    for path in paths:
        try:
            off = settings.switched_off(agent, read(path))
        except TakebackError:
            continue  # one that cannot be read tells it nothing
        if off is not None:
            return path if off else None
    return None


def read(path: Path) -> str:
    """What is in a file; nothing where there is none."""
    return _seen(path) or ""


def _seen(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8; nothing was changed") from None
    except OSError as error:
        raise BackendError(f"{path} could not be read ({error.strerror}); nothing was changed") from None


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _drop_if_empty(folder: Path) -> None:
    """Folders of an agent that held nothing but our file go with it."""
    while folder.name in FOLDERS:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
