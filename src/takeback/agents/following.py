"""An agent's session, as its hooks report it: a run. Each prompt is a step of it, and each tool call an action.

Hooks report too little. A call that another hook refused, or a patch that did not apply, begins and never ends. A
background command is reported as ended when it has only begun. So other facts count, too: a tool that never runs in
parallel is over when the next one begins; a finished prompt, subagent or session has no more open calls; and a
background command runs until its end is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from takeback.agents import hook_tampering, rollback_news
from takeback.agents.dialects import dialect
from takeback.agents.event import Event, HookDecision, Kind, Permission
from takeback.core.entities import RecordedAction as Recorded
from takeback.core.entities import RecordedRun
from takeback.core.events import Effect
from takeback.core.lifecycle import Life
from takeback.core.redact import redact
from takeback.core.rules import Rules
from takeback.errors import UsageError
from takeback.system import processes
from takeback.workspace import workspace
from takeback.workspace.describe import NOT_ALLOWED
from takeback.workspace.results import ASKED, Action, Ask, Denied, Session
from takeback.workspace.sandboxing import containment_of, fenced

ALONE = "alone"
CHILD = "child of "
VOLATILE = ("description", "timeout", "explanation")
"""Arguments that do not change what a call does: if only these differ, it is the same call."""
OWN_COMMANDS = "undo|redo|restore|save|status|log|stats|show|diff|blame|verify|du|approvals"
"""The commands of Takeback that are not actions of an agent that runs them: they read, or record themselves."""
_WORD = r"[\w./=,:@%+-]"
_QUOTED = r"\"[\w ./=,:@%+-]*\"|'[\w ./=,:@%+-]*'"  # as in "before a4"
OWN = re.compile(rf"\s*takeback +(?:{OWN_COMMANDS})(?: +(?:{_WORD}+|{_QUOTED}))*\s*")
"""A command that runs Takeback itself, and nothing else."""
TITLE_CHARS_MAX = 80
PROMPT_CHARS_MAX = 2000
ERROR_CHARS_MAX = 500
UNTOLD = "its end was never reported: it was refused, failed or was stopped"
HELD = "Takeback asks for your approval: it may not be possible to take this back"


class Following:
    """The events of a session, one after the other, each perhaps in a process of its own."""

    def __init__(self, agent: str, opened: workspace.Workspace, *, pid: int = 0) -> None:
        """`pid` is the agent's own process, if known: when it ends, the session is over."""
        self._agent = agent
        self._workspace = opened
        self._pid = pid
        self._speech = dialect(agent)

    def tell(self, event: Event) -> HookDecision:
        """Record an event, and return the answer to the agent."""
        event = self._adopted(event)
        is_new = event.kind in (Kind.PROMPT, Kind.BEGIN) and not self._is_open(event)
        decision = self._follow(event)
        if is_new and (gone := self._workspace.lost):
            said = "\n".join(filter(None, (decision.warning, f"Takeback: {gone}. {gone.hint}")))
            decision = msgspec.structs.replace(decision, warning=said)
        if self._speech.can_tell(event):
            news = rollback_news.news(self._workspace, _key(self._agent, event), event)
            decision = msgspec.structs.replace(decision, context=news)
        return decision

    def _follow(self, event: Event) -> HookDecision:
        if event.kind is Kind.BEGIN:
            return self._begin(event)
        if event.kind is Kind.PROMPT:
            self._prompted(event)
        elif event.kind is Kind.SESSION and event.parent:
            self._note_child(event)
        elif self._is_open(event):
            return self._of_session(event)
        return HookDecision()  # nothing was begun that could end

    def _of_session(self, event: Event) -> HookDecision:
        """Record an event of an open session."""
        if event.kind is Kind.GATE:
            return self._gate(event)
        if event.kind in (Kind.END, Kind.FAILED) or (event.kind is Kind.NOTICE and event.call):
            return HookDecision(warning=self._end(event))
        if event.kind is Kind.STOP:
            self._close(event)
            if event.quiet:
                self._end_background(event)
            self._session(event).end_step()
        elif event.kind is Kind.AGENT_END:
            self._close(event)
        elif event.kind is Kind.SESSION_END:
            self._close(event)
            session = self._session(event)
            opened = (self._workspace.history.actions[id] for id in self._run(session).actions)
            if not any(a.life in (Life.OPEN, Life.BACKGROUND) and self._is_anothers(a) for a in opened):
                session.end()
        return HookDecision()

    # Prompts

    def _prompted(self, event: Event) -> None:
        session = self._session(event)
        self._close(event)
        session.step(_title(event.text), ref=event.prompt)

    def _turn(self, session: Session, event: Event) -> Session:
        """Return the session in the step of the prompt that the event belongs to.

        A subagent's turns may have ids of their own: they belong to the current prompt.
        """
        refs = {step.ref for step in self._run(session).steps.values()}
        if not event.prompt or (event.actor and event.prompt not in refs):
            return session.last_step()
        return session.step("", ref=event.prompt)

    # Calls

    def _begin(self, event: Event) -> HookDecision:
        session = self._session(event)
        for action in self._open(session, event):
            if ALONE in action.ref.split() and action.call_id != event.call:
                self._presume_ended(action)
        if OWN.fullmatch(event.command):  # Takeback records itself, and would wait for its own end
            return HookDecision()
        if event.reads and self._workspace.settings.rules == Rules():
            return HookDecision()
        held = containment_of(self._workspace) if event.command and self._speech.rewrites else None
        begun = (
            self._turn(session, event)
            .held_by(held)
            .begin(
                event.tool,
                event.args,
                call_id=self._call_id(session, event),
                effect=_effect(event),
                ref=ALONE if event.alone else "",
                volatile=VOLATILE if event.command else (),
                asking=self._speech.can_ask(event),
                paths=event.paths,
            )
        )
        decision = self._decided(begun)
        if held and isinstance(begun, Action) and begun.is_fenced:
            command = fenced(self._workspace, held, begun.id, event.command)
            decision = msgspec.structs.replace(decision, command=command)
        return decision

    def _decided(self, begun: Action | Denied | Ask) -> HookDecision:
        """Return the answer to a call that was begun, refused or held."""
        if isinstance(begun, Denied):
            return HookDecision(do=Permission.DENY, reason=str(begun), warning=_always(begun.how))
        if isinstance(begun, Ask):
            how = f"A human can allow exactly this, once: {begun.how}. Then try again in this session."
            reason = f"{begun.name} waits for a human: {begun.reason}."
            return HookDecision(do=Permission.ASK, reason=reason, how=how, warning=_always(begun.always))
        if begun.asked:
            # The client shows both the question and the warning only to its human.
            warning = "\n".join(filter(None, (begun.warning, _always(begun.how))))
            return HookDecision(do=Permission.ASK, reason=f"Takeback: {begun.asked}", warning=warning)
        return HookDecision(warning=begun.warning)

    def _gate(self, event: Event) -> HookDecision:
        """Answer a permission request that comes in addition to a call: ask if an open call needs approval."""
        asked = any(ASKED in action.ref.split() for action in self._open(self._session(event), event))
        return HookDecision(do=Permission.ASK, reason=HELD) if asked else HookDecision()

    def _end(self, event: Event) -> str:
        """Record the end of a call. Return warnings for the human."""
        for action in self._alike(self._session(event), event):
            if action.ended or (action.lives_on and event.kind is not Kind.NOTICE):
                continue
            if event.background and event.kind is Kind.END:
                action.live_on()
            else:
                failed = event.kind is Kind.FAILED
                action.end(error=(_short(event.error) or "it failed") if failed or event.error else None)
            found = [w for w in hook_tampering.warnings(self._workspace) if f" by {action.id}:" in w]
            trespasses = self._workspace.trespasses(action.id)
            found += [f"{action.id} changed what another run has locked: {one}" for one in trespasses]
            return "\n".join(found)
        return self._reported_late(event)

    def _reported_late(self, event: Event) -> str:
        """Return a warning if a call was still at work when it was taken for ended: later changes count as the
        human's."""
        for action in self._alike(self._session(event), event):
            recorded = self._workspace.history.actions[action.id]
            if not recorded.unsure:
                continue
            self._workspace.observe()
            later = self._workspace.history.since(recorded.seq)
            found = [a.id for a in later if a.kind == "outside" and a.began_us >= recorded.ended_us]
            if found:
                return (
                    f"Takeback took {action.id} ({action.name}) for ended while it was still at work. "
                    "Later changes are "
                    f"recorded as yours, and are not taken back with it: takeback show {found[0]}"
                )
        return ""

    def _close(self, event: Event) -> None:
        """End this agent's open calls: nothing of it is at work any more, except in the background."""
        for action in self._open(self._session(event), event):
            self._presume_ended(action)

    def _presume_ended(self, action: Action) -> None:
        """End a call because the agent has moved on. If its human was asked about it, the answer was no."""
        if ASKED in action.ref.split():
            action.drop(f"as far as {self._agent} reported, {NOT_ALLOWED}")
        else:
            action.end(error=UNTOLD, presumed=True)

    def _end_background(self, event: Event) -> None:
        session = self._session(event)
        for recorded in self._workspace.history.open_actions(Life.BACKGROUND):
            if recorded.stream == session.id and not self._is_anothers(recorded):
                session.action(_key_of(recorded)).end()

    def _open(self, session: Session, event: Event) -> Iterator[Action]:
        """Yield the open calls of the agent of this event."""
        for recorded in self._workspace.history.open_actions():
            mine = recorded.stream == session.id and is_of(recorded.actor, event.actor)
            if mine and _key_of(recorded) and not self._is_anothers(recorded):
                yield session.action(_key_of(recorded))

    def _is_anothers(self, recorded: Recorded) -> bool:
        """Return True if the call is of another client that continues the same session in another terminal."""
        process = recorded.process
        is_known = bool(self._pid and process and process.pid != self._pid)
        return is_known and processes.is_alive(process)

    def _call_id(self, session: Session, event: Event) -> str:
        """Return the id of a call that begins. A call without one gets that of an open equal call, or a new
        number."""
        if not event.call_is_alike:
            return event.call
        known = list(self._alike(session, event))
        opened = next((action for action in known if not action.ended and not action.lives_on), None)
        return opened.call_id if opened else f"{event.call}-{len(known) + 1}"

    def _alike(self, session: Session, event: Event) -> Iterator[Action]:
        """Yield the call that an event is about; if it has no id, all equal calls, oldest first."""
        number = 1
        while True:
            try:
                yield session.action(f"{event.call}-{number}" if event.call_is_alike else event.call)
            except UsageError:  # no such call: it began before Takeback was installed, or was not allowed to
                return
            if not event.call_is_alike:
                return
            number += 1

    # Sessions

    def _session(self, event: Event) -> Session:
        return self._workspace.session(
            self._agent,
            key=_key(self._agent, event),
            pid=self._pid,
            autopilot=self._workspace.settings.agents.autopilot,
            actor=who(self._agent, event),
            session=event.session,
            ref=event.transcript,
        )

    def _run(self, session: Session) -> RecordedRun:
        return self._workspace.history.runs[session.id]

    def _latest(self, event: Event) -> RecordedRun | None:
        history = self._workspace.history
        found = history.runs_of_key(_key(self._agent, event))
        return history.runs[found[-1]] if found else None

    def _is_open(self, event: Event) -> bool:
        run = self._latest(event)
        return run is not None and run.life is Life.OPEN

    def _note_child(self, event: Event) -> None:
        """Note a subagent with a session of its own: its actions belong to the session that started it."""
        key, ref = _key(self._agent, event), f"{CHILD}{event.parent}"
        if self._latest(event) is None:
            self._workspace.session(self._agent, key=key, session=event.session, ref=ref).end()

    def _adopted(self, event: Event) -> Event:
        """Return the event of such a subagent as one of the session that started it."""
        run = self._latest(event)
        if run is None or not run.began.ref.startswith(CHILD):
            return event
        kinds = {
            Kind.PROMPT: Kind.AGENT_BEGIN,
            Kind.STOP: Kind.AGENT_END,
            Kind.SESSION_END: Kind.AGENT_END,
        }
        return self._adopted(
            msgspec.structs.replace(
                event,
                kind=kinds.get(event.kind, event.kind),
                session=run.began.ref.removeprefix(CHILD),
                actor=event.session,
                prompt="",
                parent="",
            )
        )


