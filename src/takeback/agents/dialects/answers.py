"""Answering: what several agents understand alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from takeback.agents.dialects.payload import Payload
from takeback.agents.event import SILENT, Event, HookAnswer, HookDecision, Kind, Permission


def because(decision: HookDecision) -> str:
    """Why not. It is never empty: with some agents that would void a refusal."""
    return decision.reason.strip() or "Takeback was told not to let this happen"


def because_and_how(decision: HookDecision) -> str:
    """Why not; and of a question, how a human allows it where the agent cannot ask."""
    return " ".join(filter(None, (because(decision), decision.how if decision.do is Permission.ASK else "")))


def encoded(answer: Mapping[str, Any]) -> HookAnswer:
    """JSON in one line; characters that are not ASCII, or not even characters, are escaped."""
    return HookAnswer(json.dumps(answer).encode() + b"\n") if answer else SILENT


def on_stderr(text: str, code: int) -> HookAnswer:
    """Words for the human, or with code 2 a refusal with its reason."""
    return HookAnswer(b"", text.encode(errors="backslashreplace") + b"\n", code)


def hook_output(event: Event, said: Payload, own: Payload, warning: str) -> HookAnswer:
    """JSON as Claude Code has it, and others after it: what is about the event itself is a part of its own."""
    if own:
        said["hookSpecificOutput"] = {"hookEventName": event.name} | own
    if warning:
        said["systemMessage"] = warning
    return encoded(said)


def decided(event: Event, decision: HookDecision, *, permission: Permission, told: bool) -> HookAnswer:
    """The same with a decision. `permission` is what a call gets that is not allowed; `told`: context is heard."""
    said: Payload = {}
    own: Payload = {}
    warning, refused = decision.warning, decision.do is not Permission.ALLOW
    reason = because_and_how(decision)
    if refused and event.kind is Kind.BEGIN:
        own = {"permissionDecision": permission.value, "permissionDecisionReason": reason}
    elif refused and event.kind in (Kind.PROMPT, Kind.END):
        said = {"decision": "block", "reason": reason}
    elif refused:  # there is nothing left that could be refused, so the human at least knows
        warning = "\n".join(filter(None, (warning, reason)))
    if decision.context and told:
        own["additionalContext"] = decision.context
    return hook_output(event, said, own, warning)
