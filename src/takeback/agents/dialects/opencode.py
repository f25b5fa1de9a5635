"""The dialect of opencode, through Takeback's own plugin: settings/opencode.js has the other end."""

from __future__ import annotations

import msgspec

from takeback.agents.dialects.answers import because_and_how, encoded, on_stderr
from takeback.agents.dialects.payload import (
    Env,
    Payload,
    absolute,
    fields,
    needed,
    patched,
    paths,
    reader,
    words,
)
from takeback.agents.event import Dialect, Event, HookAnswer, HookDecision, Kind, Permission

KINDS = {
    "session.created": Kind.SESSION,
    "chat.message": Kind.PROMPT,
    "tool.execute.before": Kind.BEGIN,
    "tool.execute.after": Kind.END,
    "session.idle": Kind.STOP,
    "session.deleted": Kind.SESSION_END,
}
TOOLS = (Kind.BEGIN, Kind.END)
EDITING = ("write", "edit", "multiedit")
PATCHING = ("patch", "apply_patch")
READING = ("read", "grep", "glob", "list", "webfetch", "websearch", "codesearch", "todowrite", "todoread")

TELLING = ("tool.execute.after",)


def _read(given: Payload, name: str, kind: Kind, _env: Env) -> Event:
    root = words(given, "directory")
    args = fields(given, "args")
    is_tool = kind in TOOLS
    tool = needed(given, "tool") if is_tool else ""
    exit_code = given.get("exit")
    failed = kind is Kind.END and isinstance(exit_code, int) and exit_code != 0
    named = patched(words(args, "patchText")) if tool in PATCHING else []
    return Event(
        kind=Kind.FAILED if failed else kind,
        name=name,
        session=needed(given, "sessionID"),
        prompt=words(given, "messageID"),
        text=words(given, "text"),
        call=needed(given, "callID") if is_tool else "",
        tool=tool,
        args=args,
        command=words(args, "command") if tool == "bash" else "",
        reads=tool in READING,
        edits=tool in (*EDITING, *PATCHING),
        delegates=tool == "task",
        paths=paths(args, ("filePath",), root) if tool in EDITING else absolute(named, root),
        cwd=words(args, "workdir") or root,
        root=root,
        parent=words(given, "parentID"),
        error=f"Exit code {exit_code}" if failed else "",
    )


read = reader(KINDS, _read, named="event")


def can_ask(_event: Event) -> bool:
    """Return False: a plugin can only refuse."""
    return False


def answer(event: Event, decision: HookDecision) -> HookAnswer:
    """Return what to print. A plugin can only refuse, so a request becomes a refusal that says how to allow it."""
    if decision.do is not Permission.ALLOW and event.kind in (Kind.BEGIN, Kind.PROMPT):
        reason = because_and_how(decision)
        # Plugins of older versions recognise a refusal by the exit code.
        return msgspec.structs.replace(on_stderr(reason, 2), stdout=encoded({"refused": reason}).stdout)
    said: Payload = {}
    if decision.context and event.name in TELLING:
        said["context"] = decision.context
    if decision.command and event.kind is Kind.BEGIN:
        said["command"] = decision.command
    if warning := decision.warning or (decision.reason if decision.do is not Permission.ALLOW else ""):
        said["warning"] = warning
    return encoded(said)


DIALECT = Dialect(KINDS, read, answer, TELLING, can_ask, rewrites=True)
