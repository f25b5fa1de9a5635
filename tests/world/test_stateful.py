"""A random life of a workspace, held against a model that is too simple to be wrong.

Agent and human write at random, checkpoints are taken, things are undone, redone and restored, the process is
killed, the workspace is opened again. After each step the tree is what the model says, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import takeback

from .kill import killed_at

# A failing life takes a while to be made short; a passing one does not.
pytestmark = pytest.mark.timeout(900)

EVERYTHING = bool(os.environ.get("TAKEBACK_TEST_ALL"))

Value = tuple[str, str, int] | None
"""What is at a path: its kind, its text and its mode. None is nothing."""

World = dict[str, Value]
PATHS = ("a", "b", "folder/c", "folder/d", "deep/er/e", "swaps")
FOLDERS = ("folder", "deep", "deep/er")

texts = st.sampled_from(["", "x", "y\n", "long " * 50, "other\x00bytes"])
files = st.tuples(st.just("file"), texts, st.sampled_from([0o644, 0o600, 0o755]))
links = st.tuples(st.just("link"), st.sampled_from(["a", "/etc/passwd", "nowhere"]), st.just(0))
folders = st.tuples(st.just("folder"), st.just(""), st.sampled_from([0o755, 0o700]))
values = st.one_of(st.none(), files, files, links, folders)
writes = st.dictionaries(st.sampled_from(PATHS), values, min_size=1, max_size=4)


def put(path: Path, value: Value) -> None:
    """Make the path be this, whatever it was."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        path.rmdir()
    if value is None:
        return
    kind, text, mode = value
    if kind == "link":
        path.symlink_to(text)
        return
    if kind == "file":
        path.write_bytes(text.encode())
    else:
        path.mkdir()
    path.chmod(mode)


def look(path: Path) -> Value:
    try:
        info = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(info.st_mode):
        return ("link", os.readlink(path), 0)
    if stat.S_ISDIR(info.st_mode):
        return ("folder", "", stat.S_IMODE(info.st_mode))
    return ("file", path.read_bytes().decode(), stat.S_IMODE(info.st_mode))


@dataclass
class Done:
    """Something that was done: by an action, or by the rollback of one."""

    changes: dict[str, tuple[Value, Value]]
    settles: Done | None = None
    """What a rollback took back."""
    settled: set[str] = field(default_factory=set)
    """The paths that are taken back."""

    @property
    def live(self) -> list[str]:
        return [path for path in self.changes if path not in self.settled]


