"""Removing Takeback's hooks from an agent's settings: planned first, then done as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from takeback.agents.settings import apply
from takeback.errors import BackendError, TakebackError
from takeback.settings import environment
from takeback.workspace.opening import find_workspace
from takeback.workspace.refusal import refuse_agent


def refuse_agents() -> None:
    """Raise RefusedError inside an action: an agent must not remove its own protection with our command."""
    inside = environment.parent_action()
    if workspace := find_workspace("."):
        with workspace:
            inside = workspace.inside_action() or inside
    refuse_agent(inside, "only a human can remove the hooks")


def planned(agent: str, *, project: Path, home: Path, user: bool) -> list[apply.Edit]:
    """Return the changes that remove them from the project's settings, or from the user's own."""
    paths = apply.places(agent, project=project, home=home, user=user)
    return [edit for path in paths if (edit := apply.uninstalling(agent, path)).diff]


def make(edits: Sequence[apply.Edit]) -> None:
    """Make all changes. An error half way says which were made before."""
    for count, edit in enumerate(edits):
        try:
            edit.make()
        except TakebackError as error:
            if not count:
                raise
            done = " and ".join(str(edit.path) for edit in edits[:count])
            raise BackendError(
                f"{error.message}; the hooks in {done} have been removed", hint=error.hint
            ) from None
