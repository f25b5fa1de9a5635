"""Values that a run keeps: arguments, results, memory. Only JSON can be kept, and it is read back unchanged."""

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


SUBJECTS = ("command", "file_path", "notebook_path", "filePath", "target_file", "path")
"""The arguments of an agent's call by which a person knows it, the first that there is."""


def plain(value: Any, place: str = "the value") -> Any:
    """Return this value as JSON builtins, or raise a UsageError that names the part that cannot be kept."""
    try:
        return _plain(value, place, 0)
    except RecursionError:
        raise _too_deep(place) from None


def said(error: BaseException) -> str:
    """Return an error as text that can be kept: without secrets, valid, and short."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  a foreign exception whose __str__ fails
        text = type(error).__name__
    # Redact before cutting: half a secret has no recognisable shape.
    return redact(text.encode("utf-8", "backslashreplace").decode())[:500]


def _too_deep(place: str) -> UsageError:
    return UsageError(
        f"{place} contains itself, or is nested more than {DEEPEST} levels deep", hint="keep it flatter"
    )


def _plain(value: Any, place: str, depth: int) -> Any:
    if depth > DEEPEST:
        # The beginning of the path says more than the place where the limit was reached.
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
        # Structs, dataclasses, dates, enums, UUIDs, bytes, paths: everything with a plain form.
        built = msgspec.to_builtins(value, enc_hook=_encode)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{place} is a {type(value).__name__}, which cannot be kept",
            hint="keep JSON values: dict, list, str, int, float, bool, None; or a Struct or dataclass of them",
        ) from error
    return _plain(built, place, depth + 1)


def bare(text: str) -> str:
    """Return the plain text of an enum or of an instance of a subclass of str."""
    return str.__str__(text)


def _number(value: int | float, place: str) -> int | float:
    # By the methods of the built-in types: a subclass may override what it returns.
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
            f"{place} has an unpaired surrogate at {error.start}, which UTF-8 cannot encode",
            hint="if it is a file name that is not UTF-8, keep os.fsencode(name).hex(), or a readable form of it",
        ) from None
    return text


def _encode(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise TypeError(type(value).__name__)


def view(value: Any) -> Any:
    """Return a plain value with secrets redacted, as a log may show it."""
    match value:
        case str():
            return redact(value)
        case dict():
            return {key: view_of(key, item) for key, item in value.items()}
        case list():
            return [view(item) for item in value]
    return value


def view_of(name: str, value: Any) -> Any:
    """Return a named value as a log may show it: hidden completely if the name announces a secret."""
    if value is None or isinstance(value, bool) or not _announces_secret(name):
        return view(value)
    words = "".join(_WORDS.findall(name)).lower()
    # A number called "tokens" is a count, not a secret.
    return value if isinstance(value, int | float) and words.endswith(_COUNTED) else HIDDEN


@functools.lru_cache(maxsize=4096)
def _announces_secret(name: str) -> bool:
    """Return True for PGPASSWORD, accessToken, x-api-key, Authorization; but not for author or tokenizer."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(_SECRET_PARTS.search("".join(words))) or not _SECRET_WORDS.isdisjoint(words)


def shortened(value: Any) -> Any:
    """Return a view that is short enough for a log."""
    text = msgspec.json.encode(value)
    if len(text) <= SHOWN_BYTES:
        return value
    return f"{text[:200].decode('utf-8', 'replace')}… ({len(text):,} bytes)"
