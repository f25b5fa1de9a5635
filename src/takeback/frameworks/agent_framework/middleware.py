"""Middleware for agents of agent-framework: each tool call is an action of the session's thread.

A call that was made is not made again, whichever process runs the turn again. One that needs approval is asked about
as the framework's own approvals are. The session is kept, and goes back together with the world.
"""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from agent_framework import (
    AgentMiddleware,
    AgentSession,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionMiddleware,
    Message,
    MiddlewareBundle,
    MiddlewareFailure,
    MiddlewareTermination,
    ResponseStream,
)

import takeback
from takeback.errors import UsageError
from takeback.frameworks.answering import AnswersWithCalls, question
from takeback.frameworks.calling import UNKEPT, FailedBefore, HumanAnswer, Threads, Told, amaking, keep
from takeback.frameworks.session_items import SessionItems
from takeback.workspace.workspace import Workspace

AGENT_FRAMEWORK = "agent-framework"
STATE = "takeback"
"""Where in the state of a session the number of its runs is."""

Next = Callable[[], Awaitable[None]]

# Only a bundle is middleware for runs, models and tools at once. The framework warns once for each process that
# bundles may change, which is for us to follow, and not for our users.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    MiddlewareBundle([])


class TakebackMiddleware(MiddlewareBundle):
    """Makes the tool calls of an agent actions that can be taken back, and that happen once.

        undoing = TakebackMiddleware("./project")
        agent = Agent(client, tools=tools, middleware=[undoing])
        await agent.run("go", session=undoing.session("1"))

    The effect of a tool is what `@takeback.action` declares of its function, and unknown without a declaration.
    """

    def __init__(self, workspace: Workspace | str | os.PathLike[str]) -> None:
        threads = Threads(workspace, AGENT_FRAMEWORK)
        runs: dict[str, SessionRun] = {}
        super().__init__([_Turns(threads, runs), _Calls(threads, runs), _Questions(runs)])
        self._threads = threads

    @property
    def workspace(self) -> Workspace:
        """The workspace in which the tools work."""
        return self._threads.workspace

    def session(self, session_id: str) -> AgentSession:
        """Return a session as it was after its last run, or a new one: for `agent.run(session=…)`."""
        items = _items(self.workspace, session_id).items()
        rests = [item["rest"] for item in items if "rest" in item]
        if not rests:
            return AgentSession(session_id=session_id)
        return AgentSession.from_dict(_joined(rests[-1], items))

    async def asession(self, session_id: str) -> AgentSession:
        """Do what `session` does, without blocking the event loop."""
        return await asyncio.to_thread(self.session, session_id)

    def go_back(self, session_id: str, *, keep: int) -> takeback.RollbackReport:
        """Go back to the end of the first `keep` runs: take back what the tools did since, and forget what was said.

        The world goes first. If not all of it can be taken back, RollbackIncomplete is raised, and the session stays
        as it is. After a crash in between, call it again.
        """
        known = sum("rest" in item for item in _items(self.workspace, session_id).items())
        if not 0 <= keep <= known:
            raise UsageError(
                f"session {session_id} has {known} runs, so {keep} cannot be kept; nothing was taken back",
                hint="a run that ended for an approval counts, too",
            )
        return gone_back(self.workspace, session_id, keep)

    async def ago_back(self, session_id: str, *, keep: int) -> takeback.RollbackReport:
        """Do what `go_back` does, without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.go_back(session_id, keep=keep))


class SessionRun:
    """One run of an agent: a turn of its session's thread."""

    def __init__(self, thread: takeback.Thread, number: int) -> None:
        self.thread = thread
        self.number = number
        self.turn = thread.turn(f"run {number}")
        self.answers = AnswersWithCalls(thread)


