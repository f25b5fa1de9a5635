"""The past of a workspace: any moment of it, the workspace as it was then, and the life of each file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from takeback.core.change import ABSENT, OUTSIDE, Change, Target, Version
from takeback.core.codec import path_of, text_of
from takeback.core.entities import Checkpoint, RecordedAction
from takeback.core.events import Mark
from takeback.core.moments import Moment
from takeback.engine.describe.diff import Diff
from takeback.engine.past.file_life import BlamedLine, FileLives, FileVersion
from takeback.engine.rollback.paths import AtPaths, path_filter, relative
from takeback.engine.rollback.restore import refuse_pruned
from takeback.errors import ConflictError, UsageError
from takeback.system.beneath import FILE_FLAGS, RootFolder
from takeback.workspace.comparison import Comparison

if TYPE_CHECKING:
    from takeback.workspace.past.bisect import Bisection, BisectListener
    from takeback.workspace.workspace import Workspace

__all__ = ["BlamedLine", "FileVersion", "Past", "PastFile", "SeenMoment"]

FILES, SQLITE = "files", "sqlite"
BLAMED_BYTES_MAX = 16 << 20


class SeenMoment(msgspec.Struct, frozen=True):
    """A moment, with what was seen then."""

    moment: Moment
    marks: tuple[Mark, ...]
    at_us: int
    """When that was seen."""


class PastFile(msgspec.Struct, frozen=True):
    """One file as it was at a moment."""

    moment: Moment
    target: Target
    version: Version


class Past:
    """Questions about the past of one workspace. Nothing here changes or records anything."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._parts = workspace.parts

    # Moments

    def is_moment(self, text: str) -> bool:
        """Return whether a text has the form of a moment: an id, `before a4`, a time, `last-clean`."""
        return self._parts.moments.is_spoken(text)

    def split(self, text: str) -> tuple[str, str]:
        """Split `MOMENT:FILE`; without a file the second part is empty."""
        return self._parts.moments.split(text)

    def moment(self, named: str | Checkpoint) -> Moment:
        """Return the moment that a person names. Raise UsageError if there is none."""
        return self._parts.moments.find(named.id if isinstance(named, Checkpoint) else named)

    def seen(self, moment: Moment) -> SeenMoment:
        """Return what was seen at a moment. Raise ConflictError if that was pruned or compacted."""
        marks, at_us = self._parts.moments.look(moment)
        refuse_pruned(self._parts.tracker, moment, marks)
        return SeenMoment(moment, marks, at_us)

    # The workspace as it was

    def changes_to(self, moment: Moment, paths: Iterable[str] = ()) -> tuple[Change, ...]:
        """Return the changes of files, databases and git that lead from the present to a moment.

        It costs a look at the present, and what differs. Paths outside the workspace are not among them.
        """
        tracker = self._parts.tracker
        wanted = path_filter(self._parts.root, self._parts.history, paths)
        then = [mark for mark in self.seen(moment).marks if mark.resource != OUTSIDE]
        with self._parts.lock.held():
            now = {mark.resource: mark for mark in tracker.marks()}
            return tuple(
                change
                for mark in then
                for change in tracker.observed[mark.resource].changes(now[mark.resource], mark)
                if wanted(change.target)
            )

    def bisection(
        self,
        command: Sequence[str],
        *,
        good: str = "",
        bad: str = "",
        network: str = "full",
        listener: BisectListener | None = None,
    ) -> Bisection:
        """Return a search for the call after which a command fails; `run` it.

        The command passes at `good`, by default `last-clean`, and fails at `bad`, by default now.
        """
        from takeback.workspace.past.bisect import Bisection

        return Bisection(self._workspace, command, good=good, bad=bad, network=network, listener=listener)

    # One file

    def file(self, named: str, path: str) -> PastFile:
        """Return a file at a moment. The bare id of an action, a step or a run stands for the moment after it."""
        moment = self._parts.moments.find_after(named)
        target = self._target(path)
        if target.resource == OUTSIDE:
            version = self._outside_at(moment, target)
        else:
            marks = {mark.resource: mark for mark in self.seen(moment).marks}
            version = self._parts.files.at(marks[FILES], target)
            database = Target(SQLITE, target.name)
            if not version and SQLITE in marks and (kept := self._parts.sqlite.at(marks[SQLITE], database)):
                target, version = database, kept
        if not version:
            raise UsageError(
                f"there was no {path} at the moment {moment.name}",
                hint=f"`takeback log --path {path}` lists its versions",
            )
        return PastFile(moment, target, version)

    def content(self, file: PastFile) -> bytes:
        """Return exactly the bytes that a file had; of a link, the path that it led to."""
        if file.target.resource == SQLITE:
            return self._parts.sqlite.whole(file.version)
        if file.version.id.startswith("d:"):
            raise UsageError(
                f"{file.target} was a folder then",
                hint=f"name a file in it; `takeback diff {file.moment.typed}`",
            )
        found = self._parts.tracker.observed[file.target.resource].text(file.version)
        if found is None:
            raise ConflictError(f"the content of {file.target} at the moment {file.moment.name} is not kept")
        return found

    def _outside_at(self, moment: Moment, target: Target) -> Version:
        """Return what a path outside the workspace was: it is looked at only around the actions that name it."""
        later: Change | None = None
        for entry in self._parts.history.latest_entries(target):
            if entry.seq <= moment.position:
                return entry.change.after
            later = entry.change
        return later.before if later else ABSENT

    def _target(self, path: str) -> Target:
        found = relative(self._parts.root, path)
        return Target(OUTSIDE if found.startswith(b"/") else FILES, text_of(found))

    # Its life

    @cached_property
    def _lives(self) -> FileLives:
        return FileLives(self._parts.ledger)

    def life(self, paths: Iterable[str], most: int = 0) -> list[FileVersion]:
        """Return the recorded versions of what is at or below these paths, the latest first, at most so many."""
        history = self._parts.history
        path_filter(self._parts.root, history, paths := list(paths))  # raises for what never existed
        wanted = AtPaths(relative(self._parts.root, path) for path in paths)
        return list(islice(self._lives.versions(wanted.targets(history)), most or None))

    def prompt(self, action: RecordedAction) -> str:
        """Return the prompt, or the name of the step, in which an action was made."""
        return self._lives.prompt(action.as_tool.step)

    def compared(self, changes: Iterable[Change]) -> Diff:
        """Return changes with their lines."""
        resources = self._parts.tracker.resources
        text = Comparison(self._parts).text
        return Diff(tuple(changes), text, lambda c: resources[c.target.resource].tell(c, back=False))

    def blame(self, path: str) -> list[BlamedLine]:
        """Return the lines of a file as it is now, each with who wrote it."""
        target = self._target(path)
        text = self._present(target, path)
        return self._lives.blame(text, target, self._parts.tracker.observed[target.resource].text)

    def _present(self, target: Target, path: str) -> bytes:
        """Read a file of the workspace, not following links."""
        name = path_of(target.name)
        place = RootFolder(b"/" if target.resource == OUTSIDE else self._parts.root)
        above, _, last = name.strip(b"/").rpartition(b"/")
        try:
            with place.folder(above) as folder:
                fd = os.open(last, FILE_FLAGS, dir_fd=folder)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}", hint="blame is about a file that is there"
            ) from error
        finally:
            place.close()
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > BLAMED_BYTES_MAX:
            os.close(fd)
            is_file = stat.S_ISREG(found.st_mode)
            why = f"has {found.st_size:,} bytes, which is too much for blame" if is_file else "is not a file"
            raise UsageError(f"{path} {why}", hint="blame is about the lines of a file")
        with os.fdopen(fd, "rb") as file:
            text = file.read()
        if b"\0" in text:
            raise UsageError(f"{path} is not a text", hint=f"`takeback log --path {path}` lists its versions")
        return text