def who(agent: str, event: Event) -> str:
    """Return the agent, or the subagent with its kind and its id: `claude-code:Explore:a1b2`."""
    return ":".join(filter(None, (agent, event.actor_kind if event.actor else "", event.actor)))


def is_of(actor: str, subagent: str) -> bool:
    """Return True if an action's actor is this subagent, or the agent itself if `subagent` is empty."""
    return actor.endswith(f":{subagent}") if subagent else ":" not in actor


def _effect(event: Event) -> Effect:
    """Return the effect of a tool. A command is judged later by its words; a tool from elsewhere may do anything."""
    if event.delegates or event.reads:
        return Effect.NONE
    return Effect.RESTORABLE if event.command or event.edits else Effect.UNKNOWN


def _key(agent: str, event: Event) -> str:
    return f"{agent}:{event.session}"


def _key_of(recorded: Recorded) -> str:
    return recorded.as_tool.key


def _always(how: str) -> str:
    """Return how a human can stop being asked. Not for the model: it might write that setting itself."""
    return f"To allow it always here: {how}." if how else ""


def _title(text: str) -> str:
    """Return the first words of a prompt. Secrets are removed before cutting, since half a secret is not
    recognised."""
    plain = "".join(c if c.isprintable() else " " for c in redact(text[:PROMPT_CHARS_MAX]))
    words = " ".join(plain.strip(' "').split())
    return words if len(words) <= TITLE_CHARS_MAX else words[: TITLE_CHARS_MAX - 1] + "…"


def _short(error: str) -> str:
    return redact(error[: 4 * ERROR_CHARS_MAX])[:ERROR_CHARS_MAX]
