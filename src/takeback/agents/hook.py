"""One event of an agent: recorded, and answered in the agent's dialect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from takeback.agents.agent_process import leader_of
from takeback.agents.dialects import dialect
from takeback.agents.elsewhere import told_everywhere
from takeback.agents.event import SILENT, Dialect, Event, HookAnswer, HookDecision, Kind, Permission
from takeback.errors import TakebackError
from takeback.settings import environment
from takeback.workspace.locate import find_root, registry_of_user
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

# Events that begin nothing: they matter only in a workspace that is already protected.
IDLE = (Kind.GATE, Kind.SESSION, Kind.AGENT_BEGIN)

Opening = Callable[[Path], AbstractContextManager[Workspace]]
"""Opens the workspace at a root, for one event."""

_log = logging.getLogger("takeback.hook")


def once(root: Path) -> Workspace:
    """Open a workspace for this event only."""
    return open_workspace(root, watching=False)


def handle(
    agent: str, data: bytes, env: Mapping[str, str], *, opening: Opening = once, pid: int = 0
) -> HookAnswer:
    """Record an event and return the answer. A call that cannot be protected is refused, or allowed with a warning.

    `pid` is the process that started the hook: the agent, or its shell.
    """
    speech = dialect(agent)
    event = speech.read(data, env)
    if event.kind is Kind.UNREADABLE:
        warning = f"Takeback could not read an event of {agent} ({event.why}), so this was not protected."
        if speech.kinds.get(event.name) is Kind.BEGIN:  # which settings could allow it is unknown
            event = msgspec.structs.replace(event, kind=Kind.BEGIN)
            return speech.answer(event, HookDecision(do=Permission.DENY, reason=warning, warning=warning))
        return speech.answer(event, HookDecision(warning=warning))
    if event.kind is Kind.IGNORED:
        return SILENT
    try:
        with environment.calling(folder=event.cwd):
            return speech.answer(event, _follow(agent, event, opening, pid))
    except Exception as error:  # noqa: BLE001 - the agent must hear of any error: it would continue unprotected
        found = error if isinstance(error, Unprotected) else Unprotected(error)
        expected = isinstance(found.error, TakebackError)
        _log.info("%s of %s: %s", event.name, agent, found.error, exc_info=None if expected else found.error)
        return answer(speech, event, found)


def _follow(agent: str, event: Event, opening: Opening, pid: int) -> HookDecision:
    from takeback.agents.following import Following

    registry = registry_of_user()
    root = find_root(event.root or environment.here(), registry)
    if event.kind in IDLE and not registry.knows(root):
        return HookDecision()

    def tell(place: Path) -> HookDecision:
        with opening(place) as opened:
            try:
                return Following(agent, opened, pid=leader_of(agent, pid) if pid else 0).tell(event)
            except Exception as error:
                raise Unprotected(error, blocks=blocks(opened)) from error

    return told_everywhere(agent, event, root, tell)


_told: set[tuple[str, str]] = set()
"""The sessions that know what is missing of Takeback."""


class Unprotected(Exception):
    """An event could not be recorded. Says whether its call is refused. Never leaves the hook."""

    def __init__(self, error: Exception, *, blocks: bool = True) -> None:
        super().__init__(str(error))
        self.error = error
        self.blocks = blocks


def answer(speech: Dialect, event: Event, failed: Unprotected) -> HookAnswer:
    error = failed.error
    said = str(error) or type(error).__name__
    if isinstance(error, TakebackError):
        said = error.message + (f" ({error.hint})" if error.hint else "")
    why = f"Takeback cannot protect this: {said}"
    if isinstance(error, ImportError):
        # A missing part of Takeback counts as Takeback missing: that blocks no agent, and is reported once.
        is_known = (event.session, said) in _told
        _told.add((event.session, said))
        return speech.answer(event, HookDecision(warning="" if is_known else why))
    if event.kind is Kind.BEGIN and failed.blocks:
        return speech.answer(event, HookDecision(do=Permission.DENY, reason=why, warning=why))
    return speech.answer(event, HookDecision(warning=why))


def blocks(opened: Workspace) -> bool:
    """Return True if a call that cannot be recorded is refused.

    Only settings that a human wrote or accepted can allow it. If the journal cannot be read, their author is unknown.
    """
    try:
        return opened.settings.agents.when_unprotected == "block"
    except Exception:  # noqa: BLE001 - settings that cannot be read allow nothing
        return True
