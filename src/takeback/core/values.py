"""Values that a run keeps: arguments, results, memory. What can be kept is JSON, and it comes back equal."""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from takeback.core.redact import HIDDEN, redact
from takeback.errors import UsageError

INTEGER_BITS = 64
SHOWN_BYTES = 16 << 10

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset({"pass", "passwd", "pwd", "pw", "auth"})
_SECRET_PARTS = re.compile(
    "password|passwd|passphrase|passcode|secret|token(?!iz)|apikey|accesskey|privatekey|signingkey|credential"
    "|authorization|cookie|bearer"
)
_COUNTED = "tokens"


def plain(value: Any, place: str = "the value") -> Any:
    """This value as JSON builtins, or a UsageError that says which part of it cannot be kept."""
    match value:
        case None | bool() | str():
            return value
        case int():
            if not -(2 ** (INTEGER_BITS - 1)) <= value < 2**INTEGER_BITS:
                raise UsageError(f"{place} is an integer of more than 64 bits", hint="keep it as a string")
            return int(value)
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise UsageError(f"{place} is {value}, which JSON cannot hold", hint="use null or a string")
            return float(value)
        case dict():
            for key in value:
                if not isinstance(key, str):
                    raise UsageError(f"{place} has the key {key!r}; keys are strings", hint="use str(key)")
            return {str(key): plain(item, f"{place}[{key!r}]") for key, item in value.items()}
        case list() | tuple():
            return [plain(item, f"{place}[{index}]") for index, item in enumerate(value)]
    try:
        # Structs, dataclasses, dates, enums, UUIDs, bytes, paths: whatever has one plain form.
        built = msgspec.to_builtins(value, enc_hook=_encode)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{place} is a {type(value).__name__}, which cannot be kept",
            hint="keep JSON values: dict, list, str, int, float, bool, None; or a Struct or dataclass of them",
        ) from error
    return plain(built, place)


def _encode(value: Any) -> Any:
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise TypeError(type(value).__name__)


def view(value: Any) -> Any:
    """A plain value without what looks like a secret: as it may stand in a log."""
    match value:
        case str():
            return redact(value)
        case dict():
            return {key: view_of(key, item) for key, item in value.items()}
        case list():
            return [view(item) for item in value]
    return value


def view_of(name: str, value: Any) -> Any:
    """The same for what has a name: if that announces a secret, nothing of it is seen, whatever it is."""
    if value is None or isinstance(value, bool) or not _announces_secret(name):
        return view(value)
    words = "".join(_WORDS.findall(name)).lower()
    # So many tokens are a number of words, and no secret.
    return value if isinstance(value, int | float) and words.endswith(_COUNTED) else HIDDEN


@functools.lru_cache(maxsize=4096)
def _announces_secret(name: str) -> bool:
    """PGPASSWORD, accessToken, x-api-key, Authorization; but not author, and not tokenizer."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(_SECRET_PARTS.search("".join(words))) or not _SECRET_WORDS.isdisjoint(words)


def shortened(value: Any) -> Any:
    """A view that is short enough for a log, whatever the value is."""
    text = msgspec.json.encode(value)
    if len(text) <= SHOWN_BYTES:
        return value
    return f"{text[:200].decode('utf-8', 'replace')}… ({len(text):,} bytes)"
