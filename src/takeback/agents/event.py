"""Events and answers of hooks, in terms that are the same for every agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec


class Kind(StrEnum):
    SESSION = "session"
    """A session begins, or continues."""
    PROMPT = "prompt"
    """The human wrote a prompt."""
    NOTICE = "notice"
    """The client itself sends its agent a message, such as that a background command has ended."""
    BEGIN = "begin"
    """A tool is about to be used."""
    GATE = "gate"
    """The client asks for permission, in addition to BEGIN or instead of it. It begins nothing."""
    END = "end"
    """A tool was used. Processes that it started may still run in the background."""
    FAILED = "failed"
    AGENT_BEGIN = "agent-begin"
    """A subagent begins."""
    AGENT_END = "agent-end"
    STOP = "stop"
    """The agent is done with this prompt. Its subagents may not be."""
    SESSION_END = "session-end"
    IGNORED = "ignored"
    """An event that is unknown, or does not matter here."""
    UNREADABLE = "unreadable"
    """An event that cannot be read: the agent has to know that it is not protected."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an agent. Fields that the agent did not send are empty."""

    kind: Kind
    name: str = ""
    """The agent's own name for it."""
    session: str = ""
    prompt: str = ""
    """The id of the prompt that is being worked on."""
    text: str = ""
    """The text of a prompt."""
    call: str = ""
    """The id of the tool call."""
    call_is_alike: bool = False
    """The agent sends no id: `call` is derived from the tool and its arguments, so equal calls have the same one."""
    tool: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    command: str = ""
    """What a shell will run."""
    background: bool = False
    """The call continues after its end was reported."""
    alone: bool = False
    """The agent uses no other tool meanwhile. So if it begins another, this call is over, reported or not."""
    reads: bool = False
    """A built-in tool of the agent that only reads. Tools from elsewhere may do anything, whatever their name."""
    edits: bool = False
    """A built-in tool of the agent that writes the files it names, and does nothing else."""
    delegates: bool = False
    """The tool only starts a subagent, whose own calls are reported, too."""
    quiet: bool = False
    """Nothing of the session runs in the background any more."""
    paths: tuple[str, ...] = ()
    """The paths that an editing tool names, absolute if possible."""
    unattended: bool = False
    """No human sits at the client: it silently refuses what it would ask its human."""
    cwd: str = ""
    root: str = ""
    """The project."""
    actor: str = ""
    """The subagent; empty for the agent itself."""
    actor_kind: str = ""
    parent: str = ""
    """The session that started this one."""
    result: Any = None
    error: str = ""
    transcript: str = ""
    why: str = ""
    """Why it is unreadable."""


class Permission(StrEnum):
    ALLOW = "allow"
    """Takeback does not object. The agent may still ask its human."""
    ASK = "ask"
    DENY = "deny"


class HookDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an event, before it is put into a dialect."""

    do: Permission = Permission.ALLOW
    reason: str = ""
    """Why it is refused or asked; for the agent and the human."""
    how: str = ""
    """How a human can allow it, for agents that cannot ask their human."""
    context: str = ""
    """News for the agent, such as what was taken back."""
    warning: str = ""
    """A message for the human that the model does not see."""
    command: str = ""
    """What the shell has to run in place of the command, so that it is in the sandbox; empty if nothing changes."""


class HookAnswer(msgspec.Struct, frozen=True):
    """The output and exit code of the hook, in the agent's own dialect."""

    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0


SILENT = HookAnswer()


class Dialect(msgspec.Struct, frozen=True):
    """How one agent speaks: what its events mean, and how to answer them."""

    kinds: Mapping[str, Kind]
    """The kinds of its events, by name."""
    read: Callable[[bytes, Mapping[str, str]], Event]
    """Turns a hook's input and environment into an event."""
    answer: Callable[[Event, HookDecision], HookAnswer]
    """Returns what the hook prints."""
    telling: tuple[str, ...]
    """The events, by name, in whose answer the agent reads `context`."""
    can_ask: Callable[[Event], bool]
    """Returns True if the client asks its human about this call when the answer says so."""

    rewrites: bool = False
    """True if an answer can change the command that is about to run."""

    def can_tell(self, event: Event) -> bool:
        """Return True if the agent reads `context` in the answer to this event."""
        return event.name in self.telling
