"""Where each agent keeps its hooks, and what Takeback's look like there. Pure: text in, text out.

Exactly our entries are added, at the end of what is there, and exactly they are taken out again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from takeback.agents.settings import jsontext, opencode
from takeback.errors import UsageError

TIMEOUT_S = 60
CLAUDE_CODE = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
)
CODEX = tuple(event for event in CLAUDE_CODE if event != "PostToolUseFailure")
GEMINI = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd")
CURSOR = (
    "sessionStart",
    "beforeSubmitPrompt",
    "preToolUse",
    "postToolUse",
    "postToolUseFailure",
    "beforeShellExecution",
    "beforeMCPExecution",
    "subagentStart",
    "subagentStop",
    "stop",
    "sessionEnd",
)


class Layout(msgspec.Struct, frozen=True):
    """The settings of one agent."""

    agent: str
    """As `takeback-hook` is told."""
    project: str
    """The file, below a project."""
    user: str
    """The file, below HOME."""
    events: tuple[str, ...] = ()
    flat: bool = False
    """A hook stands alone, and not in a group with a matcher."""
    timeout: int = TIMEOUT_S
    fresh: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What a file that did not exist has to have besides."""

    def entry(self, command: str) -> dict[str, Any]:
        if self.flat:
            return {"command": command, "timeout": self.timeout}
        return {"hooks": [{"type": "command", "command": command, "timeout": self.timeout}]}


_CLAUDE = Layout("claude-code", ".claude/settings.json", ".claude/settings.json", CLAUDE_CODE)
LAYOUTS = {
    "claude-code": _CLAUDE,
    "codex": Layout("codex", ".codex/hooks.json", ".codex/hooks.json", CODEX),
    "cursor": Layout(
        "cursor", ".cursor/hooks.json", ".cursor/hooks.json", CURSOR, flat=True, fresh={"version": 1}
    ),
    "gemini": Layout(
        "gemini", ".gemini/settings.json", ".gemini/settings.json", GEMINI, timeout=TIMEOUT_S * 1000
    ),
    "opencode": Layout("opencode", opencode.PLACE, ".config/opencode/plugins/takeback.js"),
    # It writes Claude Code's settings itself, so ours stand beside them, in the file that it leaves alone.
    "ruflo": msgspec.structs.replace(_CLAUDE, project=".claude/settings.local.json"),
}


def layout(agent: str) -> Layout:
    if agent not in LAYOUTS:
        raise UsageError(f"{agent!r} is no agent that Takeback knows", hint=f"one of {', '.join(LAYOUTS)}")
    return LAYOUTS[agent]


def install(agent: str, text: str, command: str = "") -> str:
    """The settings with our hooks. Empty text stands for a file that is not there. Twice is once."""
    of = layout(agent)
    command = command or f"takeback-hook {of.agent}"
    if agent == "opencode":
        return opencode.plugin(command.split())
    for event in of.events:
        text = _install_one(of, text, event, command)
    return text


def uninstall(agent: str, text: str) -> str:
    """The settings without our hooks, whichever command they start. Empty text: there is nothing else in them."""
    of = layout(agent)
    if agent == "opencode":
        return "" if opencode.is_ours(text) else text
    for event in reversed(of.events):
        while text and (path := _ours(of, text, event)):
            text = jsontext.without(text, path, partial(_again, of, event, _commands(path[-1].value)[0]))
    return text


def missing(agent: str, text: str) -> list[str]:
    """The events that our hooks are not told of."""
    of = layout(agent)
    if agent == "opencode":
        return [] if opencode.is_ours(text) else ["the plugin"]
    return [event for event in of.events if not text or not _ours(of, text, event)]


def _install_one(of: Layout, text: str, event: str, command: str) -> str:
    if text and (path := _ours(of, text, event)):
        if command in _commands(path[-1].value):
            return text
        node = path[-1]  # it starts another command, of an older version perhaps
        return text[: node.start] + json.dumps(of.entry(command)) + text[node.end :]
    return _added(of, text, event, command)


def _added(of: Layout, text: str, event: str, command: str) -> str:
    entry = of.entry(command)
    if not text:
        # Hooks first: in a file that was there they come last, so that one can tell which it was.
        return json.dumps({"hooks": {event: [entry]}} | dict(of.fresh), indent=2) + "\n"
    root = _root(of, text)
    if not (hooks := root.child("hooks")):
        return jsontext.added(text, root, "hooks", {event: [entry]})
    if not isinstance(hooks.value, dict):
        raise UsageError(f"`hooks` in {of.project} is no object; nothing was changed")
    if not (listed := hooks.child(event)):
        return jsontext.added(text, hooks, event, [entry])
    if not isinstance(listed.value, list):
        raise UsageError(f"`hooks.{event}` in {of.project} is no list; nothing was changed")
    return jsontext.added(text, listed, "", entry)


def _again(of: Layout, event: str, command: str, before: str) -> str:
    """What adding to this text gives, if it is one that can be added to."""
    try:
        return _added(of, before, event, command)
    except UsageError:
        return ""


def _root(of: Layout, text: str) -> jsontext.Node:
    try:
        root = jsontext.parse(text)
    except jsontext.NotJson as where:
        raise UsageError(
            f"{of.project} is not valid JSON at {where}; nothing was changed", hint="mend it by hand first"
        ) from None
    if not isinstance(root.value, dict):
        raise UsageError(f"{of.project} is no JSON object; nothing was changed")
    return root


def _ours(of: Layout, text: str, event: str) -> list[jsontext.Node]:
    """The way from the root to our hook for this event: the whole group, unless it has hooks of others too."""
    root = _root(of, text)
    hooks = root.child("hooks")
    listed = hooks.child(event) if hooks and isinstance(hooks.value, dict) else None
    if not hooks or not listed or not isinstance(listed.value, list):
        return []
    for entry in listed.children:
        commands = _commands(entry.value)
        if commands and all(_is_ours(of, command) for command in commands):
            return [root, hooks, listed, entry]
        inner = entry.child("hooks")
        for handler in inner.children if inner else ():
            if any(_is_ours(of, command) for command in _commands(handler.value)):
                assert inner is not None
                return [root, hooks, listed, entry, inner, handler]
    return []


def _commands(entry: Any) -> Sequence[str]:
    """What a hook, or a group of them, starts; an empty text for what is no command."""
    if not isinstance(entry, dict):
        return ()
    if isinstance(group := entry.get("hooks"), list):
        return [command for handler in group for command in (_commands(handler) or ("",))]
    command = entry.get("command")
    return [command if isinstance(command, str) else ""]


def _is_ours(of: Layout, command: str) -> bool:
    return re.search(rf"(?:^|[/\\\s\"'])takeback-hook[\"']? +{of.agent}\s*$", command) is not None
