"""Writing files of the past below another root: into a view, which shows the present.

Nobody else works there, so nothing has to be compared or rescued. What cannot be written, such as a device or a file
that nobody could read, stays as the view has it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from takeback.core.change import Change
from takeback.ports.content import Contents
from takeback.ports.progress import Progress
from takeback.resources.files.entry import FOLDER, RESTORABLE, FileEntry, entry_of, path_of_target, split
from takeback.resources.files.put_back.staging import create, dress
from takeback.system.beneath import RootFolder

HOLDS_MORE = (errno.ENOTEMPTY, errno.EEXIST)


def fill(place: RootFolder, changes: Iterable[Change], contents: Contents, progress: Progress) -> None:
    """Make these changes below a root: first what goes, the deepest first, then what comes, then the times."""
    goals = {path_of_target(change.target): entry_of(change.after) for change in changes}
    goals = {path: goal for path, goal in goals.items() if goal is None or goal.kind in RESTORABLE}
    try:
        with _times_kept(place, goals):
            for path in sorted(goals, reverse=True):
                _make_way(place, path, goals[path])
            coming = {path: goal for path, goal in sorted(goals.items()) if goal}
            for path in progress("Making the view", coming, len(coming)):
                _make(place, path, coming[path], contents)
            for path, goal in reversed(coming.items()):
                if goal.kind == FOLDER:
                    _dress(place, path, goal)
    finally:
        place.close()


def _make_way(place: RootFolder, path: bytes, goal: FileEntry | None) -> None:
    """Remove what is at a path, unless it is a folder that stays one or holds more than we know."""
    above, name = split(path)
    with suppress(FileNotFoundError, NotADirectoryError), place.folder(above) as folder:
        try:
            if path:
                os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            if goal is None or goal.kind != FOLDER:
                _remove_folder(folder, name)


def _remove_folder(folder: int, name: bytes) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in HOLDS_MORE:
            raise


def _make(place: RootFolder, path: bytes, goal: FileEntry, contents: Contents) -> None:
    above, name = split(path)
    with place.folder(above) as folder:
        if goal.kind != FOLDER:
            create(folder, name, goal, contents, durable=False)
        elif path:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)


def _dress(place: RootFolder, path: bytes, goal: FileEntry) -> None:
    above, name = split(path)
    with place.folder(above) as folder:
        dress(folder, name or b".", goal)


@contextmanager
def _times_kept(place: RootFolder, goals: Mapping[bytes, object]) -> Iterator[None]:
    """Leave the times of the folders that only lose or get entries as they were."""
    times: dict[bytes, int] = {}
    for above in {split(path)[0] for path in goals} - goals.keys():
        with suppress(OSError), place.folder(above) as folder:
            times[above] = os.fstat(folder).st_mtime_ns
    yield
    for above, at_ns in times.items():
        with suppress(FileNotFoundError), place.folder(above) as folder:
            os.utime(folder, ns=(at_ns, at_ns))
