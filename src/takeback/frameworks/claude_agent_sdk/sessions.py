"""The sessions of the agent in this process: the thread of each, and the calls that were begun for it.

The program of the agent announces a call before it runs it and reports its end afterwards. What it was told is known
to be stored when the transcript has it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import takeback
from takeback.errors import RunBusy
from takeback.frameworks.calling import HumanAnswer, Threads, Told
from takeback.frameworks.claude_agent_sdk import orphans
from takeback.settings import environment

NOT_RUN = "as far as the agent reported, it was not allowed to run"
UNTOLD = "its end was never reported: it was refused, failed or was stopped"
TITLE_CHARS_MAX = 80
_CHANGED = ":changed"
"""Ends the id of a call whose arguments a human changed."""


class AnnouncedCall(NamedTuple):
    """A call that the agent is about to make."""

    id: str
    name: str
    args: Mapping[str, Any]
    options: dict[str, Any]
    """The options of `begin` that say what the tool does."""
    folder: str = ""
    """The folder that relative paths in a command start from; empty for that of this process."""


class LostResult(NamedTuple):
    """What became of a call whose result the transcript does not have, as the program would have stored it."""

    id: str
    content: Any
    is_error: bool


class ClaudeSession:
    """One session. Its methods may be called in any thread."""

    def __init__(self, threads: Threads, id: str) -> None:
        self._threads = threads
        self._id = id
        self._root = str(threads.workspace.root)
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._turn: takeback.Turn | None = None
        self._calls: dict[str, takeback.Action | Told] = {}
        self._asked: dict[str, AnnouncedCall] = {}
        self._repeated: dict[str, takeback.Action] = {}
        self._at_work: set[str] = set()
        self._left: list[takeback.Action] | None = None
        self._position = ""
        self.waits_for_prompt = False
        """True if a turn has begun, and the transcript does not have its prompt yet."""

    @property
    def thread(self) -> takeback.Thread:
        """The thread that has the calls of the session."""
        return self._threads.of(self._id)

    # Going on

    def resume(self, told: set[str], position: str) -> list[LostResult]:
        """Prepare to go on from a transcript that has the results of these calls. Return those that it lacks.

        What a killed host left at work is waited for or ended first, since it may still change what calls in doubt
        are settled by.
        """
        orphans.end_orphans(self._root)
        with self._lock:
            if not orphans.at_work(self._root):
                self.thread.pause()  # calls of a program that is gone get no end
                self._forget()
            self._position = position
            stored = [one for one in self.thread.undelivered() if _original(one.call_id) in told]
            if stored:
                self.thread.delivered(*stored)
            self._left = self._left_over()
            return list(map(_lost, self._left))

    def told(self, ids: set[str], position: str) -> None:
        """Note that results which were lost are in the transcript after all."""
        with self._lock:
            self._position = position
            found = [one for one in self._left or () if _original(one.call_id) in ids]
            # What is in doubt must not be made again under another id either.
            self._left = [one for one in self._left or () if one not in found or one.outcome == "in-doubt"]
            self.thread.delivered(*found)

    def _left_over(self) -> list[takeback.Action]:
        """Return the calls that have ended, or were cut short, and that the model never got a result of."""
        unclear = (one for one in self.thread.actions() if one.outcome in ("in-doubt", "cut-short"))
        found = [one for one in unclear if not one.is_delivered]
        return [*self.thread.undelivered(), *found]

    def turn(self, ref: str, title: str) -> str:
        """Begin the turn of a prompt. Return what the model has to know before it."""
        with self._lock:
            if self._left is None:
                self._left = self._left_over()
            if ref and (self._turn is None or self._turn.ref != ref):
                words = " ".join(title.split())
                self._turn = self.thread.turn(ref, name=words[:TITLE_CHARS_MAX] or ref)
                self._turn.__enter__()  # a commit ends it
                self.waits_for_prompt = True
            return _news(self._left)

    # Calls

    def begin(self, call: AnnouncedCall) -> takeback.Action | Told:
        """Begin a call. Return its action if its tool may run, and otherwise what the model is told."""
        with self._lock:
            known = self._calls.get(call.id)
            if isinstance(known, takeback.Action):
                return known
            if self._left is None:
                self._left = self._left_over()
            for action in self._left:
                if action.name == call.name and _same(action.arguments, call.args):
                    if action.outcome not in ("done", "in-doubt"):
                        continue  # it did not happen, so it may be made
                    self._left.remove(action)
                    self._repeated[call.id] = action
                    self._calls[call.id] = told = _told(action)
                    return told
            begun = self._begin(call, None)
            self._calls[call.id] = begun
            if isinstance(begun, Told) and begun.ask:
                self._asked[call.id] = call
            return begun

    def _begin(self, call: AnnouncedCall, answer: HumanAnswer | None) -> takeback.Action | Told:
        def begin() -> takeback.Action | Told:
            return self._threads.begin(
                self.thread,
                call.name,
                call.args,
                call_id=call.id,
                ref=self._position,
                answering=(lambda _: answer) if answer else None,
                **call.options,
            )

        with environment.calling(folder=call.folder), self._turn.here() if self._turn else nullcontext():
            return begin()

    def answered(self, id: str, name: str, answer: HumanAnswer, changed: Mapping[str, Any] | None) -> str:
        """Pass on what the host's human said to a call. Return why it must not be made; empty if it may."""
        with self._lock:
            begun, call = self._calls.get(id), self._asked.pop(id, None)
            if isinstance(begun, takeback.Action) and (not answer.granted or changed is not None):
                begun.drop(answer.why or NOT_RUN)
                call = AnnouncedCall(id, name, begun.arguments, {})
            if call is None or (isinstance(begun, takeback.Action) and not answer.granted):
                return ""
            if changed is not None and not _same(call.args, changed):
                call = call._replace(id=f"{id}{_CHANGED}", args=changed)
            decided = self._begin(call, answer)
            self._calls[id] = decided
            return decided.why if isinstance(decided, Told) else ""

    def taken(self, id: str) -> takeback.Action | Told | None:
        """Return what was decided of a call whose tool is about to run in this process."""
        with self._lock:
            found = self._calls.get(id)
            if isinstance(found, takeback.Action):
                self._at_work.add(id)
            return found

    def left(self, id: str) -> None:
        """Note that the tool of a call has returned."""
        self._at_work.discard(id)

    def has(self, id: str) -> bool:
        """Return whether a call of this session has this id."""
        return id in self._calls

    def end(self, id: str, result: Any, error: BaseException | str | None, *, lives_on: bool = False) -> None:
        """Record what the program reported of the end of a call."""
        action = self._calls.get(id)
        if not isinstance(action, takeback.Action) or action.ended or id in self._at_work:
            return
        if lives_on:
            action.live_on()
        else:
            action.end(result, error=error)

    # What the transcript has

    def stored(self, results: set[str], position: str, *, has_prompt: bool = True) -> None:
        """Note that the transcript has the results of these calls, and how far it goes."""
        with self._lock:
            self._position = position
            self.waits_for_prompt = self.waits_for_prompt and not has_prompt
            delivered = []
            for id in results & (self._calls.keys() | self._repeated.keys()):
                if repeated := self._repeated.pop(id, None):
                    delivered.append(repeated)
                call = self._calls[id]
                if id in self._at_work or (isinstance(call, takeback.Action) and call.lives_on):
                    continue
                del self._calls[id]
                if isinstance(call, takeback.Action):
                    if not call.ended:
                        call.drop(NOT_RUN)
                    delivered.append(call)
            if delivered:
                self.thread.delivered(*delivered)

    @property
    def waits_for_transcript(self) -> bool:
        """True if calls have ended, and the transcript does not have their results yet."""
        with self._lock:
            return any(isinstance(one, takeback.Action) and one.ended for one in self._calls.values())

    def finish(self, *, quiet: bool) -> None:
        """Commit the turn. `quiet` says that nothing of the session is at work in the background."""
        with self._lock:
            for id, call in list(self._calls.items()):
                if quiet and id not in self._at_work and isinstance(call, takeback.Action):
                    if call.lives_on:
                        call.end()
                    elif not call.ended:
                        call.end(error=UNTOLD, presumed=True)
                    del self._calls[id]
            told = [*self._repeated.values(), *(self._left or ())]
            self._repeated.clear()
            self._left = []
            if told:
                self.thread.delivered(*told)
            try:
                self.thread.commit()
            except RunBusy:
                pass  # a subagent in the background is at work: the next end of a turn commits

    # Going back

    def take_back(self, position: str, remaining: set[str], gone: set[str]) -> takeback.RollbackReport:
        """Take back what was done after a position of the transcript, which has the calls that remain and go."""
        orphans.end_orphans(self._root)
        with self._lock:
            if not orphans.at_work(self._root):
                self.thread.pause()
            # A call that never got into the transcript, as far as it goes, was made after its end.
            unstored = {one.id for one in (*self.thread.undelivered(), *self._left_over())}

            def is_after(action: takeback.Action) -> bool:
                original = _original(action.call_id)
                if original in gone or action.ref >= position:
                    return True
                return action.id in unstored and original not in remaining

            first = next((one for one in self.thread.actions() if is_after(one)), None)
            report = self.thread.go_back(first)
            self._forget()
            return report


