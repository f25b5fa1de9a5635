"""Rehearsing recovery: each step of a plan, or a command, fails on a copy; does everything come back?

Each trial has a view of its own. The step fails after it has had its effect: with an error, by a timeout, or killed.
What Takeback then takes back is compared with the start by a look of its own, which shares no code with the rest.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from takeback.core.events import RunBegan
from takeback.core.lifecycle import Life
from takeback.core.plan import Plan, in_order
from takeback.core.redact import redact
from takeback.core.values import said
from takeback.engine import plans
from takeback.engine.rollback.report import RollbackReport
from takeback.engine.runs.parts import Options
from takeback.engine.runs.run import Run
from takeback.engine.shadow.rehearsal import FAILURES, Rehearsal
from takeback.errors import BackendError, RefusedError, RollbackIncomplete, TakebackError, UsageError
from takeback.resources.calls import handlers
from takeback.settings import environment
from takeback.workspace.plans import prepare_plan
from takeback.workspace.shadow.runs import simulation_of
from takeback.workspace.staging import Stage
from takeback.workspace.workspace import Workspace

__all__ = ["FAILURES", "FailureTrial", "Rehearsed", "rehearse_command", "rehearse_plan"]

COMMAND = "the command"
_UNSETTLED = ("failed", "unverifiable", "conflict", "kept")
_HALFWAY = """import os, subprocess, sys
seconds, number, *words = sys.argv[1:]
child = subprocess.Popen(words, start_new_session=True)
try:
    sys.exit(child.wait(float(seconds)))
except subprocess.TimeoutExpired:
    os.killpg(child.pid, int(number))
    sys.exit(128 + int(number) if child.wait() else 0)
