"""The folder of a view, in the state of its workspace: a home of Takeback of its own, and what was changed.

    <state>/stages/<name>
        home/stage.json        what the view is
        home/layers/<n>/upper  what was changed in one folder, and `work` for the kernel
        home/workspaces/…      the state of the workspace as the view has it: journal and content
        tree/<folder>          the copy, where there are no overlays, and `tmp` beside it

Inside the view this home is in the place of Takeback's own, so whatever runs there records in it.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from takeback.core.codec import path_of
from takeback.engine.stage.card import CARD, FORMAT, StageCard
from takeback.engine.stage.deleting import delete, refuse_mounts
from takeback.errors import BackendError, CorruptionError, FormatTooNew, RunBusy, UsageError
from takeback.system import crash_points, durable
from takeback.system.namespaces import Isolation, Layer
from takeback.system.private_files import private_folder, write_whole

STAGES = "stages"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MADE_UP = re.compile(r"t([1-9][0-9]*)")

NAMED = crash_points.crash_point("stage-named")
ASIDE = crash_points.crash_point("stage-aside")


USED = "used"
"""The file that whoever uses a view has locked."""
WAIT_S = 10.0
_POLL_S = 0.02

LEADING = "leading"
"""A file in a copy that has its place and does not show its moment yet: for others there is no such view."""


class StageFolder:
    """The folder of one view."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = path / "home"

    @property
    def card(self) -> StageCard:
        try:
            card = msgspec.json.decode((self.home / CARD).read_bytes(), type=StageCard)
        except msgspec.DecodeError as error:
            raise CorruptionError(
                f"{self.home / CARD} is damaged: {error}; nothing was changed",
                hint=f"`takeback stage drop {self.path.name}` removes the view",
            ) from error
        except FileNotFoundError as error:
            if not self.path.exists():
                raise self._missing() from None
            raise CorruptionError(
                f"{self.home / CARD} is missing; nothing was changed",
                hint=f"`takeback stage drop {self.path.name}` removes the view",
            ) from error
        except OSError as error:
            raise BackendError(f"{self.home / CARD} cannot be read: {error.strerror}") from error
        if card.format > FORMAT:
            raise FormatTooNew(
                f"{self.path} was written by a newer Takeback (format {card.format}); nothing was changed",
                hint="upgrade Takeback",
            )
        return card

    def write(self, card: StageCard) -> None:
        write_whole(self.home / CARD, msgspec.json.encode(card) + b"\n")

    def layer(self, number: int) -> tuple[Path, Path]:
        """Return the upper layer of a folder, and what the kernel needs beside it."""
        layer = self.home / "layers" / str(number)
        return layer / "upper", layer / "work"

    def isolation(self, card: StageCard, network: str = "") -> Isolation:
        """Return what a command in the view sees."""
        places = [*card.layers, *([card.kept] if card.kept else [])]
        layers = []
        for number, place in enumerate(places):
            upper, work = self.layer(number)
            layers.append(Layer(os.fsdecode(path_of(place)), str(upper), str(work)))
        return Isolation(
            tuple(layers),
            ((str(self.home), os.fsdecode(path_of(card.home))),),
            network=network or card.network,
            as_root=card.as_root,
        )

    def bytes_used(self) -> int:
        """Return how much space the view takes: what it shares with its workspace is not counted."""
        total = 0
        for here, _, names in os.walk(self.path):
            for name in names:
                try:
                    found = os.lstat(os.path.join(here, name))
                except OSError:
                    continue
                total += found.st_blocks * 512 if found.st_nlink == 1 else 0
        return total

    @contextmanager
    def used(self, *, alone: bool = False) -> Iterator[None]:
        """Use the view, with others or alone: whoever accepts or removes it must see all that is in it.

        The lock is the kernel's, and so is gone with the process and with those that it forked. Raise RunBusy if
        others go on using the view, UsageError if it was removed meanwhile.
        """
        try:
            fd = os.open(self.path / USED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise self._missing() from None
        try:
            if alone:
                self._wait(fd)
            else:
                fcntl.flock(fd, fcntl.LOCK_SH)
            if not self._is_still(fd):
                raise self._missing()
            yield
        finally:
            os.close(fd)

    def _is_still(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self.path / USED))
        except FileNotFoundError:
            return False

    def _wait(self, fd: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunBusy(
                        f"the view {self.path.name} is in use by another process; it is as it was",
                        hint="wait until that has ended, and try again",
                    ) from None
            time.sleep(_POLL_S)

    def _missing(self) -> UsageError:
        return UsageError(
            f"there is no view {self.path.name!r} any more; nothing was done",
            hint="`takeback stage list` lists the views",
        )

    def remove(self) -> None:
        """Remove the view: at once out of sight, then for good. Raise BackendError if something is mounted in it."""
        refuse_mounts(self.path)
        aside = self.path.with_name(f".gone-{self.path.name}-{os.getpid()}")
        os.rename(self.path, aside)
        durable.sync_folder(aside.parent)
        crash_points.reach(ASIDE)
        delete(aside)


class StageFolders:
    """The views of one workspace."""

    def __init__(self, state: Path) -> None:
        self.path = state / STAGES

    def __iter__(self) -> Iterator[StageFolder]:
        for name in self.names():
            yield StageFolder(self.path / name)

    def names(self) -> list[str]:
        """Return the names of all views, in the order in which they were made up, or of the alphabet."""
        try:
            found = [name for name in os.listdir(self.path) if not self._is_incomplete(name)]
        except FileNotFoundError:
            return []
        return sorted(found, key=lambda name: (_number(name), name))

    def find(self, name: str) -> StageFolder:
        if name not in self.names():
            known = ", ".join(self.names())
            raise UsageError(
                f"there is no view {name!r}; nothing was done",
                hint=f"there are: {known}" if known else "`takeback stage new` makes one",
            )
        return StageFolder(self.path / name)

    def chosen(self, name: str) -> str:
        """Return the name for a new view, or one that is made up. Raise UsageError if it is taken."""
        if name and not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a view; nothing was made",
                hint="use letters, digits, dots, dashes and underscores, at most 64; begin with a letter or digit",
            )
        if name in self.names():
            raise UsageError(
                f"there is a view {name!r} already; nothing was made",
                hint=f"choose another name, or `takeback stage drop {name}` first",
            )
        return name or f"t{max([0, *map(_number, self.names())]) + 1}"

    def begin(self, name: str) -> StageFolder:
        """Return a folder to prepare a view in, which nobody sees yet."""
        private_folder(self.path)
        path = self.path / f".new-{name}-{os.getpid()}"
        if path.exists():
            delete(path)
        path.mkdir(mode=0o700)
        (path / "home").mkdir(mode=0o700)
        return StageFolder(path)

    def publish(self, prepared: StageFolder, name: str) -> StageFolder:
        """Give a prepared view its name: from here on it exists. Raise UsageError if somebody else was faster."""
        self.chosen(name)
        os.rename(prepared.path, self.path / name)
        durable.sync_folder(self.path)
        crash_points.reach(NAMED)
        return StageFolder(self.path / name)

    def _is_incomplete(self, name: str) -> bool:
        return name.startswith(".") or os.path.lexists(self.path / name / LEADING)

    def tidy(self) -> list[str]:
        """Remove what a crash left of views that were not complete, or about to go. Call it under the lock.

        Return what to say about those that cannot be removed.
        """
        try:
            left = [name for name in os.listdir(self.path) if self._is_incomplete(name)]
        except FileNotFoundError:
            return []
        said = []
        for name in left:
            try:
                delete(self.path / name)
            except BackendError as error:  # it takes space, and stands in nobody's way
                said.append(f"{error.message}; {error.hint}")
        return said


def _number(name: str) -> int:
    found = _MADE_UP.fullmatch(name)
    return int(found[1]) if found else 0
