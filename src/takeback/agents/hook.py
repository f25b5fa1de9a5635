"""One event of an agent: read in its dialect, recorded, answered. What calls this is the daemon, or `once`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from takeback import config
from takeback.agents.dialects import Dialect, dialect
from takeback.agents.event import SILENT, Answer, Decision, Do, Event, Kind
from takeback.agents.leader import leader_of
from takeback.errors import TakebackError
from takeback.opening import find_root, open_workspace
from takeback.storage.registry import Registry
from takeback.workspace import Workspace

# What needs no record. A question that comes in addition to a call is answered there.
IDLE = (Kind.IGNORED, Kind.GATE, Kind.SESSION, Kind.AGENT_BEGIN)

Opening = Callable[[Path], AbstractContextManager[Workspace]]
"""Gives the workspace at a root, for one event."""

_log = logging.getLogger("takeback.hook")


def once(root: Path) -> Workspace:
    """For this event alone."""
    return open_workspace(root, watching=False)


def handle(
    agent: str,
    data: bytes,
    env: Mapping[str, str],
    *,
    blocks: bool = True,
    opening: Opening = once,
    pid: int = 0,
) -> Answer:
    """Record an event, and give the answer. A call that cannot be protected is refused, or allowed with a warning.

    `pid` is the process that started the hook: the agent, or a shell of it.
    """
    speech = dialect(agent)
    event = speech.read(data, env)
    if event.kind is Kind.UNREADABLE:
        warning = f"Takeback could not read what {agent} told it ({event.why}), so this was not protected."
        return speech.answer(event, Decision(warning=warning))
    if event.kind in IDLE:
        return SILENT
    try:
        with config.calling(folder=event.cwd):
            return speech.answer(event, _follow(agent, event, opening, pid))
    except Exception as error:  # noqa: BLE001 - whatever it is, the agent has to be told: it would go on unprotected
        expected = isinstance(error, TakebackError)
        _log.info("%s of %s: %s", event.name, agent, error, exc_info=None if expected else error)
        return _unprotected(speech, event, error, blocks=blocks)


def _follow(agent: str, event: Event, opening: Opening, pid: int) -> Decision:
    from takeback.agents.following import Following

    root = find_root(event.root or config.here(), Registry(config.state_home()))
    with opening(root) as opened:
        return Following(agent, opened, pid=leader_of(agent, pid) if pid else 0).tell(event)


def _unprotected(speech: Dialect, event: Event, error: Exception, *, blocks: bool) -> Answer:
    hint = f" ({error.hint})" if isinstance(error, TakebackError) and error.hint else ""
    why = f"Takeback cannot protect this: {str(error) or type(error).__name__}{hint}"
    if blocks and event.kind is Kind.BEGIN:
        return speech.answer(event, Decision(do=Do.DENY, reason=why, warning=why))
    return speech.answer(event, Decision(warning=why))
