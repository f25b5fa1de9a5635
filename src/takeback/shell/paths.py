"""Where a path leads, by its words: into the workspace, out of it, or to an unknown place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from takeback.shell.judgement import Reach, Touched
from takeback.shell.sink import RunningProcess
from takeback.shell.words import HERE, HOLE, HOME, WILD

_NOTHING = re.compile(r"/dev/(?:null|zero|full|tty|std(?:in|out|err)|fd/\d+)|/proc/self/fd/\d+")
_MACHINE = re.compile(r"/(?:dev|proc|sys)(?:/.*)?")
_SHARED_MEMORY = "/dev/shm/"


class PathContext(msgspec.Struct, frozen=True):
    """The context in which paths are read. All its paths are absolute."""

    root: str
    home: str
    real: Callable[[str], str] | None = None
    """Where a path really leads, links followed. Without it a path is judged by its words alone."""
    read: Callable[[str], str | None] | None = None
    """The text of a file, or how it begins if it is long; None where it is none. Without it no script is read."""
    exists: Callable[[str], bool] | None = None
    """Whether there is something at a path."""
    running: Callable[[], Sequence[RunningProcess]] | None = None
    """The processes of this machine."""


def place(ground: PathContext, word: str, folder: str | None, *, deletes: bool = False) -> Touched | None:
    """Return the path that a word means in this folder; None if writing there does nothing."""
    exact, names = True, None
    if word.startswith(HERE) and folder is not None:
        word = folder + word[1:]
    if word.startswith((HOME, "~/")) or word == "~":
        word = ground.home + word[1:]
    elif word.startswith("~"):
        word = f"/{word}"  # another user's home: wherever it is, it is outside
    cut = re.search(f"[{HOLE}{WILD}{HOME}{HERE}]", word)
    if cut:
        known, rest = word[: cut.start()], word[cut.start() :]
        if cut[0] != WILD or HOLE in rest or HOME in rest or ".." in rest.split("/"):
            return Touched(shown(word), Reach.UNKNOWN, exact=False, deletes=deletes)
        folder_end = known.rfind("/") + 1
        word, names, exact = known[:folder_end] or ".", known[folder_end:], False
    if not word.startswith("/"):
        if folder is None:
            return Touched(shown(word), Reach.UNKNOWN, exact=False, deletes=deletes)
        word = f"{folder}/{word}"
    path = normal(word)
    if _NOTHING.fullmatch(path):
        return None
    # Not the normal form is followed: behind a link, `..` leads elsewhere than its words say.
    really = path if ground.real is None else normal(ground.real(word))
    reach = _reach(ground, (path, really))
    elsewhere = really if really != path else ""
    return Touched(path, reach, exact=exact, deletes=deletes, really=elsewhere, names=names)


def _reach(ground: PathContext, places: tuple[str, ...]) -> Reach:
    for at in places:
        if _MACHINE.fullmatch(at) and not at.startswith(_SHARED_MEMORY):
            return Reach.IRREVERSIBLE
    return Reach.RESTORABLE if all(below(at, ground.root) for at in places) else Reach.OUTSIDE


def normal(path: str) -> str:
    """Return an absolute path with `.` and `..` resolved by its words."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def below(path: str, root: str) -> bool:
    top = normal(root)
    return path == top or path.startswith(top.rstrip("/") + "/")


def shown(word: str) -> str:
    """Return a word as text for people."""
    return word.translate({0: "…", 1: "*", 2: "$HOME", 3: "$PWD"})
