"""Gemini CLI. Its calls have no ids, and standard output must hold JSON and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from takeback.agents.dialects.payload import (
    Payload,
    Unreadable,
    alike,
    encoded,
    fields,
    needed,
    parse,
    paths,
    unreadable,
    words,
)
from takeback.agents.event import SILENT, Answer, Decision, Do, Event, Kind

KINDS = {
    "SessionStart": Kind.SESSION,
    "BeforeAgent": Kind.PROMPT,
    "BeforeTool": Kind.BEGIN,
    "AfterTool": Kind.END,
    "AfterAgent": Kind.STOP,
    "SessionEnd": Kind.SESSION_END,
}
TOOLS = (Kind.BEGIN, Kind.END)
READING = ("read_file", "read_many_files", "glob", "list_directory", "google_web_search", "web_fetch")
TELLING = ("SessionStart", "BeforeAgent", "AfterTool")


def read(data: bytes, env: Mapping[str, str]) -> Event:
    """The event that a hook was started for. Never raises: what cannot be read is an event too."""
    try:
        return _read(parse(data), env)
    except Unreadable as why:
        return unreadable(data, why)


def _read(given: Payload, env: Mapping[str, str]) -> Event:
    name = needed(given, "hook_event_name")
    kind = KINDS.get(name, Kind.IGNORED)
    if kind is Kind.IGNORED:
        return Event(kind=kind, name=name)
    cwd = words(given, "cwd")
    root = env.get("GEMINI_PROJECT_DIR") or cwd
    args = fields(given, "tool_input")
    is_tool = kind in TOOLS
    tool = needed(given, "tool_name") if is_tool else ""
    result = fields(given, "tool_response")
    error = words(fields(result, "error"), "message") or words(result, "error")
    return Event(
        kind=Kind.FAILED if error else kind,
        name=name,
        session=needed(given, "session_id"),
        text=words(given, "prompt"),
        call=alike(tool, args) if is_tool else "",
        call_is_alike=is_tool,
        tool=tool,
        args=args,
        command=words(args, "command") if tool == "run_shell_command" else "",
        background=args.get("is_background") is True,
        reads=tool in READING,
        paths=paths(args, ("file_path",), cwd),
        cwd=cwd,
        root=root,
        roots=(root,) if root else (),
        result=result or given.get("tool_response"),
        error=error,
        transcript=words(given, "transcript_path"),
    )


def can_tell(event: Event) -> bool:
    """Whether the agent hears `context` in the answer to this event."""
    return event.name in TELLING


def can_ask(_event: Event) -> bool:
    """Whether the client asks its human. With a terminal it would; without one it ends, and nobody hears why."""
    return False


def answer(event: Event, decision: Decision) -> Answer:
    """What to print. A question is a refusal that says how to allow it."""
    said: Payload = {}
    warning, reason = decision.warning, decision.reason or "Takeback was told not to let this happen"
    if decision.do is Do.ASK:
        reason = " ".join(filter(None, (reason, decision.how)))
    if decision.do is not Do.ALLOW and event.kind in (Kind.BEGIN, Kind.PROMPT, Kind.END, Kind.FAILED):
        said = {"decision": "deny", "reason": reason}
    elif decision.do is not Do.ALLOW:
        warning = "\n".join(filter(None, (warning, reason)))
    if decision.context and can_tell(event):
        said["hookSpecificOutput"] = {"hookEventName": event.name, "additionalContext": decision.context}
    if warning:
        said["systemMessage"] = warning
    return Answer(encoded(said)) if said else SILENT
