"""Idempotency keys, derived from what a call is meant to do, so that a restart knows what is already done."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from hashlib import blake2b
from typing import Any

import msgspec

from takeback.core.codec import digest

_SHORT = 16
_encoder = msgspec.json.Encoder(order="sorted")


def intent(arguments: dict[str, Any], volatile: Collection[str], spread: str = "") -> dict[str, Any]:
    """Return the arguments by name, without those that differ from one attempt to the next: ids, times, traces.

    `spread` names the argument that collects others by name, such as `**options`. Nested values stay as they are.
    """
    kept = {name: value for name, value in arguments.items() if name not in volatile}
    if isinstance(others := kept.get(spread), dict):
        kept[spread] = {name: value for name, value in others.items() if name not in volatile}
    return kept


def action_key(step: str, position: int, name: str, intended: Any) -> str:
    """Return the key of a call without one of its own, from its place in the plan and what it is meant to do."""
    return _short([step, position, name, intended])


def alike(step: str, name: str, intended: Any) -> bytes:
    """Return bytes that are equal for calls of one step that are meant to do the same. Not stored."""
    return _encoder.encode([step, name, intended])


class CountTable:
    """How often each of very many things occurred, in twelve bytes for each slot of a table.

    Things are told apart by 64 bits of their digests. A run with a million calls has one chance in thirty million
    that two different calls are counted as one, and their keys still differ by what they are meant to do.
    """

    def __init__(self) -> None:
        self._used = 0
        self._begin(64)

    def _begin(self, size: int) -> None:
        self._digests = array("Q", bytes(8 * size))
        self._counts = array("I", bytes(4 * size))

    def add(self, thing: bytes) -> int:
        """Count a thing; return how often it has occurred by now."""
        short = int.from_bytes(blake2b(thing, digest_size=8).digest(), "big")
        if 8 * self._used > 7 * len(self._digests):
            self._grow()
        at = self._slot(short)
        if not self._counts[at]:
            self._digests[at] = short
            self._used += 1
        self._counts[at] += 1
        return self._counts[at]

    def _slot(self, short: int) -> int:
        """Return the slot of a digest, or the empty one where it belongs."""
        digests, counts = self._digests, self._counts
        last = len(digests) - 1
        at = short & last
        while counts[at] and digests[at] != short:
            at = (at + 1) & last
        return at

    def _grow(self) -> None:
        digests, counts = self._digests, self._counts
        self._begin(2 * len(digests))
        for short, count in zip(digests, counts, strict=True):
            if count:
                at = self._slot(short)
                self._digests[at], self._counts[at] = short, count


def intent_key(name: str, intended: Any) -> str:
    """Return the digest of what a call is meant to do, independent of its place in the plan."""
    return _short([name, intended])


_PASSING = frozenset(
    {
        *(
            "timestamp",
            "created",
            "created_at",
            "updated_at",
            "duration",
            "duration_ms",
            "latency",
            "latency_ms",
        ),
        *("run_id", "request_id", "response_id", "trace_id", "span_id", "trace", "system_fingerprint"),
        *("usage", "usage_metadata", "response_metadata", "token_usage"),
    }
)
"""Fields of messages that differ from one attempt to the next and do not change what is asked."""
_WRITTEN = frozenset({"arguments", "args", "input"})
"""Fields that some providers write as JSON in a text."""


def asked(value: Any) -> Any:
    """Return what is asked of a model without what differs by attempt: times, ids of runs, what was used up.

    A field that is empty counts as one that is not there. Arguments compare as JSON, however they are written.
    """
    if isinstance(value, list):
        return [asked(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: asked(_unwritten(name, item)) for name, item in value.items() if name not in _PASSING}
    return {name: item for name, item in found.items() if item not in (None, [], {}, "")}


def _unwritten(name: str, value: Any) -> Any:
    if name not in _WRITTEN or not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, ValueError):
        return value


def call_key(workspace: str, run: str, generation: int, action: str, attempt: int) -> str:
    """Return the idempotency key for the other system: the same for every attempt, a new one after an undo."""
    return _short([workspace, run, generation, action, attempt])


def _short(parts: list[Any]) -> str:
    return digest(_encoder.encode(parts)).partition(":")[2][: 2 * _SHORT]
