"""One event of an agent: recorded, and answered in the agent's dialect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from takeback import config
from takeback.agents import unprotected
from takeback.agents.dialects import dialect
from takeback.agents.event import SILENT, Answer, Decision, Do, Event, Kind
from takeback.agents.leader import leader_of
from takeback.errors import TakebackError
from takeback.opening import find_root, open_workspace
from takeback.storage.registry import Registry
from takeback.workspace import Workspace

# What begins nothing: there is something to say about it only where somebody was at work already.
IDLE = (Kind.GATE, Kind.SESSION, Kind.AGENT_BEGIN)

Opening = Callable[[Path], AbstractContextManager[Workspace]]
"""Gives the workspace at a root, for one event."""

_log = logging.getLogger("takeback.hook")


def once(root: Path) -> Workspace:
    """For this event alone."""
    return open_workspace(root, watching=False)


def handle(
    agent: str, data: bytes, env: Mapping[str, str], *, opening: Opening = once, pid: int = 0
) -> Answer:
    """Record an event, and give the answer. A call that cannot be protected is refused, or allowed with a warning.

    `pid` is the process that started the hook: the agent, or a shell of it.
    """
    speech = dialect(agent)
    event = speech.read(data, env)
    if event.kind is Kind.UNREADABLE:
        warning = f"Takeback could not read what {agent} told it ({event.why}), so this was not protected."
        if (
            speech.KINDS.get(event.name) is Kind.BEGIN
        ):  # by whose settings it could be allowed, nobody can tell
            event = msgspec.structs.replace(event, kind=Kind.BEGIN)
            return speech.answer(event, Decision(do=Do.DENY, reason=warning, warning=warning))
        return speech.answer(event, Decision(warning=warning))
    if event.kind is Kind.IGNORED:
        return SILENT
    try:
        with config.calling(folder=event.cwd):
            return speech.answer(event, _follow(agent, event, opening, pid))
    except Exception as error:  # noqa: BLE001 - whatever it is, the agent has to be told: it would go on unprotected
        found = error if isinstance(error, unprotected.Unprotected) else unprotected.Unprotected(error)
        expected = isinstance(found.error, TakebackError)
        _log.info("%s of %s: %s", event.name, agent, found.error, exc_info=None if expected else found.error)
        return unprotected.answer(speech, event, found)


def _follow(agent: str, event: Event, opening: Opening, pid: int) -> Decision:
    from takeback.agents.following import Following

    registry = Registry(config.state_home())
    root = find_root(event.root or config.here(), registry)
    if event.kind in IDLE and not registry.knows(root):
        return Decision()
    with opening(root) as opened:
        try:
            return Following(agent, opened, pid=leader_of(agent, pid) if pid else 0).tell(event)
        except Exception as error:
            raise unprotected.Unprotected(error, blocks=unprotected.blocks(opened)) from error
