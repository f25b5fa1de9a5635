"""Claude Code. Also ruflo, which configures it."""

from __future__ import annotations

import re

from takeback.agents.dialects.answers import decided
from takeback.agents.dialects.payload import (
    Env,
    Payload,
    fields,
    needed,
    paths,
    reader,
    words,
)
from takeback.agents.event import Dialect, Event, HookAnswer, HookDecision, Kind, Permission

KINDS = {
    "SessionStart": Kind.SESSION,
    "UserPromptSubmit": Kind.PROMPT,
    "PreToolUse": Kind.BEGIN,
    "PostToolUse": Kind.END,
    "PostToolUseFailure": Kind.FAILED,
    "SubagentStart": Kind.AGENT_BEGIN,
    "SubagentStop": Kind.AGENT_END,
    "Stop": Kind.STOP,
    "SessionEnd": Kind.SESSION_END,
}
TOOLS = (Kind.BEGIN, Kind.END, Kind.FAILED)
EDITING = ("Write", "Edit", "MultiEdit", "NotebookEdit")
# These are used one after another, even if they were asked for at once.
ALONE = ("Bash", *EDITING)
DELEGATING = ("Agent", "Task")
READING = (
    "Read",
    "Grep",
    "Glob",
    "LS",
    "NotebookRead",
    "WebFetch",
    "WebSearch",
    "BashOutput",
    "TaskOutput",
    "TodoWrite",
    "ToolSearch",
    "AskUserQuestion",
)
# The values that it passes to hooks if it was started by `claude -p`, or as a step of a build.
UNATTENDED = ("sdk-cli", "claude-code-github-action")
NAMES_OF_PATHS = ("file_path", "notebook_path")
# The client itself sends a message of this kind when a background command has ended.
NOTICE = "<task-notification>"
NOTICED = re.compile(r"<tool-use-id>([^<]+)</tool-use-id>")
TELLING = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
)


def _read(given: Payload, name: str, kind: Kind, env: Env) -> Event:
    if kind is Kind.PROMPT and words(given, "prompt").lstrip().startswith(NOTICE):
        kind = Kind.NOTICE
    cwd = words(given, "cwd")
    # The folder follows every `cd` of the agent's shell; the project stays.
    root = env.get("CLAUDE_PROJECT_DIR") or cwd
    args = fields(given, "tool_input")
    is_tool = kind in TOOLS
    tool = needed(given, "tool_name") if is_tool else ""
    # A human may also send a command into the background while it runs.
    moved = bool(words(fields(given, "tool_response"), "backgroundTaskId"))
    background = args.get("run_in_background") is True or moved
    if kind is Kind.NOTICE:
        call = next(iter(NOTICED.findall(words(given, "prompt"))), "")
    else:
        call = needed(given, "tool_use_id") if is_tool else ""
    return Event(
        kind=kind,
        name=name,
        session=needed(given, "session_id"),
        prompt=words(given, "prompt_id"),
        text=words(given, "prompt"),
        call=call,
        tool=tool,
        args=args,
        command=words(args, "command") if tool == "Bash" else "",
        background=background,
        alone=tool in ALONE and not background,
        reads=tool in READING,
        edits=tool in EDITING,
        delegates=tool in DELEGATING,
        quiet=given.get("background_tasks") == [],
        paths=paths(args, NAMES_OF_PATHS, cwd) if tool in EDITING else (),
        unattended=env.get("CLAUDE_CODE_ENTRYPOINT") in UNATTENDED,
        cwd=cwd,
        root=root,
        actor=words(given, "agent_id"),
        actor_kind=words(given, "agent_type"),
        result=given.get("tool_response"),
        error=words(given, "error"),
        transcript=words(given, "transcript_path"),
    )


read = reader(KINDS, _read)


def can_ask(event: Event) -> bool:
    """Return True if the client asks its human about this call when the answer says so."""
    return event.kind is Kind.BEGIN and not event.unattended


def answer(event: Event, decision: HookDecision) -> HookAnswer:
    """Return what to print. Without output the client continues as if there were no hook, with its own questions."""
    # Without a human a question would be a refusal without a reason.
    permission = decision.do if can_ask(event) else Permission.DENY
    return decided(event, decision, permission=permission, told=event.name in TELLING)


# Its permission rules are applied to the changed command, so the agent's own words stay in it as they are.
DIALECT = Dialect(KINDS, read, answer, TELLING, can_ask, rewrites=True)
