"""Drafts: what was taken back stays as a view, to be looked at and accepted later."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from takeback.core import selection
from takeback.core.change import Change
from takeback.core.rollback import OnConflict
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
