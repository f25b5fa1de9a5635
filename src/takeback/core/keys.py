"""Idempotency keys: made of intent, so that a restart knows what it has already done."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from takeback.core.codec import digest, value_digest

_SHORT = 16


def intent(arguments: Any, volatile: Collection[str]) -> Any:
    """Plain arguments without the fields that differ from one attempt to the next: ids, times, traces."""
    if isinstance(arguments, dict):
        return {key: intent(item, volatile) for key, item in arguments.items() if key not in volatile}
    if isinstance(arguments, list):
        return [intent(item, volatile) for item in arguments]
    return arguments


def action_key(step: str, position: int, name: str, arguments: Any, volatile: Collection[str] = ()) -> str:
    """The key of a call that was given none: its place in the plan, and what it is to do."""
    return _short(value_digest([step, position, name, intent(arguments, volatile)]))


def call_key(run: str, action: str, generation: int) -> str:
    """What a provider is given. Another attempt at the same call has the same; one after an undo has another."""
    return _short(digest(f"{run}\n{action}\n{generation}".encode()))


def _short(name: str) -> str:
    return name.partition(":")[2][: 2 * _SHORT]
