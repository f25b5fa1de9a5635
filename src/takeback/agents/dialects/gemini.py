"""The dialect of Gemini CLI. Its calls have no ids, and standard output must contain only JSON."""

from __future__ import annotations

from takeback.agents.dialects.answers import because_and_how, hook_output
from takeback.agents.dialects.payload import (
    Env,
    Payload,
    alike,
    fields,
    needed,
    paths,
    reader,
    words,
)
from takeback.agents.event import Dialect, Event, HookAnswer, HookDecision, Kind, Permission

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
EDITING = ("write_file", "replace")
TELLING = ("SessionStart", "BeforeAgent", "AfterTool")


def _read(given: Payload, name: str, kind: Kind, env: Env) -> Event:
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
        edits=tool in EDITING,
        paths=paths(args, ("file_path",), cwd) if tool in EDITING else (),
        cwd=cwd,
        root=root,
        result=result or given.get("tool_response"),
        error=error,
        transcript=words(given, "transcript_path"),
    )


read = reader(KINDS, _read)


def can_ask(_event: Event) -> bool:
    """Return False: Gemini CLI asks its human only in a terminal; without one it ends, without a reason."""
    return False


def answer(event: Event, decision: HookDecision) -> HookAnswer:
    """Return what to print. A request becomes a refusal that says how to allow it."""
    said: Payload = {}
    warning, reason = decision.warning, because_and_how(decision)
    if decision.do is not Permission.ALLOW and event.kind in (Kind.BEGIN, Kind.PROMPT, Kind.END, Kind.FAILED):
        said = {"decision": "deny", "reason": reason}
    elif decision.do is not Permission.ALLOW:
        warning = "\n".join(filter(None, (warning, reason)))
    own = {"additionalContext": decision.context} if decision.context and event.name in TELLING else {}
    return hook_output(event, said, own, warning)


DIALECT = Dialect(KINDS, read, answer, TELLING, can_ask)
