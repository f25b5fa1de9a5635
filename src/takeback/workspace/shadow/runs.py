"""Shadow runs: the same code, in a view, with calls to other systems taken down instead of made."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import selection
from takeback.core.codec import path_of
from takeback.core.entities import RecordedAction
from takeback.core.plan import Plan
from takeback.core.values import said
from takeback.engine import plans
from takeback.engine.describe.replay import memory_of
from takeback.engine.describe.wording import is_call
from takeback.engine.gate.gate import Approve
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs.actions import Action, Ask, Denied
from takeback.engine.runs.parts import Options
from takeback.engine.runs.run import Run
from takeback.engine.shadow import stand_ins
from takeback.engine.shadow.review import Promoted, ShadowDeed, ShadowResult, ShadowReview
from takeback.engine.shadow.shadow import Shadow
from takeback.errors import RefusedError, ShadowEnded, UsageError
from takeback.settings import environment
from takeback.system.private_files import private_folder
from takeback.workspace.plans import prepare_plan
from takeback.workspace.shadow import promotion, records
from takeback.workspace.shadow.databases import ShadowDatabases
from takeback.workspace.shadow.drafts import DraftedRun
from takeback.workspace.staging import Stage
from takeback.workspace.workspace import Workspace

SIMULATION = "simulation"


def simulation_of(inner: Workspace) -> Path:
    """Return the folder in which functions that simulate other systems keep their state, in the home of the view."""
    return private_folder(inner.state.parent.parent / SIMULATION)


def holds_one(path: Path) -> bool:
    """Return whether a file, or a database, holds a stand-in: as such it must not become real."""
    if not path.is_file() or path.is_symlink():
        return False
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3\0"):
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            data = "\n".join(database.iterdump()).encode()
    return stand_ins.IN_TEXT.search(data) is not None


class ShadowRun(Run):
    """A run in a view. Its files and SQLite databases are those of the view; nothing reaches another system."""

    def __init__(
        self, inner: Workspace, options: Options, shadow: Shadow, real: Path, copies: Mapping[str, str]
    ) -> None:
        """`inner` is the workspace as the view has it, and `real` the folder that it is a view of."""
        if options.roots:
            raise UsageError(
                "a shadow has only the workspace in its view, so it cannot have roots outside; nothing was begun",
                hint="`takeback try` runs a whole program in a view, with everything else read-only",
            )
        self.shadow = shadow
        self.databases = ShadowDatabases(inner.parts.databases, shadow, real, inner.root, copies)
        began = msgspec.structs.replace(options.began, key="", parent="", session="", command=())
        options = msgspec.structs.replace(
            options.checked(), began=began, shadow=shadow, deliver=False, steps=(), on_failure="undo"
        )
        parts = inner.parts.runs.parts_of(options)
        super().__init__(msgspec.structs.replace(parts, databases=self.databases), options)
        self._inner = inner
        self.databases.step = lambda: self._context.step.path if self._context.step else ""
        self._outcome, self._why = e.Outcome.DONE, ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the shadow. That it cannot go on is not an error: the review says where it ended."""
        try:
            if isinstance(error, ShadowEnded):
                self._outcome, self._why = e.Outcome.STOPPED, error.message
                super().__exit__(None, None, None)
                return True  # type: ignore[return-value]
            if error is not None:
                self._outcome, self._why = e.Outcome.FAILED, said(error)
            super().__exit__(kind, error, trace)
        except BaseException as late:
            self._outcome, self._why = e.Outcome.FAILED, self._why or said(late)
            raise
        finally:
            self.databases.close()
        return None

    def _try(self, wanted: Wanted, *, asking: bool = False) -> Action | Denied | Ask:
        """Refuse an action whose tool the caller would then run for real."""
        del asking
        raise UsageError(
            f"{wanted.name} was not begun: a shadow cannot stand in for a tool that its caller runs",
            hint="use run.call, or `takeback try` for the whole program",
        )

    def result(self) -> ShadowResult:
        """Return what came of it, once it has ended."""
        history = self._inner.history
        recorded = history.runs.get(self.id)
        actions = [history.actions[id] for id in recorded.actions] if recorded else []
        steps = recorded.steps if recorded else {}
        deeds = [
            ShadowDeed(
                one.name,
                one.as_tool.tool,
                steps[one.as_tool.step].name if one.as_tool.step in steps else "",
                one.as_tool.key,
                one.as_tool.arguments,
                one.result,
                one.intended or one.as_tool.effect,
                one.why,
            )
            for one in actions
            if is_call(history, one)
        ]
        return ShadowResult(
            self.options.began.name,
            self._outcome,
            self._why,
            tuple(self.shadow.intentions),
            memory_of(history, self.id) if recorded else {},
            tuple(deeds),
            tuple(sorted(name for name in self._written(actions) if holds_one(self.root / name))),
        )

    def _written(self, actions: Sequence[RecordedAction]) -> Iterator[str]:
        """Yield the files and databases that it left changed."""
        every = selection.inside(self._inner.history, [action.id for action in actions])
        for change in selection.net(self._inner.history, every):
            if change.after and change.target.resource in ("files", "sqlite"):
                yield os.fsdecode(path_of(change.target.name))


