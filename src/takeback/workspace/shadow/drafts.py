"""Drafts: what was taken back stays as a view, to be looked at and accepted later."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import TracebackType

from takeback.core import selection
from takeback.core.change import Change
from takeback.core.lifecycle import Life
from takeback.core.rollback import OnConflict
from takeback.engine.runs.parts import Options, RunParts
from takeback.engine.runs.run import Run
from takeback.errors import TakebackError
from takeback.workspace.staging import Stage
from takeback.workspace.workspace import Workspace


def draft(workspace: Workspace, actions: Iterable[str], name: str = "") -> Stage | None:
    """Make a view with what these actions had changed, which has been taken back. Return None if that is nothing."""
    history, observed = workspace.history, workspace.parts.tracker.observed
    every = selection.inside(history, actions)
    changes = [
        change
        for change in selection.net(history, every)
        if change.target.resource in observed and change.target.resource != workspace.parts.outside.name
    ]
    if not changes:
        return None
    stage = workspace.stages.new(name)
    stage.inside(partial(_lay_out, tuple(changes), stage.name), bool)
    return stage


def _lay_out(changes: tuple[Change, ...], name: str, inner: Workspace) -> bool:
    inner.parts.rollbacks.accept(changes, name, on_conflict=OnConflict.OVERWRITE).require_complete()
    return True


class DraftedRun(Run):
    """A run of which, if it fails, what is taken back stays as a view."""

    def __init__(self, workspace: Workspace, parts: RunParts, options: Options) -> None:
        super().__init__(parts, options)
        self._workspace = workspace
        self.draft = ""
        """The name of the view, once the run has failed and was taken back."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        except BaseException as late:
            self._keep(late)
            raise
        if error is not None:
            self._keep(error)

    def _keep(self, error: BaseException) -> None:
        """Make the draft, if the run was taken back. That this fails must not hide why the run failed."""
        run = self._workspace.history.runs.get(self.id)
        if run is None or run.life is not Life.FAILED:
            return
        try:
            stage = draft(self._workspace, run.actions)
        except TakebackError as failed:
            error.add_note(f"Takeback: no draft was made: {failed.message}")
            return
        if stage is not None:
            self.draft = stage.name
            error.add_note(f"Takeback: {told(stage)}")


def told(stage: Stage) -> str:
    """Return what can be done with a draft."""
    name = stage.name
    return f"what it did is kept as a draft: takeback stage diff {name}, takeback stage accept {name}"
