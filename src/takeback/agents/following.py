"""A session of an agent, as it is told by its hooks: each tool call is an action of one run.

Hooks tell too little. A call that was refused by somebody else, or a patch that did not apply, is begun and never
ended. A command in the background is told to have ended when it has only begun. So what is known from elsewhere
counts too: a tool that is never used beside another one is over when the next one begins; a prompt that is done, or a
subagent, or a session, has no more open calls; and what works in the background is open until its end is told.
"""

from __future__ import annotations

from collections.abc import Iterator

from takeback import workspace
from takeback.agents.event import Decision, Do, Event, Kind
from takeback.core.lifecycle import Life
from takeback.core.subjects import Action as Recorded
from takeback.engine.seam import Action, Ask, Denied
from takeback.engine.sessions import Session
from takeback.errors import UsageError

BACKGROUND, ALONE = "background", "alone"


class Following:
    """One event after the other, each perhaps in a process of its own."""

    def __init__(self, agent: str, opened: workspace.Workspace) -> None:
        self._agent = agent
        self._workspace = opened

    def tell(self, event: Event) -> Decision:
        """Record what an event says, and decide what the agent is answered."""
        if event.kind is Kind.BEGIN:
            return self._begin(event)
        if not self._is_open(event):  # nothing was begun that could end
            return Decision()
        is_end = event.kind in (Kind.END, Kind.FAILED) and not event.background
        if is_end or (event.kind is Kind.NOTICE and event.call):
            self._end(event)
        elif event.kind in (Kind.STOP, Kind.PROMPT):
            self._close(event, actor="")
        elif event.kind is Kind.AGENT_END:
            self._close(event, actor=event.actor)
        elif event.kind is Kind.SESSION_END:
            self._session(event).end()
        return Decision()

    def _begin(self, event: Event) -> Decision:
        session = self._session(event)
        for action, how, _ in self._open(event, event.actor):
            if how == ALONE and action.call_id != event.call:
                action.end()
        how = BACKGROUND if event.background else ALONE if event.alone else ""
        begun = session.begin(
            event.tool,
            event.args,
            call_id=self._call_id(session, event),
            effect="none" if event.delegates else "",
            ref=_ref(how, event.actor, event.prompt),
            paths=event.paths,
        )
        if isinstance(begun, Denied):
            return Decision(do=Do.DENY, reason=str(begun))
        if isinstance(begun, Ask):
            return Decision(do=Do.ASK, reason=str(begun), how=f"A human can allow it: {begun.how}")
        return Decision()

    def _end(self, event: Event) -> None:
        session = self._session(event)
        for action in self._alike(session, event):
            if not action.ended:
                action.end(error=event.error or None)
                return

    def _close(self, event: Event, actor: str) -> None:
        """Nothing of this agent is at work any more, except in the background."""
        for action, how, _ in self._open(event, actor):
            if how != BACKGROUND:
                action.end()

    def _is_open(self, event: Event) -> bool:
        history = self._workspace.history
        found = history.keyed_runs.get(_key(self._agent, event)) or []
        return bool(found) and history.runs[found[-1]].life is Life.OPEN

    def _session(self, event: Event) -> Session:
        actor = f"{self._agent}:{event.actor}" if event.actor else self._agent
        return self._workspace.session(
            self._agent, key=_key(self._agent, event), actor=actor, session=event.session
        )

    def _open(self, event: Event, actor: str) -> Iterator[tuple[Action, str, str]]:
        """The calls of an agent of this session that have no end yet, with what is known of each."""
        session = self._session(event)
        for recorded in list(self._workspace.history.open_actions()):
            how, whose, prompt = _read_ref(recorded)
            key = getattr(recorded.began, "key", "")
            if recorded.stream == session.id and key and whose == actor:
                yield session.action(key), how, prompt

    def _call_id(self, session: Session, event: Event) -> str:
        """The id of a call that begins. Calls that are alike and have none are numbered."""
        known = len(list(self._alike(session, event))) if event.call_is_alike else 0
        return f"{event.call}-{known + 1}" if event.call_is_alike else event.call

    def _alike(self, session: Session, event: Event) -> Iterator[Action]:
        """The call that an event is about; where it has no id, all that are alike, oldest first."""
        number = 1
        while True:
            try:
                yield session.action(f"{event.call}-{number}" if event.call_is_alike else event.call)
            except UsageError:  # there is none: it began before Takeback came, or was not allowed to
                return
            if not event.call_is_alike:
                return
            number += 1


def _key(agent: str, event: Event) -> str:
    return f"{agent}:{event.session}"


def _ref(how: str, actor: str, prompt: str) -> str:
    """What is to be known of a call later: for us, and for whoever asks what a prompt did."""
    return "\t".join((how, actor, prompt))


def _read_ref(recorded: Recorded) -> tuple[str, str, str]:
    how, actor, prompt = (*str(getattr(recorded.began, "ref", "")).split("\t"), "", "", "")[:3]
    return how, actor, prompt


def of_prompt(opened: workspace.Workspace, agent: str, session: str, prompt: str) -> list[str]:
    """The actions that were done for one prompt."""
    history = opened.history
    runs = {run.id for run in history.runs.values() if run.began.key == f"{agent}:{session}"}
    found = (action for action in history.actions.values() if action.stream in runs)
    return [action.id for action in found if _read_ref(action)[2] == prompt]