class _Turns(AgentMiddleware):
    """Makes each run a turn: its end stores the session, and commits."""

    def __init__(self, threads: Threads, runs: dict[str, SessionRun]) -> None:
        self._threads, self._runs = threads, runs

    async def process(self, context: Any, call_next: Next) -> None:
        session = context.session
        if session is None:
            raise UsageError(
                "an agent without a session has no thread; the model was not asked",
                hint="agent.run(…, session=middleware.session(id))",
            )
        if session.session_id in self._runs and _is_inside_a_call():
            await call_next()  # an agent as a tool that shares the session: a part of the turn
            return
        run = SessionRun(self._threads.of(session.session_id), runs_of(session))
        self._runs[session.session_id] = run
        await asyncio.to_thread(self._note_refusals, run.thread, context.messages)
        # Entered in a thread: the context of this task is not that of the tools, nor that of a stream's consumer.
        await asyncio.to_thread(run.turn.__enter__)

        async def finish(response: Any) -> None:
            await asyncio.to_thread(run.turn.__exit__, None, None, None)
            self._runs.pop(session.session_id, None)
            session.state[STATE] = {"runs": run.number + 1}
            await asyncio.to_thread(_save, self._threads.workspace, session)
            if not response.user_input_requests:
                await run.thread.acommit()

        if context.stream:
            context.stream_result_hooks.append(finish)
            await call_next()
            return
        try:
            await call_next()
        except Exception as error:
            await asyncio.to_thread(run.turn.__exit__, type(error), error, None)
            raise
        await finish(context.result)

    def _note_refusals(self, thread: takeback.Thread, messages: Sequence[Message]) -> None:
        """Record refusals: the framework does not run the tool of a call that was refused, nor its middleware."""
        for content in (content for message in messages for content in message.contents):
            if content.type == "function_approval_response" and content.approved is not True:
                self._threads.refuse(thread, content.function_call.call_id, _answer(content))


class _Questions(ChatMiddleware):
    """Asks the model, unless calls of its answer to exactly this were begun: then they come with the same ids."""

    def __init__(self, runs: dict[str, SessionRun]) -> None:
        self._runs = runs

    async def process(self, context: Any, call_next: Next) -> None:
        run = self._runs.get(context.session.session_id) if context.session else None
        if run is None:
            await call_next()
            return
        said = [_asked(message) for message in context.messages]
        asked = question(f"{run.turn.ref}, asked after {len(said)}", said)
        if kept := await run.answers.recorded(asked):
            answer = ChatResponse.from_dict(kept)
            run.answers.known(asked, _calls_in(answer))
            context.result = _streamed(answer) if context.stream else answer
            return

        def note(response: ChatResponse) -> None:
            if ids := _calls_in(response):
                run.answers.made(asked, json.loads(json.dumps(response.to_dict())), ids)

        if context.stream:
            context.stream_result_hooks.append(note)
        await call_next()
        if not context.stream:
            note(context.result)


class _Calls(FunctionMiddleware):
    """Makes a tool call, unless it was made already."""

    def __init__(self, threads: Threads, runs: dict[str, SessionRun]) -> None:
        self._threads, self._runs = threads, runs

    async def process(self, context: Any, call_next: Next) -> None:
        run = self._runs.get(context.session.session_id) if context.session else None
        if run is None:
            # Any other exception would be told to the model, and the tool would be called without a record.
            raise MiddlewareFailure(f"{context.function.name} was called outside a run; it was not made")
        call_id = context.metadata["call_id"]
        try:
            await run.answers.before(call_id)
            with run.turn.here():
                begun = await self._threads.abegin(
                    run.thread,
                    context.function.name,
                    _plain(context.arguments),
                    call_id=call_id,
                    scope=run.answers.scope_of(call_id) or run.turn.ref,
                    declared=takeback.declared(context.function),
                    ref=str(run.number),
                    answering=lambda _: _approved(context),
                )
        except takeback.TakebackError as error:
            raise MiddlewareFailure(str(error)) from error
        if isinstance(begun, Told):
            _tell(begun, context)
            return
        failed: list[Exception] = []
        try:
            async with amaking(run.thread, begun):
                try:
                    await call_next()
                except Exception as error:
                    failed.append(error)
                    raise
                keep(begun, recorded(context.result))
        except Exception as error:
            if error in failed:
                raise
            # Told to the model, it might have the call made a second time.
            raise MiddlewareFailure(str(error)) from error


def runs_of(session: Any) -> int:
    """Return how many runs a session has had."""
    return int(session.state.get(STATE, {}).get("runs", 0))


def gone_back(workspace: Workspace, session_id: str, keep: int) -> takeback.RollbackReport:
    """Take back what was done in a session after its first runs, and then forget what was said after them."""
    thread = workspace.thread(key=f"{AGENT_FRAMEWORK}/{session_id}")
    first = next((action for action in thread.actions() if int(action.ref) >= keep), None)
    report = thread.go_back((first.turn or first) if first else None)
    _cut(_items(workspace, session_id), keep)
    return report


def _is_inside_a_call() -> bool:
    try:
        takeback.current_call()
    except UsageError:
        return False
    return True


def _approved(context: Any) -> HumanAnswer | None:
    response = context.metadata.get("approval_response")
    return _answer(response) if response is not None else None


def _answer(response: Any) -> HumanAnswer:
    by = (response.additional_properties or {}).get("by")
    return HumanAnswer(response.approved is True, str(by) if by else "the host program")


