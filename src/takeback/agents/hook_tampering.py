"""Hooks that an action changed: an agent may have removed its own protection, by mistake or not.

An agent reads its settings when a session begins, so Takeback cannot prevent it. It is noticed at the next look,
reported until a human accepts it with `takeback install`, and can be taken back like any other change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from takeback.agents import settings
from takeback.agents.clients import CLIENTS
from takeback.agents.settings import apply
from takeback.core.change import OUTSIDE, Target, Version
from takeback.core.codec import path_of, text_of
from takeback.core.trust import untrusted_since
from takeback.errors import TakebackError, UsageError
from takeback.settings import agent_files, environment
from takeback.workspace.workspace import Workspace


def warnings(workspace: Workspace, by: str = "") -> list[str]:
    """Return warnings about what actions, or this one, did to our hooks; none if a human wrote them last."""
    return [said for action, said in _found(workspace) if by in ("", action)]


def accept(workspace: Workspace, agent: str) -> None:
    """Record that a human accepts the hooks of this agent as they are."""
    for target in _places(agent):
        workspace.trusted.accept(target)


def _places(agent: str) -> Iterator[Target]:
    """Yield every file that may have its hooks: in the project, and in the user's own folders."""
    for name in settings.layout(agent).in_project:
        yield Target("files", name)
    hooks = os.path.realpath(agent_files.place(settings.layout(agent).agent, environment.home_folder()))
    yield Target(OUTSIDE, text_of(os.fsencode(hooks)))


def _found(workspace: Workspace) -> Iterator[tuple[str, str]]:
    for agent, client in CLIENTS.items():
        if agent != settings.layout(agent).agent:  # ruflo's are Claude Code's
            continue
        for target in _places(agent):
            entry, name = untrusted_since(workspace.history, target), target.name
            if entry and (did := _done(workspace, agent, name, entry.change.before)):
                undo = f"takeback undo {entry.action}"
                said = (
                    f"the hooks of {client.title} in {name} were {did} by {entry.action}: `{undo}` brings them "
                    f"back; `takeback install {agent}` keeps what is there and adds what is missing"
                )
                yield entry.action, said


def _done(workspace: Workspace, agent: str, name: str, version: Version) -> str:
    """Return what happened to our hooks since this version, as a participle, or ""."""
    before = (workspace.text_of(version) or b"").decode(errors="replace")
    ours: list[str] = []
    try:
        ours = settings.commands(agent, before)
        now = apply.read(workspace.root / os.fsdecode(path_of(name)))
        if _is_off(agent, now) and not _is_off(agent, before):  # even those in another file
            return "switched off"
        if not ours:  # there was nothing to lose
            return ""
        if settings.missing(agent, now):
            return "removed"
        return "changed" if settings.hooks(agent, now) != settings.hooks(agent, before) else ""
    except TakebackError:
        return "broken" if ours else ""


def _is_off(agent: str, text: str) -> bool:
    """Return True if settings tell the agent to run no hooks. Settings that it cannot read do not."""
    try:
        return bool(settings.switched_off(agent, text))
    except UsageError:
        return False
