"""Which repositories of the workspace a command of git works in: the one around its folder, with its submodules."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from takeback.shell import git_settings
from takeback.shell.paths import PathContext, below, normal, place
from takeback.shell.sink import Folders

SUBMODULES_MAX = 64
"""Of one command, with the submodules of submodules."""
_STEERS = re.compile(r"(?:.*/)?\.git(?:/(?:.*/)?(?:config(?:\.worktree)?|commondir|gitdir|hooks/.*))?")
_BARE = re.compile(r"(.*)/(?:config|hooks/.*)")

Read = Callable[[str], str | None]


class Repository(msgspec.Struct, frozen=True):
    """A repository of git, by its folders."""

    top: str
    """Where its hooks run."""
    own: str
    """The folder of git's own files; a second tree of a repository has one for itself."""
    common: str
    """The folder with the settings and the hooks."""
    is_submodule: bool = False
    """Whether git goes into it from the repository around it."""


def steers_git(ground: PathContext, path: str) -> bool:
    """Return whether writing there may change what git runs, in any repository of the workspace."""
    if not below(path, ground.root) or path == ground.root:
        return False
    if _STEERS.fullmatch(path[len(normal(ground.root).rstrip("/")) + 1 :]):
        return True
    bare = _BARE.fullmatch(path)
    return bare is not None and _is_bare(ground, bare[1])


def around(ground: PathContext, read: Read, folders: Folders) -> list[Repository]:
    """Return the repositories of these folders; for a folder that is unknown or elsewhere, that of the root."""
    found = [_nearest(ground, read, at) for folder in folders for at in _readings(ground, folder)]
    return list(dict.fromkeys(found))


def given(ground: PathContext, read: Read, words: Iterable[tuple[str, Folders]]) -> list[Repository]:
    """Return the repositories whose folders an option names."""
    found = (place(ground, word, folder) for word, folders in words for folder in folders)
    return [_at(read, at.path, at.path) for at in found if at is not None]


def submodules(ground: PathContext, read: Read, tops: Sequence[Repository]) -> Iterator[Repository]:
    """Yield the submodules that lie in these repositories, each once, and those in them."""
    seen, open_ = {one.top for one in tops}, list(tops)
    while open_ and ground.exists:
        outer = open_.pop(0)
        for _, _, name, value in git_settings.every(read, f"{outer.top}/.gitmodules"):
            top = normal(posixpath.join(outer.top, value))
            if not name.endswith(".path") or top in seen or not below(top, outer.top):
                continue
            seen.add(top)
            if ground.exists(f"{top}/.git"):
                found = msgspec.structs.replace(_at(read, top, f"{top}/.git"), is_submodule=True)
                open_.append(found)
                yield found


def _readings(ground: PathContext, folder: str | None) -> list[str]:
    """Return a folder by its words, and where that really is: git looks there."""
    if folder is None:
        return [ground.root]
    return list(dict.fromkeys((folder, normal(ground.real(folder)) if ground.real else folder)))


def _nearest(ground: PathContext, read: Read, folder: str) -> Repository:
    at = folder
    while ground.exists and below(at, ground.root) and at != ground.root:
        if ground.exists(f"{at}/.git"):
            return _at(read, at, f"{at}/.git")
        if _is_bare(ground, at):
            return Repository(at, at, at)
        at = at.rpartition("/")[0]
    return _at(read, ground.root, f"{ground.root}/.git")


def _at(read: Read, top: str, git: str) -> Repository:
    """Return the repository of a `.git`, which may be a file that says where the folder is."""
    own, common = git, ""
    if said := re.match(r"gitdir:\s*(\S.*)", read(git) or ""):
        own = normal(posixpath.join(posixpath.dirname(git), said[1].strip()))
    if said := re.match(r"\s*(\S.*)", read(f"{own}/commondir") or ""):
        common = normal(posixpath.join(own, said[1].strip()))
    return Repository(top, own, common or own)


def _is_bare(ground: PathContext, folder: str) -> bool:
    exists = ground.exists
    return exists is not None and all(exists(f"{folder}/{name}") for name in ("HEAD", "objects", "refs"))
