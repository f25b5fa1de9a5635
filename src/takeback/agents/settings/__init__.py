"""The form and place of each agent's hooks, and Takeback's entries there. Pure: text in, text out.

Only our entries are added, at the end, and only these are removed again.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from takeback.agents.settings import failing_open, jsontext, opencode
from takeback.errors import UsageError
from takeback.settings.agent_files import HOOKS

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
    """The agent's name for `takeback-hook`."""
    project: str
    """The file, below a project."""
    user: str
    """The file, below HOME."""
    events: tuple[str, ...] = ()
    flat: bool = False
    """Whether a hook is an entry of its own, and not in a group with a matcher."""
    timeout: int = TIMEOUT_S
    timeouts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """For events with a shorter limit in the agent; it would complain about a longer timeout."""
    fresh: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What a new file needs in addition."""
    also: tuple[str, ...] = ()
    """Further files below a project that may have its hooks."""
    comments: bool = False
    """Whether it reads settings with comments. Other agents silently ignore such a file."""

    @property
    def in_project(self) -> tuple[str, ...]:
        """Every file below a project that may have its hooks, ours first."""
        return (self.project, *self.also)

    def entry(self, event: str, command: str) -> dict[str, Any]:
        timeout = self.timeouts.get(event, self.timeout)
        if self.flat:
            return {"command": command, "timeout": timeout}
        return {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}


# People share settings.json, but the command is a path of this machine, so it goes to the local file.
_CLAUDE = Layout(
    "claude-code",
    ".claude/settings.local.json",
    HOOKS["claude-code"][0],
    CLAUDE_CODE,
    also=(".claude/settings.json",),
)
LAYOUTS = {
    "claude-code": _CLAUDE,
    "codex": Layout(
        "codex",
        ".codex/hooks.json",
        HOOKS["codex"][0],
        CODEX,
        timeouts={"SessionEnd": 3},
    ),
    "cursor": Layout(
        "cursor", ".cursor/hooks.json", HOOKS["cursor"][0], CURSOR, flat=True, fresh={"version": 1}
    ),
    "gemini": Layout(
        "gemini",
        ".gemini/settings.json",
        HOOKS["gemini"][0],
        GEMINI,
        timeout=TIMEOUT_S * 1000,
        comments=True,
    ),
    "opencode": Layout("opencode", opencode.PLACE, HOOKS["opencode"][0]),
    # It configures Claude Code in settings.json; our hooks go to the other file, which it leaves alone.
    "ruflo": _CLAUDE,
}


def layout(agent: str) -> Layout:
    if agent not in LAYOUTS:
        raise UsageError(
            f"{agent!r} is not an agent that Takeback supports", hint=f"use one of {', '.join(LAYOUTS)}"
        )
    return LAYOUTS[agent]


def install(agent: str, text: str, command: str = "") -> str:
    """Return the settings with our hooks, which never block the agent. Empty text stands for a missing file.

    Installing twice changes nothing, and hooks of an older version are replaced.
    """
    of = layout(agent)
    command = command or f"takeback-hook {of.agent}"
    if agent == "opencode":
        if text and not opencode.is_ours(text):
            raise UsageError("another plugin has this name; nothing was changed")
        return opencode.plugin(shlex.split(command))
    line = failing_open.line(of.agent, command)
    for event in of.events:
        text = _install_one(of, text, event, line)
    return text


def uninstall(agent: str, text: str) -> str:
    """Return the settings without our hooks, whichever command they start. Empty text means that nothing is left."""
    of = layout(agent)
    if agent == "opencode":
        return "" if opencode.is_ours(text) else text
    for event in reversed(of.events):
        while text and (path := _ours(of, text, event)):
            text = jsontext.without(text, path, partial(_again, of, event, _commands(path[-1].value)[0]))
    return text


def missing(agent: str, text: str) -> list[str]:
    """Return the events without a hook of ours."""
    of = layout(agent)
    if agent == "opencode":
        return [] if opencode.is_ours(text) else ["the plugin"]
    return [event for event in of.events if not text or not _ours(of, text, event)]


def commands(agent: str, text: str) -> list[str]:
    """Return the commands that our hooks start, each once."""
    of = layout(agent)
    if agent == "opencode":
        return [shlex.join(opencode.command(text))] if opencode.is_ours(text) else []
    return _distinct(command for command in _all_commands(of, text) if _is_ours(of, command))


def program(command: str) -> list[str]:
    """Return the words of our command that start Takeback itself."""
    return failing_open.inner(command)


def goes_on_without(agent: str, text: str) -> bool:
    """Return True if the agent continues when Takeback is gone; hooks of older versions blocked it then."""
    if agent == "opencode":
        return not opencode.is_ours(text) or text == opencode.plugin(opencode.command(text))
    return all(map(failing_open.is_one, commands(agent, text)))


def others(agent: str, text: str) -> list[str]:
    """Return the commands that other hooks start for the same events."""
    of = layout(agent)
    if agent == "opencode":
        return []
    return _distinct(command for command in _all_commands(of, text) if command and not _is_ours(of, command))


def hooks(agent: str, text: str) -> Any:
    """Return all hooks, as a value that can be compared."""
    return text if agent == "opencode" or not text else _root(text).value.get("hooks")


def switched_off(agent: str, text: str) -> bool | None:
    """Return True if these settings tell the agent to run no hooks at all, or None if they do not say."""
    of = layout(agent)
    if agent == "opencode" or not text:
        return None
    root = _root(text).value
    if of.agent == "gemini":
        found = root.get("hooksConfig")
        enabled = found.get("enabled") if isinstance(found, dict) else None
        return not enabled if isinstance(enabled, bool) else None
    disabled = root.get("disableAllHooks")
    return disabled if isinstance(disabled, bool) else None


def unread(agent: str, text: str) -> str:
    """Return why the agent would not read these settings, although we can, or ""."""
    if agent == "opencode" or not text:
        return ""
    _root(text)
    odd = jsontext.oddity(text, comments=layout(agent).comments)
    return f"the file has {odd}, and the agent ignores all settings in such a file" if odd else ""


def has_plugin(text: str) -> bool:
    """Return True if settings of Claude Code switch on Takeback's plugin."""
    return any(plugins(text).values())