"""
_PATIENCE_S = 2.0

_REFUSED = "refused: "


class _NotRehearsed(Exception):
    """Nothing can stand in for a call, so the plan cannot be rehearsed beyond it."""


Tell = Callable[[str, str], None]


class FailureTrial(msgspec.Struct, frozen=True):
    """One failure, and what came of it."""

    step: str
    failure: str
    left: tuple[str, ...]
    """What would be left: paths, state of simulated systems, calls that could not be taken back."""
    why: str = ""
    took_s: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not self.left


class Rehearsed(msgspec.Struct, frozen=True):
    """What came of a rehearsal."""

    name: str
    trials: tuple[FailureTrial, ...]

    @property
    def wrong(self) -> tuple[str, ...]:
        """The steps that leave something that no earlier step leaves: those to be fixed, in order."""
        found: dict[str, None] = {}
        for failure in dict.fromkeys(trial.failure for trial in self.trials):
            known: set[str] = set()
            for trial in self.trials:
                if trial.failure == failure:
                    if set(trial.left) - known:
                        found[trial.step] = None
                    known |= set(trial.left)
        order = dict.fromkeys(trial.step for trial in self.trials)
        return tuple(step for step in order if step in found)


def rehearse_plan(
    workspace: Workspace, plan: Plan, failures: Sequence[str] = FAILURES, tell: Tell = lambda *_: None
) -> Rehearsed:
    """Let each step of a plan fail in each of these ways, in a view of its own."""
    trials = []
    for step in in_order(plan):
        for failure in failures:
            tell(step.id, failure)
            trials.append(_tried(workspace, partial(_fail_plan, plan, step.id, failure), step.id, failure))
    return Rehearsed(plan.name, tuple(trials))


def rehearse_command(
    workspace: Workspace,
    words: Sequence[str],
    failures: Sequence[str] = FAILURES,
    tell: Tell = lambda *_: None,
) -> Rehearsed:
    """Let a command fail in each of these ways, in a view of its own: at its end, or stopped halfway."""
    trials, half_s = [], 0.0
    for failure in failures:
        tell(COMMAND, failure)
        if failure != "error" and not half_s:
            half_s = _took_s(workspace, words) / 2
        number = {"timeout": 15, "kill": 9}.get(failure, 0)
        wrapped = (
            [sys.executable, "-c", _HALFWAY, f"{half_s:.3f}", str(number), *words] if number else list(words)
        )
        trials.append(_tried(workspace, partial(_fail_command, wrapped), COMMAND, failure))
    return Rehearsed(redact(" ".join(words)), tuple(trials))


def _took_s(workspace: Workspace, words: Sequence[str]) -> float:
    """Return how long a command takes to its end, in a view that is dropped."""
    stage = workspace.stages.new(network="none")
    try:
        began = time.monotonic()
        stage.run(list(words), network="none")
        return time.monotonic() - began
    finally:
        _drop(stage)


def _drop(stage: Stage) -> None:
    """Remove a view with all processes that are left in it: a command may leave some behind."""
    deadline = time.monotonic() + _PATIENCE_S
    while left := stage.living():
        if time.monotonic() > deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    stage.drop()


def _tried(workspace: Workspace, fail: Callable[[Stage], str], step: str, failure: str) -> FailureTrial:
    stage = workspace.stages.new(network="none")
    try:
        start = _picture(workspace.root)
        try:
            refused = fail(stage)
        except _NotRehearsed as error:
            return FailureTrial(step, failure, (f"not rehearsed: {error}",), "declare what stands in for it")
        began = time.monotonic()
        back = stage.inside(_taken_back, _Back, network="none")
        took_s = time.monotonic() - began
        left = [*_differences(stage, workspace.root, start), *(label for label, _ in back.left)]
        why = "; ".join(
            dict.fromkeys([*(why for _, why in back.left if why), *filter(None, (back.why, refused))])
        )
        return FailureTrial(step, failure, tuple(dict.fromkeys(left)), why, round(took_s, 3))
    finally:
        _drop(stage)


# Inside the view


class _RehearsedRuns:
    """Begins rehearsals for a plan."""

    def __init__(self, inner: Workspace, rehearsal: Rehearsal) -> None:
        self._inner = inner
        self._rehearsal = rehearsal

    def run(self, name: str, *, key: str, autopilot: bool, **_: Any) -> Run:
        began = RunBegan(name, key=key, autopilot=autopilot, actor=environment.actor())
        options = Options(began, instead=self._rehearsal.made).checked()
        # Whoever rehearses has agreed to everything: nothing of it is real.
        parts = self._inner.parts.runs.parts_of(options, lambda _: True)
        return Run(parts, options)


def _fail_plan(plan: Plan, step: str, failure: str, stage: Stage) -> str:
    """Run a plan up to a step that fails. Return why it came to an end before that, if it did."""
    isolated = stage.card.kind == "overlay"
    try:
        said = stage.inside(partial(_failing, plan, step, failure, isolated=isolated), str, network="none")
    except BackendError as error:
        if failure == "kill" and "ended early (-9)" in error.message:
            return ""
        raise
    if said.startswith(_REFUSED):
        raise _NotRehearsed(said.removeprefix(_REFUSED))
    return said


def _failing(plan: Plan, step: str, failure: str, inner: Workspace, *, isolated: bool) -> str:
    with handlers.simulating(simulation_of(inner), everywhere=True):
        prepared = prepare_plan(plan, inner.root, inner.settings, autopilot=False)
        plans.refuse_broken(prepared)
        rehearsal = Rehearsal(step, failure, isolated=isolated)
        try:
            plans.run_plan(_RehearsedRuns(inner, rehearsal), prepared)
        except RollbackIncomplete:
            return ""  # what it could not take back is found below
        except RefusedError as error:
            return f"{_REFUSED}{error.message}"
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001  that it fails is what was wanted
            return "" if rehearsal.failed else f"it failed by itself, before: {said(error)}"
        raise UsageError(f"step {step} came to its end although it was to fail; nothing was rehearsed")


def _fail_command(words: Sequence[str], stage: Stage) -> str:
    stage.run(list(words), network="none")
    return ""


class _Back(msgspec.Struct, frozen=True):
    """What came of taking back."""

    left: list[tuple[str, str]] = []
    """What could not be taken back, each with the reason."""
    why: str = ""


def _taken_back(inner: Workspace) -> _Back:
    """Take back what the last run left."""
    with handlers.simulating(simulation_of(inner), everywhere=True):
        inner.recover()
        runs = list(inner.history.runs)
        if not runs:
            return _Back()
        run = inner.history.runs[runs[-1]]
        try:
            # Also what it took back itself is reported again if it had to leave something.
            report, why = inner.try_undo(run.id), ""
            if report.is_stopped:
                # What a killed process wrote last may be somebody else's, as far as its records tell. Here nobody
                # else is; elsewhere a human has to look.
                why = "in doubt at first: a human has to choose --on-conflict overwrite"
                report = inner.try_undo(run.id, on_conflict="overwrite")
        except TakebackError as error:
            return _Back([(f"run {run.began.name}", error.message)])
        if inner.history.runs[run.id].life is Life.HANDED_OVER and not report.items:
            return _Back([(f"run {run.began.name}", inner.history.runs[run.id].why)])
        return _Back(_unsettled(report), why)


def _unsettled(report: RollbackReport) -> list[tuple[str, str]]:
    return [
        (item.target.said.rpartition(" ")[0] or item.target.said, item.why)
        if item.target.resource == "calls"
        else (item.target.said, item.why)
        for item in report.items
        if item.did in _UNSETTLED
    ]


# The independent look

Picture = dict[str, tuple[int, int, int, str]]
"""For each path: mode, size, mtime in nanoseconds, and the target of a link."""


def _picture(root: Path) -> Picture:
    found: Picture = {}
    for here, folders, files in os.walk(root):
        inside = os.path.relpath(here, root)
        if ".git" in folders and inside == ".":
            folders.remove(".git")
        for name in (*folders, *files):
            path = os.path.join(here, name)
            state = os.lstat(path)
            is_folder = stat.S_ISDIR(state.st_mode)
            link = os.readlink(path) if stat.S_ISLNK(state.st_mode) else ""
            size, at_ns = (0, 0) if is_folder else (state.st_size, state.st_mtime_ns)
            found[os.path.normpath(os.path.join(inside, name))] = (state.st_mode, size, at_ns, link)
    return found


def _content(path: Path) -> str:
    """Return the digest of a file; of a database what it says, however it is laid out."""
    try:
        data = path.read_bytes()
        if data.startswith(b"SQLite format 3\0"):
            database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            try:
                data = "\n".join(database.iterdump()).encode()
            finally:
                database.close()
    except (OSError, sqlite3.Error) as error:
        return f"unreadable: {error}"
    return hashlib.sha256(data).hexdigest()


def _differences(stage: Stage, root: Path, start: Picture) -> list[str]:
    """Return every path in the view that is not as it was at the start, and what simulated systems still have."""
    doubts, simulated = stage.inside(
        partial(_doubtful, start), tuple[dict[str, tuple[int, str, str]], list[str]], network="none"
    )
    now = {path: _seen(root, path) for path in doubts}
    return [*sorted(path for path in doubts if doubts[path] != now[path]), *simulated]


def _seen(root: Path, path: str) -> tuple[int, str, str]:
    try:
        state = os.lstat(root / path)
    except FileNotFoundError:
        return (0, "", "")
    if stat.S_ISLNK(state.st_mode):
        return (state.st_mode, "", os.readlink(root / path))
    return (state.st_mode, _content(root / path) if stat.S_ISREG(state.st_mode) else "", "")


def _doubtful(start: Picture, inner: Workspace) -> tuple[dict[str, tuple[int, str, str]], list[str]]:
    """Return what does not look exactly as at the start, to be read; and the files of simulated systems."""
    now = _picture(inner.root)
    names = [path for path in start.keys() | now.keys() if start.get(path) != now.get(path)]
    folder = simulation_of(inner)
    simulated = [f"simulated: {path}" for path in sorted(_picture(folder))]
    return {path: _seen(inner.root, path) for path in names}, simulated
