"""Encoding of values as bytes, and digests of bytes as names.

Two encodings, for two jobs. Events are stored as the exact bytes that were hashed, so they only have to be
deterministic: msgspec with sorted keys, which is fast. Values whose digest must be the same in every language
(what an approval is bound to) use canonical JSON (RFC 8785).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import rfc8785
from blake3 import blake3

from takeback.errors import UsageError

ALGORITHM = "b3"
_INTEGER_MAX = 2**53 - 1


def digest(data: bytes) -> str:
    """Return the digest of these bytes. Its prefix names the algorithm, so that another can be added later."""
    return f"{ALGORITHM}:{blake3(data).hexdigest()}"


def _portable(value: Any, path: str) -> Any:
    """Convert a value to what canonical JSON can hold; raise UsageError with the path of what it cannot."""
    match value:
        case None | bool() | str():
            return value
        case int():
            # Readers in other languages hold numbers as doubles and would round these.
            return value if -_INTEGER_MAX <= value <= _INTEGER_MAX else str(value)
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise UsageError(f"{path} is {value}, which JSON cannot hold", hint="use null or a string")
            return value
        case dict():
            for key in value:
                if not isinstance(key, str):
                    raise UsageError(f"{path} has the key {key!r}; JSON keys are strings")
            return {key: _portable(item, f"{path}.{key}") for key, item in value.items()}
        case list() | tuple():
            return [_portable(item, f"{path}[{index}]") for index, item in enumerate(value)]
        case msgspec.Struct():
            return _portable(msgspec.structs.asdict(value), path)
    try:
        # Dataclasses, dates, enums, UUIDs, bytes: everything msgspec can convert.
        plain = msgspec.to_builtins(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is a {type(value).__name__}, which cannot be kept",
            hint="pass JSON values: dict, list, str, int, float, bool, None; or a msgspec Struct or dataclass",
        ) from error
    return _portable(plain, path)


def canonical(value: Any) -> bytes:
    """Encode a value so that equal values have equal bytes, in any language."""
    return rfc8785.dumps(_portable(value, "value"))


def value_digest(value: Any) -> str:
    """Return the digest of a value's canonical form."""
    return digest(canonical(value))


# Paths are bytes, JSON is text. Printable UTF-8 stays as it is; every other byte is written \xNN, and a
# backslash is doubled. The form is reversible and safe to print.

_ESCAPED = re.compile(rb"\\(\\|x[0-9a-f]{2})")


def _escape(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def text_of(path: bytes) -> str:
    """Write a path as printable text, reversibly."""
    text = path.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_escape, text))


def printable(line: str) -> str:
    """Return a line with characters that would control a terminal, or reverse its text, escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def one_line(text: str, most: int) -> str:
    """Return a text as one printable line, cut if it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def written(text: str) -> str:
    """Return text that contains undecodable bytes (Python's surrogate escapes) as valid Unicode.

    Such text is escaped like a path, reversibly; all other text stays as it is.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text_of(text.encode("utf-8", "surrogateescape"))
    return text


def path_of(text: str) -> bytes:
    """Return the path that `text_of` wrote as this text."""
    return _ESCAPED.sub(_unescape, text.encode())


def _unescape(found: re.Match[bytes]) -> bytes:
    return b"\\" if found[1] == b"\\" else bytes([int(found[1][1:], 16)])