def _tell(told: Told, context: Any) -> None:
    """Set what the model gets in place of a call that must not be made now, or ask the human."""
    name, call_id = context.function.name, context.metadata["call_id"]
    if told.ask:
        occurrence = context.metadata.get("function_call_occurrence_id")
        call = Content.from_function_call(call_id, name, arguments=_plain(context.arguments), id=occurrence)
        context.result = Content.from_function_approval_request(
            id=occurrence or call_id,
            function_call=call,
            additional_properties={"reason": told.ask.reason, "approval": told.ask.approval},
        )
        raise MiddlewareTermination(str(told.ask))
    if told.failure:
        raise FailedBefore(told.failure.text)
    if not told.is_done:
        context.result = f"Error: {told.why}"
    else:
        context.result = returned(told.value, found=told.found)


# Sessions as items: a message is stored once, however many runs follow it.


def _items(workspace: Workspace, session_id: str) -> SessionItems:
    return SessionItems(workspace, f"{AGENT_FRAMEWORK}/{session_id}")


def _cut(items: SessionItems, keep: int) -> None:
    """Remove what was stored after the first runs."""
    stored = items.items()
    ends = [number for number, item in enumerate(stored, start=1) if "rest" in item]
    if keep < len(ends):
        for _ in stored[ends[keep - 1] if keep else 0 :]:
            items.pop()


def _save(workspace: Workspace, session: AgentSession) -> None:
    """Store a session: what is new of its messages, and the rest of it. A run that is stored already is replaced."""
    items = _items(workspace, session.session_id)
    _cut(items, runs_of(session) - 1)
    stored: dict[str, list[Any]] = {}
    for item in items.items():
        if "message" in item:
            stored.setdefault(item["of"], []).append(item["message"])
    rest, new = session.to_dict(), []
    rest["spans"] = {}
    for provider, state in rest["state"].items():
        if not (isinstance(state, dict) and isinstance(state.get("messages"), list)):
            continue
        said, known = state.pop("messages"), stored.get(provider, [])
        # The newest messages that are stored may be the first of those that are said now.
        start = next((n for n in range(len(known)) if known[n:] == said[: len(known) - n]), len(known))
        new += [{"of": provider, "message": message} for message in said[len(known) - start :]]
        rest["spans"][provider] = [start, start + len(said)]
    items.add([*new, {"rest": rest}])


def _joined(rest: dict[str, Any], items: list[Any]) -> dict[str, Any]:
    """Return a session as the framework stores it, with the messages that belong to it."""
    found: dict[str, Any] = {name: value for name, value in rest.items() if name != "spans"}
    for provider, (start, end) in rest["spans"].items():
        said = [item["message"] for item in items if item.get("of") == provider]
        found["state"][provider]["messages"] = said[start:end]
    return found


# Results, answers and questions as JSON values


def recorded(result: Any) -> Any:
    """Return what a tool returned, as JSON values; UNKEPT if that is impossible."""
    if isinstance(result, list) and all(isinstance(item, Content) for item in result):
        result = {"contents": [item.to_dict() for item in result]}
    else:
        result = {"value": result}
    try:
        return json.loads(json.dumps(result, allow_nan=False))
    except (TypeError, ValueError):
        return UNKEPT


def returned(kept: Any, *, found: bool) -> Any:
    """Return what the agent gets again. `found` means that the call's check found the tool's own value."""
    if not found and "contents" in kept:
        return [Content.from_dict(item) for item in kept["contents"]]
    value = kept if found else kept["value"]
    return value if isinstance(value, str) else json.dumps(value)


def _asked(message: Message) -> Any:
    """Return what a message says: role, texts, calls and results. Ids of messages and what a provider adds differ."""
    names = ("type", "text", "name", "arguments", "call_id", "result", "approved")
    contents = [content.to_dict() for content in message.contents]
    return {"role": str(message.role), "said": [{name: one.get(name) for name in names} for one in contents]}


def _calls_in(answer: ChatResponse) -> list[str]:
    contents = (content for message in answer.messages for content in message.contents)
    return [content.call_id for content in contents if content.type == "function_call"]


def _streamed(answer: ChatResponse) -> ResponseStream:
    """Return an answer as a stream, in one piece for each of its messages."""

    async def updates() -> AsyncIterator[ChatResponseUpdate]:
        for message in answer.messages:
            yield ChatResponseUpdate(
                contents=message.contents,
                role=message.role,
                message_id=message.message_id,
                response_id=answer.response_id,
                finish_reason=answer.finish_reason,
            )

    return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


def _plain(arguments: Any) -> dict[str, Any]:
    return dict(arguments.model_dump(mode="json") if hasattr(arguments, "model_dump") else arguments)
