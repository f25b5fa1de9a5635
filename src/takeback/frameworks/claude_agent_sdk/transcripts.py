"""The transcripts of sessions, in the store of the workspace: what the SDK resumes from, and what goes back with the
world."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from anyio import to_thread
from claude_agent_sdk import fold_session_summary

import takeback
from takeback.core.conversation import Snapshot, Spot, StatePiece
from takeback.errors import UsageError
from takeback.frameworks.calling import Threads
from takeback.frameworks.claude_agent_sdk.sessions import ClaudeSessions, LostResult
from takeback.workspace.store.conversations import conversations_of
from takeback.workspace.workspace import Workspace

FRAMEWORK = "claude_agent_sdk"
MAIN = "main"
"""The space of a session's own transcript. Those of its subagents are called by their subpaths."""
_SUB = "sub/"
_JSON = "json"

T = TypeVar("T")


class TranscriptBatch(NamedTuple):
    """Entries that were stored at once, with what is known of the transcript up to them."""

    spot: Spot
    entries: list[Any]
    at_ms: int
    summary: Any


class TakebackSessionStore:
    """A session store of the SDK that keeps transcripts beside the history, and takes them back with the world.

        store = TakebackSessionStore("./project")
        ClaudeAgentOptions(**options(store, resume=session_id))
        store.go_back(session_id, message_uuid)

    An entry is durable when `append` returns. Results in it count as delivered from then on.
    """

    def __init__(self, workspace: Workspace | str | os.PathLike[str]) -> None:
        threads = Threads(workspace, FRAMEWORK)
        self.workspace = threads.workspace
        self.sessions = ClaudeSessions(threads)
        self._store = conversations_of(self.workspace)
        self._known: dict[tuple[str, str], tuple[str, set[str]]] = {}
        self._lock = threading.RLock()

    # What the SDK calls

    async def append(self, key: Any, entries: list[Any]) -> None:
        """Store entries, without those that are stored already."""
        await _in_thread(partial(self._append, key, entries))

    async def load(self, key: Any) -> list[Any] | None:
        """Return the entries of a transcript; None if there are none.

        Before a session goes on, what a killed host left at work is waited for or ended.
        """
        return await _in_thread(partial(self._load, key))

    async def list_sessions(self, project_key: str) -> list[Any]:
        """Return the sessions of a project, and when each was stored last."""
        found = await _in_thread(partial(self._newest, project_key))
        return [{"session_id": id, "mtime": batch.at_ms} for id, batch in found]

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """Return the SDK's own summaries of the sessions of a project."""
        found = await _in_thread(partial(self._newest, project_key))
        return [{**batch.summary, "mtime": batch.at_ms} for _, batch in found]

    async def delete(self, key: Any) -> None:
        """Delete a session with the transcripts of its subagents, or only one of those."""
        await _in_thread(partial(self._delete, key))

    async def list_subkeys(self, key: Any) -> list[str]:
        """Return the subpaths of a session's subagents."""
        return await _in_thread(partial(self._subpaths, _name(key)))

    # Going back

    def go_back(self, session_id: str, message_uuid: str) -> takeback.RollbackReport:
        """Go back to a message: take back what the tools did after it, and forget what was said after it.

        The world goes first. If not all of it can be taken back, RollbackIncomplete is raised, and the transcript
        stays as it is. After a crash in between, call it again. Resume the session afterwards: a program that is
        still at work has the old transcript in memory.
        """
        name, batch, kept = self._place_of(session_id, message_uuid)
        before = [one for one in self._batches(name) if one.spot.id < batch.spot.id]
        after = [one for one in self._batches(name) if one.spot.id > batch.spot.id]
        remaining = {id for one in before for id in _calls_in(one.entries)} | _calls_in(batch.entries[:kept])
        gone = {id for one in after for id in _calls_in(one.entries)} | _calls_in(batch.entries[kept:])
        report = self.sessions.take_back(session_id, batch.spot.id, remaining, gone)
        with self._lock:
            self._store.delete_after(name, batch.spot.id)
            if kept < len(batch.entries):
                earlier = next((one for one in before if one.spot.space == batch.spot.space), None)
                self._put(_key_of(name), batch.spot, batch.entries[:kept], earlier)
            self._known.clear()
        return report

    async def ago_back(self, session_id: str, message_uuid: str) -> takeback.RollbackReport:
        """Do what `go_back` does, without blocking the event loop."""
        return await _in_thread(partial(self.go_back, session_id, message_uuid))

    def _place_of(self, session_id: str, message_uuid: str) -> tuple[str, TranscriptBatch, int]:
        """Return the session's name, the batch of its own transcript with a message, and how many entries stay."""
        names = [name for name in self._store.threads() if name.endswith(f"/{quote(session_id, safe='')}")]
        for name in filter(lambda one: one.startswith(f"{FRAMEWORK}/"), names):
            for batch in self._batches(name, MAIN):
                for number, entry in enumerate(batch.entries):
                    if message_uuid and entry.get("uuid") == message_uuid:
                        return name, batch, number + 1
        raise UsageError(
            f"session {session_id} has no message {message_uuid or 'without a uuid'}; nothing was taken back",
            hint="`get_session_messages_from_store(store, session_id)` lists the messages of a session",
        )

    # The same in the thread of the caller

    def _append(self, key: Any, entries: Sequence[Any]) -> None:
        if position := self._add(key, entries):
            prompted = any(entry.get("type") == "user" and not _results_in([entry]) for entry in entries)
            session = self.sessions.of(key["session_id"])
            session.stored(_results_in(entries), position, has_prompt=prompted)

    def _add(self, key: Any, entries: Sequence[Any]) -> str:
        """Store what is new among entries, and return its position; empty if nothing is."""
        name, space = _name(key), _space(key)
        with self._lock:
            last = next(self._batches(name, space), None)
            known = self._uuids(name, space, last)
            new = []
            for entry in entries:
                if not (id := entry.get("uuid")) or id not in known:
                    new.append(entry)
                    known |= {id} if id else set()
            if not new:
                return ""
            newest = next((spot.id for spot, _ in self._store.spots(name)), "")
            # Processes that append at the same time get different ids, so that nothing replaces anything.
            number = int(newest.partition("-")[0] or 0) + 1
            spot = Spot(name, space, f"{number:012}-{secrets.token_hex(4)}")
            self._put(key, spot, new, last)
            self._known[name, space] = spot.id, known
            return spot.id

    def _uuids(self, name: str, space: str, last: TranscriptBatch | None) -> set[str]:
        position, known = self._known.get((name, space), ("", set()))
        if position == (last.spot.id if last else ""):
            return known
        entries = (entry for batch in self._batches(name, space) for entry in batch.entries)
        return {id for entry in entries if (id := entry.get("uuid"))}

    def _put(self, key: Any, spot: Spot, entries: Sequence[Any], earlier: TranscriptBatch | None) -> None:
        summary = None
        if spot.space == MAIN:
            known = earlier and earlier.summary
            summary = fold_session_summary(known, key, list(entries))
        value = {"entries": list(entries), "at": time.time_ns() // 10**6, "summary": summary}
        about = StatePiece(_JSON, json.dumps(value, allow_nan=False).encode())
        parent = earlier.spot.id if earlier else ""
        snapshot = Snapshot(spot, parent, "", (), about, StatePiece(_JSON, b"null"), ())
        while not self._store.put(self._store.token(spot.thread), snapshot, {}):
            pass  # another process removed entries meanwhile, so the token is outdated

    def _load(self, key: Any) -> list[Any] | None:
        name, space = _name(key), _space(key)
        if "subpath" not in key:
            told = {id for batch in self._batches(name) for id in _results_in(batch.entries)}
            newest = next((batch.spot.id for batch in self._batches(name)), "")
            found = self.sessions.of(key["session_id"]).resume(told, newest)
            self._complete(key, {one.id: one for one in found})
        batches = list(self._batches(name, space))[::-1]
        return [entry for batch in batches for entry in batch.entries] or None

    def _complete(self, key: Any, lost: dict[str, LostResult]) -> None:
        """Add the results that a killed host could not store, to the transcripts that have their calls."""
        name = _name(key)
        for space in dict.fromkeys(batch.spot.space for batch in self._batches(name)):
            entries = [entry for batch in self._batches(name, space) for entry in batch.entries]
            missing = [(entry, lost[id]) for entry in entries for id in _calls_in([entry]) if id in lost]
            if missing:
                made = [_result_entry(entry, one) for entry, one in missing]
                place = {} if space == MAIN else {"subpath": space.removeprefix(_SUB)}
                spot = self._add({**key, **place}, made)
                self.sessions.of(key["session_id"]).told({one.id for _, one in missing}, spot)

    def _newest(self, project_key: str) -> list[tuple[str, TranscriptBatch]]:
        start = f"{FRAMEWORK}/{quote(project_key, safe='')}/"
        names = [name for name in self._store.threads() if name.startswith(start)]
        newest = {name: next(self._batches(name, MAIN), None) for name in names}
        return [(unquote(name.removeprefix(start)), batch) for name, batch in newest.items() if batch]

    def _delete(self, key: Any) -> None:
        name = _name(key)
        with self._lock:
            self._known.clear()
            if "subpath" not in key:
                self._store.delete(name)
                return
            for batch in list(self._batches(name, _space(key))):
                self._put(key, batch.spot, [], None)

    def _subpaths(self, name: str) -> list[str]:
        spaces = dict.fromkeys(batch.spot.space for batch in self._batches(name) if batch.entries)
        return [space.removeprefix(_SUB) for space in spaces if space.startswith(_SUB)]

    def _batches(self, name: str, space: str | None = None) -> Iterator[TranscriptBatch]:
        """Yield what was stored of a session, newest first."""
        for spot, about in self._store.spots(name, space):
            value = json.loads(about.body)
            yield TranscriptBatch(spot, value["entries"], value["at"], value["summary"])


async def _in_thread(work: Callable[[], T]) -> T:
    """Run something to its end without blocking the event loop, whichever library the loop belongs to."""
    return await to_thread.run_sync(work)


def _name(key: Any) -> str:
    return f"{FRAMEWORK}/{quote(key['project_key'], safe='')}/{quote(key['session_id'], safe='')}"


def _key_of(name: str) -> dict[str, str]:
    _, project, session = name.split("/")
    return {"project_key": unquote(project), "session_id": unquote(session)}


def _space(key: Any) -> str:
    return f"{_SUB}{key['subpath']}" if "subpath" in key else MAIN


def _result_entry(asked: Any, lost: LostResult) -> Any:
    """Return the entry that the program would have written for the result of a call, which is in `asked`."""
    taken = {name: value for name, value in asked.items() if name not in ("message", "requestId", "slug")}
    block = {"type": "tool_result", "tool_use_id": lost.id, "content": lost.content}
    block |= {"is_error": True} if lost.is_error else {}
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    own = {"type": "user", "uuid": str(uuid.uuid4()), "parentUuid": asked.get("uuid"), "timestamp": now}
    return taken | own | {"message": {"role": "user", "content": [block]}}


def _blocks(entries: Sequence[Any], kind: str) -> Iterator[Any]:
    for entry in entries:
        content = (
            (entry.get("message") or {}).get("content") if isinstance(entry.get("message"), dict) else None
        )
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == kind:
                yield block


def _calls_in(entries: Sequence[Any]) -> set[str]:
    return {str(block.get("id")) for block in _blocks(entries, "tool_use")}


def _results_in(entries: Sequence[Any]) -> set[str]:
    return {str(block.get("tool_use_id")) for block in _blocks(entries, "tool_result")}
