"""A plugin for apps of Google ADK: each tool call is an action of the session's thread.

ADK stores a call before its tool runs, and resumes an invocation by calling the tool again, at least once. With the
plugin it is called once. ADK's rewind leaves the world as it is; that of the plugin takes the world along.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin

import takeback
from takeback.errors import UsageError
from takeback.frameworks.calling import HumanAnswer, Threads, Told, keep
from takeback.frameworks.google_adk.sessions import SESSIONS, TakebackSessionService
from takeback.workspace.workspace import Workspace


class TakebackPlugin(BasePlugin):
    """Makes the tool calls of an app actions that can be taken back, and that happen once.

        service = TakebackSessionService("./project")
        app = App(name="desk", root_agent=agent, plugins=[TakebackPlugin(service)])

    Put it first in the list of plugins. The effect of a tool is what `@takeback.action` declares of its function, and
    unknown without a declaration.
    """

    def __init__(
        self,
        workspace: Workspace | TakebackSessionService | str | os.PathLike[str],
        *,
        name: str = "takeback",
    ) -> None:
        super().__init__(name=name)
        where = workspace.workspace if isinstance(workspace, TakebackSessionService) else workspace
        self._threads = Threads(where, SESSIONS)
        self._turns: dict[str, takeback.Turn] = {}
        self._begun: dict[tuple[str, str], takeback.Action] = {}

    @property
    def workspace(self) -> Workspace:
        """The workspace in which the tools work."""
        return self._threads.workspace

    async def rewind(
        self, runner: Any, *, user_id: str, session_id: str, rewind_before_invocation_id: str
    ) -> takeback.RollbackReport:
        """Rewind a session to before an invocation, and take back what the tools did from there on.

        The world goes first. If not all of it can be taken back, RollbackIncomplete is raised, and the session stays
        as it is. After a crash in between, call it again.
        """
        where = {"user_id": user_id, "session_id": session_id}
        session = await runner.session_service.get_session(app_name=runner.app_name, **where)
        events = session.events if session else []
        ids = list(dict.fromkeys(event.invocation_id for event in events))
        if rewind_before_invocation_id not in ids:
            raise UsageError(
                f"session {session_id} has no invocation {rewind_before_invocation_id}; nothing was taken back",
                hint="the events of the session name their invocations",
            )
        later = set(ids[ids.index(rewind_before_invocation_id) :])
        thread = self._threads.of(f"{runner.app_name}/{user_id}/{session_id}")
        first = next((action for action in await thread.aactions() if action.ref in later), None)
        report = await thread.ago_back((first.turn or first) if first else None)
        await runner.rewind_async(**where, rewind_before_invocation_id=rewind_before_invocation_id)
        return report

    # An invocation is a turn

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Begin the turn of an invocation, or go on with it."""
        turn = self._thread(invocation_context.session).turn(invocation_context.invocation_id)
        # Entered in a thread: ADK's generator shares the context of whoever consumes it, in which nothing is to stay.
        await asyncio.to_thread(turn.__enter__)
        self._turns[turn.ref] = turn

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """End the turn, and commit what it did, unless it waits for a human or was left before its end."""
        await self._leave(invocation_context.invocation_id, None)
        if _is_complete(invocation_context.session.events):
            await self._thread(invocation_context.session).acommit()

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """End the turn as failed. What it did stays, and can be taken back."""
        await self._leave(invocation_context.invocation_id, error)

    async def _leave(self, invocation: str, error: Exception | None) -> None:
        for place in [place for place in self._begun if place[0] == invocation]:
            # Another plugin or a callback kept its end from us.
            await self._ended(place, error="its end was not reported", presumed=True)
        if turn := self._turns.pop(invocation, None):
            await asyncio.to_thread(turn.__exit__, type(error) if error else None, error, None)

    # Tools

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """Begin a call, or return what is recorded of it: then its tool is not called."""
        turn = self._turns.get(tool_context.invocation_id)
        with turn.here() if turn else nullcontext():
            begun = await self._threads.abegin(
                self._thread(tool_context.session),
                tool.name,
                tool_args,
                call_id=tool_context.function_call_id,
                scope=_event_of(tool_context),
                declared=takeback.declared(tool),
                ref=tool_context.invocation_id,
                answering=lambda _: _answered(tool_context.tool_confirmation),
            )
        if isinstance(begun, Told):
            return _told(begun, tool.name, tool_context)
        self._begun[tool_context.invocation_id, tool_context.function_call_id] = await begun.__aenter__()
        return None

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> dict[str, Any] | None:
        """Record what a tool returned."""
        place = (tool_context.invocation_id, tool_context.function_call_id)
        if place in self._begun:
            keep(self._begun[place], result)
            await self._ended(place)
        return None

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> dict[str, Any] | None:
        """Record that a tool failed, or that its task was cancelled."""
        place = (tool_context.invocation_id, tool_context.function_call_id)
        if action := self._begun.pop(place, None):
            await action.__aexit__(type(error), error, None)
        return None

    def _thread(self, session: Any) -> takeback.Thread:
        return self._threads.of(f"{session.app_name}/{session.user_id}/{session.id}")

    async def _ended(self, place: tuple[str, str], **how: Any) -> None:
        action = self._begun.pop(place)
        if how:
            await action.aend(**how)
        await action.__aexit__(None, None, None)


def _event_of(tool_context: Any) -> str:
    """Return the id of the event that asked for a call: some providers count the calls of each answer from 0."""
    for event in reversed(tool_context.session.events):
        if any(call.id == tool_context.function_call_id for call in event.get_function_calls()):
            return str(event.id)
    return ""


def _is_complete(events: list[Any]) -> bool:
    """Return whether the model has given its last answer, and nothing waits for a human."""
    last = next((event for event in reversed(events) if event.content), None)
    if last is None or last.long_running_tool_ids or last.get_function_responses():
        return False
    return bool(last.is_final_response())


def _answered(confirmation: Any) -> HumanAnswer | None:
    """Return what a human answered through ADK's confirmation of tools."""
    if confirmation is None:
        return None
    by = confirmation.payload.get("by") if isinstance(confirmation.payload, dict) else None
    return HumanAnswer(confirmation.confirmed, str(by)) if by else HumanAnswer(confirmation.confirmed)


def _told(told: Told, name: str, tool_context: Any) -> dict[str, Any]:
    """Return what the model gets in place of a call that must not be made now."""
    if told.ask:
        tool_context.request_confirmation(hint=told.ask.reason, payload={"id": told.ask.approval})
        tool_context.actions.skip_summarization = True  # the model is not to be asked before the human is
        return {"error": f"{name} waits for the approval of a human."}
    if not told.is_done:
        return {"error": told.why}
    return told.value if isinstance(told.value, dict) else {"result": told.value}
