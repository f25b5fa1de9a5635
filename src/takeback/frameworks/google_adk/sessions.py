"""A session service for Google ADK: sessions and their state are stored beside the history, never in the workspace.

An event is durable when `append_event` returns.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
import weakref
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic_core import PydanticSerializationError, to_jsonable_python

from takeback.errors import UsageError
from takeback.frameworks.session_items import SessionItems, names_of
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

SESSIONS = "google-adk"
_SHARED = "google-adk-state"
_REDELIVERED_MAX = 20  # how far back an event is looked for that a caller appends again

Value = TypeVar("Value")


class TakebackSessionService(BaseSessionService):
    """Keeps the sessions of apps: events, and the state of sessions, users and apps.

    TakebackSessionService("./project")
    """

    def __init__(self, workspace: Workspace | str | os.PathLike[str]) -> None:
        if isinstance(workspace, Workspace):
            self.workspace = workspace
        else:
            self.workspace = open_workspace(workspace)
            weakref.finalize(self, self.workspace.close)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. Raise AlreadyExistsError if there is one with this id."""
        id = (session_id or "").strip() or str(uuid.uuid4())
        own, shared = _by_scope(state or {}, app_name, user_id)

        def create() -> Session:
            items = self._items(app_name, user_id, id)
            if items.position():
                raise AlreadyExistsError(f"Session with id {id} already exists.")
            items.add([{"created": {"state": _jsonable(own), "at": time.time()}}])
            self._share(shared)
            found = self._read(app_name, user_id, id)
            assert found is not None
            return found

        return await _in_a_thread(create)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its events, or only with those that `config` asks for; None if there is none."""
        session = await _in_a_thread(lambda: self._read(app_name, user_id, session_id.strip()))
        if session is None or config is None:
            return session
        if config.num_recent_events is not None:
            session.events = session.events[-config.num_recent_events :] if config.num_recent_events else []
        if (after := config.after_timestamp) is not None:
            session.events = [event for event in session.events if event.timestamp >= after]
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of an app, or of one of its users, without events; the one used last comes last."""

        def read() -> list[Session]:
            prefix = "/".join([SESSIONS, *map(_quoted, (app_name, *([user_id] if user_id else [])))]) + "/"
            found = []
            for name in names_of(self.workspace, prefix):
                _, app, user, id = map(unquote, name.split("/"))
                if session := self._read(app, user, id):
                    session.events = []
                    found.append(session)
            return sorted(found, key=lambda one: (one.last_update_time, one.user_id, one.id))

        return ListSessionsResponse(sessions=await _in_a_thread(read))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session. What its tools did stays in the history, and can be taken back."""
        await _in_a_thread(self._items(app_name, user_id, session_id.strip()).clear)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that all sessions of a user share, without the prefix of its keys."""
        return await _in_a_thread(lambda: self._shared(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to a session, and apply what it changes in the state. A partial event is not stored."""
        if event.partial:
            return event
        items = self._items(session.app_name, session.user_id, session.id)
        recent = await _in_a_thread(lambda: items.items(_REDELIVERED_MAX))
        if not recent:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        if any(item["event"]["id"] == event.id for item in recent if "event" in item):
            return event
        event = await super().append_event(session=session, event=event)
        session.last_update_time = event.timestamp
        changed = event.actions.state_delta if event.actions else {}
        _, shared = _by_scope(changed or {}, session.app_name, session.user_id)

        def store() -> None:
            self._share(shared)
            items.add([{"event": _jsonable(event)}])

        await _in_a_thread(store)
        return event

    # What is stored

    def _items(self, app: str, user: str, id: str) -> SessionItems:
        return SessionItems(self.workspace, "/".join((SESSIONS, _quoted(app), _quoted(user), _quoted(id))))

    def _read(self, app: str, user: str, id: str) -> Session | None:
        items = self._items(app, user, id).items()
        if not items:
            return None
        created = items[0]["created"]
        state, events = dict(created["state"]), []
        for item in items[1:]:
            events.append(Event.model_validate(item["event"]))
            own, _ = _by_scope(events[-1].actions.state_delta or {}, app, user)
            state.update(own)
        for prefix, shared in (
            (State.APP_PREFIX, self._shared(app)),
            (State.USER_PREFIX, self._shared(app, user)),
        ):
            state.update({prefix + key: value for key, value in shared.items()})
        last = events[-1].timestamp if events else created["at"]
        return Session(app_name=app, user_id=user, id=id, state=state, events=events, last_update_time=last)

    def _shared(self, *owner: str) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for change in SessionItems(self.workspace, _owned(owner)).items():
            state.update(change)
        return state

    def _share(self, changes: dict[tuple[str, ...], dict[str, Any]]) -> None:
        for owner, change in changes.items():
            if change:
                SessionItems(self.workspace, _owned(owner)).add([_jsonable(change)])


def _by_scope(
    state: dict[str, Any], app: str, user: str
) -> tuple[dict[str, Any], dict[tuple[str, ...], dict[str, Any]]]:
    """Return the part of a state that belongs to the session, and the parts that others share, by their owner."""
    own: dict[str, Any] = {}
    shared: dict[tuple[str, ...], dict[str, Any]] = {(app,): {}, (app, user): {}}
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            shared[app,][key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            shared[app, user][key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            own[key] = value
    return own, shared


def _owned(owner: tuple[str, ...]) -> str:
    return "/".join((_SHARED, *map(_quoted, owner)))


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _jsonable(value: Any) -> Any:
    try:
        if isinstance(value, Event):
            return value.model_dump(mode="json", exclude_none=True)
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise UsageError(
            f"the session has a value that JSON lacks, so it was not stored: {error}",
            hint="keep plain values in the state of sessions",
        ) from error


async def _in_a_thread(work: Callable[[], Value]) -> Value:
    """Run it in a thread, since a sync of the disk must not stop the event loop."""
    return await asyncio.to_thread(work)
