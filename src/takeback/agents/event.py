"""What a hook is told and what it answers, in words that are the same for every agent."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Kind(StrEnum):
    SESSION = "session"
    """A session begins, or goes on."""
    PROMPT = "prompt"
    """The human said something."""
    NOTICE = "notice"
    """The client says something to its agent in the human's place, such as that work in the background is over."""
    BEGIN = "begin"
    """A tool is about to be used."""
    GATE = "gate"
    """May this be done? It is asked in addition to BEGIN, or instead of it, and nothing is begun by it."""
    END = "end"
    """A tool was used. What it started in the background may still be at work."""
    FAILED = "failed"
    AGENT_BEGIN = "agent-begin"
    """A subagent begins."""
    AGENT_END = "agent-end"
    STOP = "stop"
    """The agent has nothing more to do for this prompt. Its subagents may."""
    SESSION_END = "session-end"
    IGNORED = "ignored"
    """Nothing that matters here, or that is known."""
    UNREADABLE = "unreadable"
    """It cannot be told what this is: the agent has to know that it is not protected."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an agent. What it did not tell is empty."""

    kind: Kind
    name: str = ""
    """As the agent calls it."""
    session: str = ""
    prompt: str = ""
    """The id of the prompt that is being worked on."""
    text: str = ""
    """The words of a prompt."""
    call: str = ""
    """The id of the tool call."""
    call_is_alike: bool = False
    """The agent gives no id: `call` is made of the tool and its arguments, so calls that are alike have the same."""
    tool: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    command: str = ""
    """What a shell is to run."""
    background: bool = False
    """It goes on after its end was told."""
    alone: bool = False
    """The agent uses no other tool while it uses this one. So if it begins another, this one is over, told or not."""
    reads: bool = False
    """It is a tool of the agent's own that only looks. What others bring along may do anything, whatever its name."""
    edits: bool = False
    """It is a tool of the agent's own that writes the files which it names, and does nothing else."""
    delegates: bool = False
    """It only has a subagent work, whose own calls are told too."""
    quiet: bool = False
    """Nothing of the session is at work in the background any more."""
    paths: tuple[str, ...] = ()
    """Those that an editing tool names, from the root of the file system on where that can be known."""
    unattended: bool = False
    """Nobody sits at the client: what it would ask its human is refused without a word."""
    cwd: str = ""
    root: str = ""
    """The project."""
    actor: str = ""
    """The subagent; empty for the agent itself."""
    actor_kind: str = ""
    parent: str = ""
    """The session that this one was started by."""
    result: Any = None
    error: str = ""
    transcript: str = ""
    why: str = ""
    """Why it is unreadable."""


class Permission(StrEnum):
    ALLOW = "allow"
    """Takeback has nothing against it. Whether the agent asks its human is as it was."""
    ASK = "ask"
    DENY = "deny"


class HookDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent is to be answered."""

    do: Permission = Permission.ALLOW
    reason: str = ""
    """Why not, or why it is asked; for the agent and the human."""
    how: str = ""
    """What a human can do to allow it, for agents that cannot ask theirs."""
    context: str = ""
    """What the agent has to know, such as what was taken back."""
    warning: str = ""
    """What the human has to know, and the model does not hear."""


class HookAnswer(msgspec.Struct, frozen=True):
    """How the hook ends, in the agent's own dialect."""

    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0


SILENT = HookAnswer()
