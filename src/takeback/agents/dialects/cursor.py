"""The dialect of Cursor. It reports shell commands twice: as a tool, and again to be allowed."""

from __future__ import annotations

from takeback.agents.dialects.answers import because, because_and_how, encoded, on_stderr
from takeback.agents.dialects.payload import (
    Env,
    Payload,
    fields,
    needed,
    paths,
    reader,
    words,
)
from takeback.agents.event import SILENT, Dialect, Event, HookAnswer, HookDecision, Kind, Permission

KINDS = {
    "sessionStart": Kind.SESSION,
    "beforeSubmitPrompt": Kind.PROMPT,
    "preToolUse": Kind.BEGIN,
    "postToolUse": Kind.END,
    "postToolUseFailure": Kind.FAILED,
    "beforeShellExecution": Kind.GATE,
    "beforeMCPExecution": Kind.GATE,
    "subagentStart": Kind.AGENT_BEGIN,
    "subagentStop": Kind.AGENT_END,
    "stop": Kind.STOP,
    "sessionEnd": Kind.SESSION_END,
}
SHELL = "Shell"
READING = ("Read", "Grep", "Glob", "LS", "SemanticSearch", "WebSearch", "WebFetch")
TOOLS = (Kind.BEGIN, Kind.END, Kind.FAILED)
NAMES_OF_PATHS = ("file_path", "target_file", "path", "target_notebook")
EDITING = ("Write", "Edit", "MultiEdit", "StrReplace", "Delete", "EditNotebook")
TELLING = ("sessionStart", "postToolUse")
ASKING = (
    "beforeShellExecution",
    "beforeMCPExecution",
)  # elsewhere it does not ask, even if the answer says so


def _read(given: Payload, name: str, kind: Kind, env: Env) -> Event:
    listed = given.get("workspace_roots")
    roots = tuple(root for root in listed if isinstance(root, str)) if isinstance(listed, list) else ()
    root = roots[0] if roots else env.get("CURSOR_PROJECT_DIR", "")
    args = fields(given, "tool_input")
    is_tool = kind in TOOLS
    tool = needed(given, "tool_name") if is_tool else words(given, "tool_name")
    cwd = words(given, "cwd") or words(args, "working_directory") or root
    command = words(args, "command") if tool == SHELL else words(given, "command")
    return Event(
        kind=kind,
        name=name,
        session=words(given, "conversation_id") or needed(given, "session_id"),
        prompt=words(given, "generation_id"),
        text=words(given, "prompt"),
        call=needed(given, "tool_use_id").strip() if is_tool else "",  # it may end with a line break
        tool=tool,
        args=args,
        command=command,
        background=args.get("is_background") is True,
        reads=tool in READING,
        edits=tool in EDITING,
        paths=paths(args, NAMES_OF_PATHS, cwd) if tool in EDITING else (),
        cwd=cwd,
        root=root,
        actor=words(given, "subagent_id"),
        actor_kind=words(given, "subagent_type"),
        result=given.get("tool_output"),
        error=words(given, "error_message"),
        transcript=words(given, "transcript_path"),
    )


read = reader(KINDS, _read)


def can_ask(event: Event) -> bool:
    """Return True if the client asks its human about this call: for a command it does, at the next event."""
    return event.kind is Kind.BEGIN and event.tool == SHELL


def answer(event: Event, decision: HookDecision) -> HookAnswer:
    """Return what to print. A warning is only for the human; if there is no place for it, it goes to Cursor's log."""
    if event.kind is Kind.UNREADABLE and decision.warning:
        return on_stderr(decision.warning, 0)
    said: Payload = {}
    reason = because(decision) if event.name in ASKING else because_and_how(decision)
    if decision.do is Permission.ASK and can_ask(event):
        return SILENT
    if decision.do is not Permission.ALLOW and event.kind in (Kind.BEGIN, Kind.GATE, Kind.AGENT_BEGIN):
        asks = decision.do is Permission.ASK and event.name in ASKING
        told = "\n".join(filter(None, (reason, decision.warning)))
        said = {"permission": "ask" if asks else "deny", "user_message": told}
        if event.kind is not Kind.AGENT_BEGIN:
            said["agent_message"] = reason
    elif decision.do is not Permission.ALLOW and event.kind is Kind.PROMPT:
        said = {"continue": False, "user_message": reason}
    elif decision.warning and event.kind in (Kind.BEGIN, Kind.GATE):
        said = {"permission": "allow", "user_message": decision.warning}
    if decision.context and event.name in TELLING:
        said["additional_context"] = decision.context
    return encoded(said)


DIALECT = Dialect(KINDS, read, answer, TELLING, can_ask)