def plugins(text: str) -> dict[str, bool]:
    """Return Takeback's plugins in settings of Claude Code, by name with marketplace, and whether each is on."""
    enabled = _root(text).value.get("enabledPlugins") if text else None
    every = enabled.items() if isinstance(enabled, dict) else ()
    return {name: on is True for name, on in every if name.partition("@")[0] == "takeback"}


def _distinct(found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(found))


def _all_commands(of: Layout, text: str) -> Iterator[str]:
    hooks = _root(text).child("hooks") if text else None
    for event in of.events if hooks and isinstance(hooks.value, dict) else ():
        listed = hooks.value.get(event) if hooks else None
        for entry in listed if isinstance(listed, list) else ():
            yield from _commands(entry)


def _install_one(of: Layout, text: str, event: str, command: str) -> str:
    if text and (path := _ours(of, text, event)):
        if command in _commands(path[-1].value):
            return text
        node = path[-1]  # it starts another command, perhaps of an older version
        return text[: node.start] + json.dumps(of.entry(event, command)) + text[node.end :]
    return _added(of, text, event, command)


def _added(of: Layout, text: str, event: str, command: str) -> str:
    entry = of.entry(event, command)
    if not text:
        # Hooks first: in an existing file they come last, so that uninstalling can tell which it was.
        return jsontext.pretty({"hooks": {event: [entry]}} | dict(of.fresh)) + "\n"
    root = _root(text)
    if not (hooks := root.child("hooks")):
        return jsontext.added(text, root, "hooks", {event: [entry]})
    if not isinstance(hooks.value, dict):
        raise UsageError("`hooks` is not an object; nothing was changed")
    if not (listed := hooks.child(event)):
        return jsontext.added(text, hooks, event, [entry])
    if not isinstance(listed.value, list):
        raise UsageError(f"`hooks.{event}` is not a list; nothing was changed")
    return jsontext.added(text, listed, "", entry)


def _again(of: Layout, event: str, command: str, before: str) -> str:
    """Return the result of adding to this text, or "" if nothing can be added to it."""
    try:
        return _added(of, before, event, command)
    except UsageError:
        return ""


def _root(text: str) -> jsontext.Node:
    try:
        root = jsontext.parse(text)
    except jsontext.NotJson as where:
        raise UsageError(
            f"not valid JSON at {where}; nothing was changed", hint="fix it by hand first"
        ) from None
    if not isinstance(root.value, dict):
        raise UsageError("not a JSON object; nothing was changed")
    return root


def _ours(of: Layout, text: str, event: str) -> list[jsontext.Node]:
    """Return the path from the root to our hook for this event: the whole group, unless it has other hooks, too."""
    root = _root(text)
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
    """Return the commands that a hook or a group of hooks starts; "" for a hook without a command."""
    if not isinstance(entry, dict):
        return ()
    if isinstance(group := entry.get("hooks"), list):
        return [command for handler in group for command in (_commands(handler) or ("",))]
    command = entry.get("command")
    return [command if isinstance(command, str) else ""]


def _is_ours(of: Layout, command: str) -> bool:
    programs = r"(?:^|[/\\\s\"'])takeback-hook|[/\\]takeback[/\\]daemon[/\\]knock\.py"
    return re.search(rf"(?:{programs})[\"']? +{of.agent}\s*$", command) is not None
