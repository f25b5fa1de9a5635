"""Parts of answers that several agents share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from takeback.agents.dialects.payload import Payload
from takeback.agents.event import SILENT, Event, HookAnswer, HookDecision, Kind, Permission


def because(decision: HookDecision) -> str:
    """Return the reason. It is never empty: with some agents that would void a refusal."""
    return decision.reason.strip() or "Takeback's rules do not allow this"


def because_and_how(decision: HookDecision) -> str:
    """Return the reason; for a request also how a human allows it, since the agent cannot ask."""
    return " ".join(filter(None, (because(decision), decision.how if decision.do is Permission.ASK else "")))


def encoded(answer: Mapping[str, Any]) -> HookAnswer:
    """Return an answer as one line of JSON, with everything but ASCII escaped."""
    return HookAnswer(json.dumps(answer).encode() + b"\n") if answer else SILENT


def on_stderr(text: str, code: int) -> HookAnswer:
    """Return a message for the human, or with code 2 a refusal with its reason."""
    return HookAnswer(b"", text.encode(errors="backslashreplace") + b"\n", code)


def hook_output(event: Event, said: Payload, own: Payload, warning: str) -> HookAnswer:
    """Return JSON in the form of Claude Code, which others share: what concerns the event itself is nested."""
    if own:
        said["hookSpecificOutput"] = {"hookEventName": event.name} | own
    if warning:
        said["systemMessage"] = warning
    return encoded(said)


def decided(event: Event, decision: HookDecision, *, permission: Permission, told: bool) -> HookAnswer:
    """Return a decision in that form. `permission` is for a call that is not allowed; `told`: context is included."""
    said: Payload = {}
    own: Payload = {}
    warning, refused = decision.warning, decision.do is not Permission.ALLOW
    reason = because_and_how(decision)
    if refused and event.kind is Kind.BEGIN:
        own = {"permissionDecision": permission.value, "permissionDecisionReason": reason}
    elif refused and event.kind in (Kind.PROMPT, Kind.END):
        said = {"decision": "block", "reason": reason}
    elif refused:  # too late to refuse anything, so at least the human is warned
        warning = "\n".join(filter(None, (warning, reason)))
    if decision.command and event.kind is Kind.BEGIN and not (refused and permission is Permission.DENY):
        own["updatedInput"] = event.args | {"command": decision.command}
    if decision.context and told:
        own["additionalContext"] = decision.context
    return hook_output(event, said, own, warning)