class Life(RuleBasedStateMachine):
    """One workspace from its first checkpoint to its last."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="takeback-life-"))
        self.root, self.home = self.folder / "work", self.folder / "state"
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True)
        self.world: World = dict.fromkeys(PATHS)
        self.actions: list[Done] = []
        self.rollbacks: list[Done] = []
        self.checkpoints: list[tuple[str, World]] = []
        self.forgot = False
        self.tb = takeback.open(self.root, home=self.home)

    def teardown(self) -> None:
        self.tb.close()
        shutil.rmtree(self.folder)

    def _write(self, wanted: World) -> dict[str, tuple[Value, Value]]:
        changed = {path: (self.world[path], new) for path, new in wanted.items() if self.world[path] != new}
        for path, (_, new) in changed.items():
            put(self.root / path, new)
            self.world[path] = new
        return changed

    # Few rules with a choice in each, so that every short life has a bit of everything.

    @initialize(wanted=writes)
    def begin(self, wanted: World) -> None:
        self._write(wanted)
        self._save()

    @rule(wanted=writes)
    def agent_works(self, wanted: World) -> None:
        with self.tb.recording("agent"):
            changed = self._write(wanted)
        self.actions.append(Done(changed))

    @rule(wanted=writes, same=st.booleans())
    def human_works(self, wanted: World, same: bool) -> None:
        """Anywhere, or just where the agent last was: that is where conflicts come from."""
        action = self._last_live(self.actions)
        if same and action:
            wanted = dict(zip(action.live, wanted.values(), strict=False))
        self._write(wanted)

    @precondition(lambda self: self._last_live(self.actions) or self._last_live(self.rollbacks))
    @rule(
        what=st.sampled_from(["undo", "undo", "redo"]),
        choice=st.sampled_from(["stop", "stop", "keep", "overwrite"]),
    )
    def take_back(self, what: str, choice: str) -> None:
        if what == "undo":
            self._undo(choice)
        else:
            self._redo()

    @rule(what=st.sampled_from(["save", "save", "reopen", "preview", "idle", "verify"]))
    def live_on(self, what: str) -> None:
        match what:
            case "save":
                self._save()
            case "reopen":
                self.tb.close()
                self.tb = takeback.open(self.root, home=self.home)
            case "preview":
                with contextlib.suppress(takeback.ConflictError):
                    self.tb.undo(preview=True)
            case "idle":
                with self.tb.recording("idle"):
                    pass
            case _:
                assert not self.tb.verify()

    @rule(data=st.data(), stay=st.integers(0, 9))
    def restore(self, data: st.DataObject, stay: int) -> None:
        """Go to a checkpoint; mostly back at once, sometimes stay and begin a new epoch."""
        others = [(id, then) for id, then in self.checkpoints if then != self.world]
        if not others:
            return
        checkpoint, then = data.draw(st.sampled_from(others))
        self.tb.restore(checkpoint)
        present, self.world = self.world, dict(then)
        self.matches()
        if stay == 9:
            self._forget()
        else:
            self.tb.redo()
            self.world = present

    @rule(command=st.sampled_from(["undo", "undo", "save"]), place=st.integers(1, 120))
    def killed(self, command: str, place: int) -> None:
        """The next command finishes what was begun: it is wholly done, or not at all."""
        action = self._last_live(self.actions)
        if command == "undo" and action is None:
            return
        self.tb.close()
        killed_at(place, [command], cwd=self.root, home=self.home)
        self.tb = takeback.open(self.root, home=self.home)
        self.tb.save("after the kill")
        if command == "undo" and action is not None:
            self._find_out(action)

    @staticmethod
    def _last_live(some: list[Done]) -> Done | None:
        return next((done for done in reversed(some) if done.live), None)

    # Takeback and the model, side by side.

    def _save(self) -> None:
        self.checkpoints.append((self.tb.save("checkpoint").id, dict(self.world)))

    def _undo(self, choice: str) -> None:
        action = self._last_live(self.actions)
        if action is None:
            assert self.forgot or self.tb.undo().verdict == "nothing"
            return
        goal, conflicts = self._plan(action, choice)
        if conflicts and choice == "stop":
            self._refused(partial(self.tb.undo, on_conflict=choice))
            return
        self.tb.undo(on_conflict=choice)
        self.rollbacks.append(self._apply(action, goal))

    def _redo(self) -> None:
        rollback = self._last_live(self.rollbacks)
        if rollback is None:
            return
        goal, conflicts = self._plan(rollback, "stop")
        if conflicts:
            self._refused(self.tb.redo)
            return
        self.tb.redo()
        self._apply(rollback, goal)
        if rollback.settles:
            rollback.settles.settled -= set(rollback.changes)

    def _find_out(self, action: Done) -> None:
        """Whether an undo that was killed is done; `matches` then holds the world to it."""
        goal, conflicts = self._plan(action, "stop")
        if conflicts or self._look() != self.world | goal:
            return
        if self._look() == self.world:
            self._forget()  # done or not, it would look the same
        else:
            self.rollbacks.append(self._apply(action, goal))

    # The model.

    def _plan(self, done: Done, choice: str) -> tuple[World, list[str]]:
        goal: World = {}
        conflicts = []
        for path in done.live:
            before, after = done.changes[path]
            now = self.world[path]
            if before == after:  # a rollback looked at it and left it alone
                goal[path] = now
            elif now in (after, before) or choice == "overwrite":
                goal[path] = before
            else:
                goal[path] = now
                conflicts.append(path)
        return goal, conflicts

    def _apply(self, done: Done, goal: World) -> Done:
        """Carry a plan out in the model, and give the rollback that it was."""
        changes = {path: (self.world[path], new) for path, new in goal.items()}
        self.world.update(goal)
        done.settled |= set(goal)
        return Done(changes, settles=done)

    def _refused(self, command: Callable[[], object]) -> None:
        with pytest.raises(takeback.ConflictError) as caught:
            command()
        assert caught.value.report is not None

    def _forget(self) -> None:
        """What a restore counts as taken back is its own affair: look only at what comes after."""
        self.actions.clear()
        self.rollbacks.clear()
        self.forgot = True

    def _look(self) -> World:
        return {path: look(self.root / path) for path in PATHS}

    @invariant()
    def matches(self) -> None:
        assert self._look() == self.world
        names = {str(path.relative_to(self.root)) for path in self.root.rglob("*")}
        assert names == {path for path, value in self.world.items() if value} | set(FOLDERS)


Life.TestCase.settings = settings(
    max_examples=500 if EVERYTHING else 40,
    stateful_step_count=50 if EVERYTHING else 25,
    deadline=None,
    derandomize=not EVERYTHING,
    database=None,
)
TestLife = Life.TestCase