class ReviewedShadow(ShadowRun):
    """A shadow in this process: in a copy of the workspace, which is also the current folder while it is open."""

    def __init__(
        self,
        workspace: Workspace,
        options: Options,
        approve: Approve | None,
        copies: Mapping[str, str],
        *,
        telling: bool = False,
    ) -> None:
        """With `telling` the program does not know that it is a shadow, and its review goes to standard error."""
        self._telling = telling
        self._outer = workspace
        self._approve = approve
        self._stack = ExitStack()
        self.stage: Stage = workspace.stages.new(reachable=True)
        inner = self._stack.enter_context(self.stage.opened())
        shadow = Shadow(simulation_of(inner), str(workspace.root))
        super().__init__(inner, options, shadow, workspace.root, copies)
        self._here = ""

    @property
    def id(self) -> str:
        """The id of the run in its view; once it has ended, that of the shadow in the log of the workspace."""
        kept = self.__dict__.get("review")
        return kept.run if kept is not None else super().id

    def __enter__(self) -> ReviewedShadow:
        super().__enter__()
        here = os.getcwd()
        inside = os.path.relpath(here, self._outer.root)
        if not inside.startswith(".."):
            self._here = here
            os.chdir(self.root / inside)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            return super().__exit__(kind, error, trace)
        finally:
            if self._here:
                os.chdir(self._here)
            if self.id:
                look = self.stage.look_with(self._inner)
                result = self.result()
                self._stack.close()
                self.review = records.keep(self._outer, self.stage, result, look)
                if self._telling:
                    sys.stderr.write(f"{self.review}\n")
            else:
                self._stack.close()
                self.stage.drop()

    def promote(self, *, approve: Approve | None = None) -> Promoted:
        """Do for real what the shadow showed, after approval. Raise ConflictError if the world has moved since.

        `approve` answers the request, or the run's own `approve`; without either it waits for `takeback approve`.
        """
        if self.review is None:
            raise UsageError("the shadow has not ended yet, so there is nothing to promote")
        answer = approve or self._approve
        return promotion.promote(self._outer, self.review, approve=answer, functions=self.shadow.functions)


def special_run(
    workspace: Workspace,
    options: Options,
    approve: Approve | None,
    approval_wait_s: float,
    copies: Mapping[str, str] | None,
    *,
    shadow: bool,
) -> Run:
    """Return a run that needs a view: a shadow, for which there are `copies` of databases, or one with a draft."""
    options = options.checked()
    if shadow or environment.shadow():
        return ReviewedShadow(workspace, options, approve, copies or {}, telling=not shadow)
    return DraftedRun(workspace, workspace.parts.runs.parts_of(options, approve, approval_wait_s), options)


# Plans


def shadow_plan(workspace: Workspace, plan: Plan, *, autopilot: bool = False) -> ShadowReview:
    """Run a plan as a shadow, in a process inside a view. Return the review."""
    stage = workspace.stages.new()
    try:
        result = stage.inside(partial(_shadowed, plan, autopilot=autopilot), ShadowResult)
    except BaseException:
        stage.drop()
        raise
    return records.keep(workspace, stage, result, stage.look())


class _ShadowedRuns:
    """Begins shadows for a plan."""

    def __init__(self, inner: Workspace) -> None:
        self._inner = inner
        self.run_made: ShadowRun | None = None

    def run(self, name: str, *, key: str, autopilot: bool, **_: Any) -> ShadowRun:
        began = e.RunBegan(name, key=key, autopilot=autopilot, actor=environment.actor())
        inner = self._inner
        self.run_made = ShadowRun(inner, Options(began), Shadow(simulation_of(inner)), inner.root, {})
        return self.run_made


def _shadowed(plan: Plan, inner: Workspace, *, autopilot: bool) -> ShadowResult:
    prepared = prepare_plan(plan, inner.root, inner.settings, autopilot=autopilot)
    runs = _ShadowedRuns(inner)
    try:
        plans.run_plan(runs, prepared, autopilot=autopilot)
    except (UsageError, RefusedError):
        if runs.run_made is None or not runs.run_made.id:
            raise
    except Exception:
        if runs.run_made is None:
            raise
    assert runs.run_made is not None
    return runs.run_made.result()
