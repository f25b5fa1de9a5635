"""Idempotency keys: made of intent, so that a restart knows what it has already done."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from takeback.core.codec import digest

_SHORT = 16
_encoder = msgspec.json.Encoder(order="sorted")


def intent(arguments: dict[str, Any], volatile: Collection[str], spread: str = "") -> dict[str, Any]:
    """Arguments by name, without those that differ from one attempt to the next: ids, times, traces.

    `spread` is the one that holds others by their names, as `**options` does. What is inside of a value stays.
    """
    kept = {name: value for name, value in arguments.items() if name not in volatile}
    if isinstance(others := kept.get(spread), dict):
        kept[spread] = {name: value for name, value in others.items() if name not in volatile}
    return kept


def action_key(step: str, position: int, name: str, intended: Any) -> str:
    """The key of a call that was given none: its place in the plan, and what it is to do."""
    return _short([step, position, name, intended])


def alike(step: str, name: str, intended: Any) -> bytes:
    """What calls of one step have in common that are to do the same. For this process; it is not kept."""
    return _encoder.encode([step, name, intended])


def intent_key(name: str, intended: Any) -> str:
    """What a call is to do, wherever it stands."""
    return _short([name, intended])


def call_key(workspace: str, run: str, generation: int, action: str, attempt: int) -> str:
    """What a provider is given. Another attempt at the same call has the same; one after an undo has another."""
    return _short([workspace, run, generation, action, attempt])


def _short(parts: list[Any]) -> str:
    return digest(_encoder.encode(parts)).partition(":")[2][: 2 * _SHORT]
