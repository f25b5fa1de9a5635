"""Taking the hooks of Takeback out of an agent's settings: planned first, then made as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from takeback.agents.settings import apply
from takeback.errors import BackendError, RefusedError, TakebackError
from takeback.settings import environment
from takeback.workspace.opening import find_workspace


def refuse_agents() -> None:
    """Refuse this to an agent: it does not take out its own protection with a command of ours."""
    inside = environment.parent_action()
    if workspace := find_workspace("."):
        with workspace:
            inside = workspace.inside_action() or inside
    if inside:
        raise RefusedError(
            f"this was asked from inside {inside}: only a human takes out the hooks. Nothing was changed",
            hint="do it from a terminal of your own",
        )


def planned(agent: str, *, project: Path, home: Path, user: bool) -> list[apply.Edit]:
    """Return the changes that take them out, of the project's settings or of the user's own."""
    paths = apply.places(agent, project=project, home=home, user=user)
    return [edit for path in paths if (edit := apply.uninstalling(agent, path)).diff]


def make(edits: Sequence[apply.Edit]) -> None:
    """Make all of them. An error half way says what was done before."""
    for count, edit in enumerate(edits):
        try:
            edit.make()
        except TakebackError as error:
            if not count:
                raise
            done = " and ".join(str(edit.path) for edit in edits[:count])
            raise BackendError(f"{error.message}; the hooks in {done} are out", hint=error.hint) from None
