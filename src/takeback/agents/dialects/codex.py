"""The dialect of Codex. It is strict: an unknown field makes the whole answer void, and then the tool runs."""

from __future__ import annotations

from takeback.agents.dialects.answers import decided
from takeback.agents.dialects.payload import (
    Env,
    Payload,
    absolute,
    fields,
    needed,
    patched,
    reader,
    words,
)
from takeback.agents.event import SILENT, Dialect, Event, HookAnswer, HookDecision, Kind, Permission

KINDS = {
    "SessionStart": Kind.SESSION,
    "UserPromptSubmit": Kind.PROMPT,
    "PreToolUse": Kind.BEGIN,
    "PostToolUse": Kind.END,
    "SubagentStart": Kind.AGENT_BEGIN,
    "SubagentStop": Kind.AGENT_END,
    "Stop": Kind.STOP,
    "SessionEnd": Kind.SESSION_END,
}
TOOLS = (Kind.BEGIN, Kind.END)
DELEGATING = "collaboration"  # with the name of the tool after it, and nothing in between
TELLING = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart")
DEAF = ("SessionEnd",)  # takes no answer at all


def _read(given: Payload, name: str, kind: Kind, _env: Env) -> Event:
    cwd = words(given, "cwd")
    args = fields(given, "tool_input")
    is_tool = kind in TOOLS
    tool = needed(given, "tool_name") if is_tool else ""
    patch = words(args, "command") if tool == "apply_patch" else ""
    return Event(
        kind=kind,
        name=name,
        session=needed(given, "session_id"),
        prompt=words(given, "turn_id"),
        text=words(given, "prompt"),
        call=needed(given, "tool_use_id") if is_tool else "",
        tool=tool,
        args={"patch": patch} if patch else args,  # it is not a command, and must not be judged as one
        command=words(args, "command") if tool == "Bash" else "",
        # Commands may run in parallel, patches do not; the end of a patch that does not apply is never reported.
        alone=tool == "apply_patch",
        edits=tool == "apply_patch",
        delegates=tool.startswith(DELEGATING),
        paths=absolute(patched(patch), cwd),
        cwd=cwd,
        root=cwd,
        actor=words(given, "agent_id"),
        actor_kind=words(given, "agent_type"),
        result=given.get("tool_response"),
        transcript=words(given, "transcript_path"),
    )


read = reader(KINDS, _read)


def can_ask(_event: Event) -> bool:
    """Return False: Codex takes a request for approval for a failure of the hook, and continues."""
    return False


def answer(event: Event, decision: HookDecision) -> HookAnswer:
    """Return what to print. Codex cannot ask its human, so a request becomes a refusal that says how to allow it."""
    if event.name in DEAF:
        return SILENT
    return decided(event, decision, permission=Permission.DENY, told=event.name in TELLING)


DIALECT = Dialect(KINDS, read, answer, TELLING, can_ask)
