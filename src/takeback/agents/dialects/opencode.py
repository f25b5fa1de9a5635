"""opencode, through Takeback's own plugin: what that one sends and understands stands in settings/opencode.js."""

from __future__ import annotations

from collections.abc import Mapping

from takeback.agents.dialects.payload import (
    Payload,
    Unreadable,
    absolute,
    encoded,
    fields,
    needed,
    parse,
    patched,
    paths,
    refusal,
    unreadable,
    words,
)
from takeback.agents.event import SILENT, Answer, Decision, Do, Event, Kind

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


def read(data: bytes, env: Mapping[str, str]) -> Event:
    """The event that a hook was started for. Never raises: what cannot be read is an event too."""
    del env  # the plugin says everything
    try:
        return _read(parse(data))
    except Unreadable as why:
        return unreadable(data, why)


def _read(given: Payload) -> Event:
    name = needed(given, "event")
    kind = KINDS.get(name, Kind.IGNORED)
    if kind is Kind.IGNORED:
        return Event(kind=kind, name=name)
    root = words(given, "directory")
    args = fields(given, "args")
    is_tool = kind in TOOLS
    tool = needed(given, "tool") if is_tool else ""
    exit_code = given.get("exit")
    failed = kind is Kind.END and isinstance(exit_code, int) and exit_code != 0
    named = patched(words(args, "patchText")) if tool in ("patch", "apply_patch") else []
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
        delegates=tool == "task",
        paths=paths(args, ("filePath",), root) if tool in EDITING else absolute(named, root),
        cwd=words(args, "workdir") or root,
        root=root,
        roots=(root,) if root else (),
        parent=words(given, "parentID"),
        error=f"Exit code {exit_code}" if failed else "",
    )


def can_tell(event: Event) -> bool:
    """Whether the agent hears `context` in the answer to this event."""
    return event.name == "tool.execute.after"


def can_ask(_event: Event) -> bool:
    """A plugin can only refuse."""
    return False


def answer(event: Event, decision: Decision) -> Answer:
    """What to print. A plugin can only refuse, so a question is a refusal that says how to allow it."""
    if decision.do is not Do.ALLOW and event.kind in (Kind.BEGIN, Kind.PROMPT):
        reason = decision.reason or "Takeback was told not to let this happen"
        return refusal(" ".join(filter(None, (reason, decision.how if decision.do is Do.ASK else ""))))
    said: Payload = {}
    if decision.context and can_tell(event):
        said["context"] = decision.context
    if warning := decision.warning or (decision.reason if decision.do is not Do.ALLOW else ""):
        said["warning"] = warning
    return Answer(encoded(said)) if said else SILENT
