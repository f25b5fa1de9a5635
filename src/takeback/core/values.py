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
DEEPEST = 200

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset({"pass", "passwd", "pwd", "pw", "auth"})
_SECRET_PARTS = re.compile(
    "password|passwd|passphrase|passcode|secret|token(?!iz)|apikey|accesskey|privatekey|signingkey|credential"
    "|authorization|cookie|bearer"
)
_COUNTED = "tokens"


def plain(value: Any, place: str = "the value") -> Any:
    """This value as JSON builtins, or a UsageError that says which part of it cannot be kept."""
    try:
        return _plain(value, place, 0)
    except RecursionError:
        raise _too_deep(place) from None


def said(error: BaseException) -> str:
    """An error in words that can be kept, whatever is in them."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  somebody else's exception, which cannot even say what it is
        text = type(error).__name__
    # First without secrets, then short: half a secret has no shape that could be known.
    return redact(text.encode("utf-8", "backslashreplace").decode())[:500]


def _too_deep(place: str) -> UsageError:
    return UsageError(
        f"{place} contains itself, or more than {DEEPEST} levels in each other", hint="keep it flatter"
    )


def _plain(value: Any, place: str, depth: int) -> Any:
    if depth > DEEPEST:
        # Where it begins says more than where it was given up.
        raise _too_deep(place.partition("[")[0])
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, place)
        case int() | float():
            return _number(value, place)
        case dict():
            for key in value:
                if not isinstance(key, str):
                    raise UsageError(f"{place} has the key {key!r}; keys are strings", hint="use str(key)")
            return {
                _text(key, f"a key of {place}"): _plain(item, f"{place}[{key!r}]", depth + 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_plain(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
    try:
        # Structs, dataclasses, dates, enums, UUIDs, bytes, paths: whatever has one plain form.
        built = msgspec.to_builtins(value, enc_hook=_encode)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{place} is a {type(value).__name__}, which cannot be kept",
            hint="keep JSON values: dict, list, str, int, float, bool, None; or a Struct or dataclass of them",
        ) from error
    return _plain(built, place, depth + 1)


def bare(text: str) -> str:
    """The text that a kind of str holds: an enum's value, or what a class of its own shows in another way."""
    return str.__str__(text)


def _number(value: int | float, place: str) -> int | float:
    # Asked of the built-in types: a kind of them may tell something else of itself than what it holds.
    if isinstance(value, int):
        whole = int.__index__(value)
        if not -(2 ** (INTEGER_BITS - 1)) <= whole < 2**INTEGER_BITS:
            raise UsageError(f"{place} is an integer of more than 64 bits", hint="keep it as a string")
        return whole
    number = float.__float__(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise UsageError(f"{place} is {number}, which JSON cannot hold", hint="use null or a string")
    return number


def _text(value: str, place: str) -> str:
    text = bare(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{place} has half a character at {error.start}, which no text file can hold",
            hint="a name that is no UTF-8? keep os.fsencode(name).hex(), or a readable form of it",
        ) from None
    return text


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
