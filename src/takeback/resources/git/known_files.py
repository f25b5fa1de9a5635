"""Which files git tracks or ignores, and which are generated: asked of its files, never of git.

The cost depends on what changed: a `.gitignore` is read for each folder with changes, unless the folder is ignored.
The index is searched only for names that are ignored or look generated: `git add --force` tracks them all the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from takeback.core.change import IN_ROOT, Change, Target, Version
from takeback.core.codec import path_of
from takeback.core.listing import ListPlace, Rank, is_folder, place_of
from takeback.resources.git import entry
from takeback.resources.git.format import ignore_file, index_file, place
from takeback.resources.git.format.ignore_file import IgnoreRule
from takeback.resources.git.put_back.index_merge import hash_of

NAME = b".gitignore"
IGNORE_BYTES_MAX = 1 << 20
SEARCHED_MAX = 64
"""Above so many names, the index is read once instead of being searched for each."""

_GENERATED_FOLDER = re.compile(
    r"node_modules|bower_components|__pycache__|\.venv|venv|\.tox|\.nox|\.eggs|[^/]+\.egg-info|\.mypy_cache"
    r"|\.pytest_cache|\.ruff_cache|\.hypothesis|\.ipynb_checkpoints|\.next|\.nuxt|\.svelte-kit|\.parcel-cache"
    r"|\.turbo|\.gradle|\.terraform|\.dart_tool|htmlcov|\.nyc_output|\.cache"
)
_GENERATED_FILE = re.compile(r".*\.(?:pyc|pyo|o|obj|class|swp|log)|\.DS_Store|Thumbs\.db|\.coverage")


class KnownFiles:
    """Knows what kind of file a path of one workspace is."""

    def __init__(
        self, root: Path, text: Callable[[Version], bytes | None], content: Callable[[Version], bytes | None]
    ) -> None:
        """`text` returns the text of a recorded version of a file, `content` that of a version of git's index."""
        self._root = os.fsencode(root)
        self._text = text
        self._content = content

    def places(self, changes: Iterable[Change]) -> dict[Target, ListPlace]:
        """Return how much each change matters."""
        every = list(changes)
        ignores = _Ignores(self._root, self._recorded(every))
        found = {change.target: place_of(change.target) for change in every}
        doubted: dict[Target, ListPlace] = {}
        for change in every:
            target = change.target
            if target.resource not in IN_ROOT or target.root:
                continue
            judged = ignores.judge(target.name, is_folder=is_folder(change))
            if judged and target.resource == "sqlite" and not _is_named(judged.home):
                continue  # a database in an ignored folder is nobody's build product
            if judged:
                doubted[target] = judged
        tracked = self._tracked(every, {place.home or t.name for t, place in doubted.items()})
        return found | {
            target: judged
            for target, judged in doubted.items()
            if not tracked or path_of(target.name) not in tracked
        }

    def _recorded(self, changes: Sequence[Change]) -> Mapping[bytes, Callable[[], bytes | None]]:
        """Return how to read the `.gitignore` files that changed, as they were before."""
        return {
            path_of(change.target.name): partial(self._text, change.before or change.after)
            for change in changes
            if change.target.resource == "files" and path_of(change.target.name).rpartition(b"/")[2] == NAME
        }

    def _tracked(self, changes: Iterable[Change], names: set[str]) -> set[bytes]:
        """Return the tracked paths, before or after these changes; nothing if none can be at or below these names."""
        tracked: set[bytes] = set()
        wanted = [path_of(name) for name in names]
        if not wanted:
            return tracked
        for data in (*self._indexes(), *self._changed_indexes(changes)):
            is_compressed = data[7:8] == b"\x04"
            if not is_compressed and len(wanted) <= SEARCHED_MAX and not any(one in data for one in wanted):
                continue
            with suppress(index_file.NotAnIndex):
                tracked.update(staged.name for staged in index_file.read(data, hash_of(data)).entries)
        return tracked

    def _indexes(self) -> Iterator[bytes]:
        """Yield the index as it is, with the file that a split one shares."""
        folder = self._git_folder()
        with suppress(OSError):
            names = [
                name for name in os.listdir(folder) if name == b"index" or name.startswith(b"sharedindex.")
            ]
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    yield file.read()

    def _git_folder(self) -> bytes:
        """Return the folder of this worktree's index."""
        link = os.path.join(self._root, place.LINK)
        with suppress(OSError), open(link, "rb") as file:
            text = file.read(4096)
            return os.path.join(self._root, text.removeprefix(b"gitdir:").strip())
        return link

    def _changed_indexes(self, changes: Iterable[Change]) -> Iterator[bytes]:
        for change in changes:
            if change.target.resource == "git":
                versions = [v for v in (change.before, change.after) if entry.kind_of(v) == entry.INDEX]
                yield from filter(None, map(self._content, versions))


class _Ignores:
    """The rules of all `.gitignore` files on the way to the paths that are judged."""

    def __init__(self, root: bytes, recorded: Mapping[bytes, Callable[[], bytes | None]]) -> None:
        self._root = root
        self._recorded = recorded
        self._rules: dict[bytes, list[IgnoreRule]] = {}
        self._folders: dict[str, ListPlace | None] = {"": None}
        self._exclude = self._read(os.path.join(root, place.LINK, b"info", b"exclude"))

    def judge(self, name: str, *, is_folder: bool) -> ListPlace | None:
        """Return the place of something ignored or generated, or None if it is neither."""
        if is_folder:
            return self._folder(name)
        above, _, last = name.rpartition("/")
        if home := self._folder(above):
            return home
        if _GENERATED_FILE.fullmatch(last):
            return ListPlace(Rank.GENERATED)
        return ListPlace(Rank.IGNORED) if self._is_ignored(path_of(name), is_folder=False) else None

    def _folder(self, name: str) -> ListPlace | None:
        if name in self._folders:
            return self._folders[name]
        above, _, last = name.rpartition("/")
        found = self._folder(above)
        if not found and (
            _GENERATED_FOLDER.fullmatch(last) or self._is_ignored(path_of(name), is_folder=True)
        ):
            found = ListPlace(Rank.GENERATED, name)
        self._folders[name] = found
        return found

    def _is_ignored(self, path: bytes, *, is_folder: bool) -> bool:
        """Return whether a path is ignored; nothing above it is. The nearest file that mentions it decides."""
        folder = path
        while folder:
            folder = folder.rpartition(b"/")[0]
            below = path[len(folder) + 1 :] if folder else path
            said = ignore_file.decision(self._rules_in(folder), below, is_folder=is_folder)
            if said is not None:
                return said
        return bool(ignore_file.decision(self._exclude, path, is_folder=is_folder))

    def _rules_in(self, folder: bytes) -> list[IgnoreRule]:
        rules = self._rules.get(folder)
        if rules is None:
            name = folder + b"/" + NAME if folder else NAME
            if name in self._recorded:
                rules = ignore_file.read(self._recorded[name]() or b"")
            else:
                rules = self._read(os.path.join(self._root, name))
            self._rules[folder] = rules
        return rules

    def _read(self, path: bytes) -> list[IgnoreRule]:
        # Without following a link: git does not either.
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                return ignore_file.read(file.read(IGNORE_BYTES_MAX))
        except OSError:
            return []


def _is_named(home: str) -> bool:
    return bool(_GENERATED_FOLDER.fullmatch(home.rpartition("/")[2]))