class ClaudeSessions:
    """The sessions of a workspace that this process has seen."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._known: dict[str, ClaudeSession] = {}
        self._lock = threading.Lock()

    @property
    def root(self) -> str:
        """The folder of the workspace."""
        return str(self._threads.workspace.root)

    @property
    def has_rules(self) -> bool:
        """True if the workspace has rules, so that calls that only read have to be judged too."""
        return self._threads.workspace.settings.rules != type(self._threads.workspace.settings.rules)()

    def of(self, id: str) -> ClaudeSession:
        """Return the session with this id."""
        with self._lock:
            if id not in self._known:
                self._known[id] = ClaudeSession(self._threads, id)
            return self._known[id]

    def with_call(self, id: str) -> ClaudeSession | None:
        """Return the session that a call was announced in."""
        with self._lock:
            return next((one for one in self._known.values() if one.has(id)), None)

    def take_back(
        self, id: str, position: str, remaining: set[str], gone: set[str]
    ) -> takeback.RollbackReport:
        """Do what `ClaudeSession.take_back` does, for the session with this id."""
        return self.of(id).take_back(position, remaining, gone)


def text_of(value: Any) -> str:
    """Return the result of a call as a text for the model."""
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in value["content"]]
        texts = [part for part in parts if isinstance(part, str)]
        if texts and texts == parts:
            return "\n".join(texts)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _told(action: takeback.Action) -> Told:
    if action.outcome == "in-doubt":
        return Told(f"{action.name} is in doubt, and was not made again: {action.error}")
    return Told(value=action.result, found=action.found)


def _lost(action: takeback.Action) -> LostResult:
    id, result = _original(action.call_id), action.result
    if action.outcome != "done":
        return LostResult(id, _fate(action), True)
    if not action.found and isinstance(result, dict) and isinstance(result.get("content"), list):
        return LostResult(id, result["content"], False)
    return LostResult(id, text_of(result), False)


def _fate(action: takeback.Action) -> str:
    """Return what the model has to know of a call whose result it never got."""
    if action.outcome == "done":
        return f"was made. Do not make it again. Its result: {text_of(action.result)}"
    if action.outcome == "in-doubt":
        return "may have been made. Do not make it again: a human has to find out."
    if action.outcome == "failed":
        return f"failed: {action.error}"
    return "was cut short. Look at what it left before you make it again."


def _news(left: list[takeback.Action]) -> str:
    if not left:
        return ""
    head = "The process of this conversation was interrupted before you got the results of these calls:"
    calls = (f"{one.name} {json.dumps(one.arguments, ensure_ascii=False)}" for one in left)
    return "\n".join([head, *(f"- {call} {_fate(one)}" for call, one in zip(calls, left, strict=True))])


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)


def _original(call_id: str) -> str:
    return call_id.removesuffix(_CHANGED)
