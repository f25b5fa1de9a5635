"""A session that works in worktrees of git besides its project: each call is recorded where it works.

    <state of the project>/beside/<digest of the session>.json

The note says in which worktrees a session has made calls, so that other events of it are told there, too. A session
that stays in its project has none, and looking for it is all that it costs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from takeback.agents.event import Event, HookDecision, Kind
from takeback.core.codec import digest
from takeback.errors import UsageError
from takeback.system.private_files import private_folder, write_whole
from takeback.workspace.locate import find_root, project_of, registry_of_user

Tell = Callable[[Path], HookDecision]


def told_everywhere(agent: str, event: Event, root: Path, tell: Tell) -> HookDecision:
    """Tell an event to the workspaces that it concerns. Return the answer of the one where the session is at home,
    or where the call begins.
    """
    if event.kind is Kind.BEGIN:
        place = _place_of(event, root)
        if place != root:
            _note(agent, event, root, place)
        return tell(place)
    answer = tell(root)
    for place in _noted(agent, event, root):
        if place.is_dir():
            found = tell(place)
            said = "\n".join(filter(None, (answer.warning, found.warning)))
            decided = found if found.do is not HookDecision().do else answer
            answer = msgspec.structs.replace(decided, warning=said, context=answer.context or found.context)
    if event.kind is Kind.SESSION_END:
        _file(agent, event, root).unlink(missing_ok=True)
    return answer


def _place_of(event: Event, root: Path) -> Path:
    """Return the worktree of this project in which the agent works, or else the project."""
    if not event.cwd or Path(event.cwd).is_relative_to(root):
        return root
    try:
        place = find_root(event.cwd)
    except UsageError:
        return root  # the folder is gone
    is_same = (project_of(place) or place) == (project_of(root) or root)
    return place if is_same else root


def _note(agent: str, event: Event, root: Path, place: Path) -> None:
    known = _noted(agent, event, root)
    if place not in known:
        file = _file(agent, event, root)
        private_folder(file.parent)
        write_whole(file, msgspec.json.encode([str(one) for one in [*known, place]]))


def _noted(agent: str, event: Event, root: Path) -> list[Path]:
    try:
        return [
            Path(one) for one in msgspec.json.decode(_file(agent, event, root).read_bytes(), type=list[str])
        ]
    except (FileNotFoundError, msgspec.DecodeError):
        return []


def _file(agent: str, event: Event, root: Path) -> Path:
    name = digest(f"{agent}:{event.session}".encode()).partition(":")[2][:24]
    return registry_of_user().state_of(root) / "beside" / f"{name}.json"
