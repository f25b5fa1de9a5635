"""Changing an agent's settings on disk: the whole file at once, and only if it has not changed since it was read."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from takeback.agents import settings
from takeback.errors import BackendError, TakebackError, UsageError
from takeback.settings import agent_files
from takeback.system.exchange import exchange

FOLDERS = (".claude", ".codex", ".cursor", ".gemini", ".opencode", "opencode", "plugins")


class Edit(msgspec.Struct, frozen=True):
    """A planned change of one file. None stands for a missing file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """The change, to be shown first; empty if there is none."""
        old, new = (self.before or "").splitlines(), (self.after or "").splitlines()
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm="")
        return "".join(f"{line}\n" for line in lines)

    @property
    def back(self) -> Edit:
        """The change that takes this one back."""
        return Edit(self.path, self.after, self.before)

    def make(self) -> None:
        """Write the change. Raise ConflictError, with nothing changed, if the file has changed since it was read."""
        if self.after == self.before:
            return
        try:
            if self.after is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            exchange(self.path, _encoded(self.before), _encoded(self.after))
        except OSError as error:
            raise BackendError(
                f"{self.path} could not be written ({error.strerror}); it is unchanged",
                hint="check the permissions of the file and its folder, then try again",
            ) from None
        if self.after is None:
            _drop_if_empty(self.path.parent)


def place(agent: str, *, project: Path, home: Path, user: bool) -> Path:
    """Return the file with an agent's hooks: where ours are, or else where they belong."""
    found = places(agent, project=project, home=home, user=user)
    return next((path for path in found if has_ours(agent, path)), found[0])


def places(agent: str, *, project: Path, home: Path, user: bool) -> list[Path]:
    """Return every file that may have its hooks, first the one for ours. Links are followed."""
    of = settings.layout(agent)
    paths = [agent_files.place(of.agent, home)] if user else [project / name for name in of.in_project]
    return [Path(os.path.realpath(path)) for path in paths]


def everywhere(agent: str, project: Path, home: Path) -> list[Path]:
    """Return all settings that the agent reads here, the nearest first, each once: a project may be a link to
    HOME."""
    found = [places(agent, project=project, home=home, user=user) for user in (False, True)]
    return list(dict.fromkeys(path for paths in found for path in paths))


def installing(agent: str, path: Path, command: str = "") -> Edit:
    before = _seen(path)
    with named(path):
        if why := settings.unread(agent, before or ""):
            raise UsageError(f"{why}; nothing was changed", hint="remove that first")
        after = settings.install(agent, before or "", command)
    if before is not None and not before.endswith("\n"):
        # An empty file gets no final line end. That tells it from a file that did not exist.
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
    """Add the path to errors about settings."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from None


def has_ours(agent: str, path: Path) -> bool:
    """Return True if the file has our hooks. An unreadable file has none that would run."""
    try:
        return bool(settings.commands(agent, read(path)))
    except TakebackError:
        return False


def plugins(path: Path) -> dict[str, bool]:
    """Return Takeback's plugins in a file of Claude Code, and whether each is on; none if it cannot be read."""
    try:
        return settings.plugins(read(path))
    except TakebackError:
        return {}


def switched_off_by(agent: str, paths: Iterable[Path]) -> Path | None:
    """Return the file that tells the agent to run no hooks. The first path that decides counts, so pass the nearest
    first."""
    for path in paths:
        try:
            off = settings.switched_off(agent, read(path))
        except TakebackError:
            continue  # an unreadable file decides nothing
        if off is not None:
            return path if off else None
    return None


def read(path: Path) -> str:
    """Return the text of a file, or "" if it is missing."""
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
    """Remove the agent's folders that contained only our file."""
    while folder.name in FOLDERS:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
