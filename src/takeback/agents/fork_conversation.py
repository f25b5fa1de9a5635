"""Forking an agent's conversation, to continue from before what was taken back.

Claude Code can resume a session up to any entry of its transcript, as a fork. The transcript is only read here.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterable
from typing import Any

import msgspec

from takeback.core.entities import RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.errors import BackendError

FORKING = ("claude-code", "ruflo")
SAYING = (
    "What you did after this point was taken back. Read files again before you rely on them. "
    "Do nothing now; wait for the user."
)
# For this one question the agent can only read: whatever its settings allow, it must not repeat what was taken back.
# Without any tool at all, the client might not accept a conversation that has used some.
ONLY_LOOKING = ("--tools", "Read", "--strict-mcp-config")
WAIT_S = 600


class Fork(msgspec.Struct, frozen=True):
    """A fork of one session's conversation, from before an action."""

    session: str
    action: str
    folder: str
    command: tuple[str, ...]
    exact: bool
    """Whether it begins right before the action; otherwise it has the whole conversation."""

    def __str__(self) -> str:
        return f"cd {shlex.quote(self.folder)} && {shlex.join(self.command)}"

    def data(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)

    def make(self) -> str:
        """Let the client make the fork, which queries its model. Return the id of the new session."""
        try:
            words = [*self.command, "--output-format", "json"]
            done = subprocess.run(
                words, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S
            )
            return str(json.loads(done.stdout)["session_id"])
        except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
            raise BackendError(
                f"the conversation could not be forked ({error}); what was taken back stays taken back",
                hint=f"fork it yourself: {self}",
            ) from error


def forks(history: History, taken_back: Iterable[str]) -> list[Fork]:
    """Return a fork for each session with actions that were taken back, from before the first of them."""
    first: dict[str, RecordedAction] = {}
    for action in sorted((history.actions[id] for id in taken_back), key=lambda action: action.seq):
        run = history.runs.get(action.stream)
        if run and run.began.detached and run.began.name in FORKING and action.is_tool:
            first.setdefault(run.id, action)
    return [_fork(history.runs[run], action) for run, action in first.items()]


def _fork(run: RecordedRun, action: RecordedAction) -> Fork:
    entry = _entry_before(run.began.ref, action.as_tool.key)
    session = run.began.session
    words = ["claude", "--resume", session, "--fork-session"]
    if entry:  # --resume-session-at works only with a prompt
        words = ["claude", "-p", SAYING, *ONLY_LOOKING, *words[1:], "--resume-session-at", entry]
    return Fork(session, action.id, run.began.folder, tuple(words), exact=bool(entry))


def _entry_before(transcript: str, call: str) -> str:
    """Return the entry of the transcript right before a call, or "" if it is unknown."""
    named = call.encode()
    try:
        with open(transcript, "rb") as lines:
            for line in lines:
                if named in line and (found := _parent(line, call)):
                    return found
    except (OSError, ValueError):
        return ""
    return ""


def _parent(line: bytes, call: str) -> str:
    entry = json.loads(line)
    message = entry.get("message") if isinstance(entry, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    asked = any(
        isinstance(part, dict) and part.get("type") == "tool_use" and part.get("id") == call
        for part in (content if isinstance(content, list) else ())
    )
    before = entry.get("parentUuid") if asked else None
    return before if isinstance(before, str) else ""
