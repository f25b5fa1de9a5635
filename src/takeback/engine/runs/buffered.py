"""A model's output as input: collected while it streams, checked as a whole, applied only if it is valid.

    with run.buffered(Report, apply=save) as out:
        for piece in stream:
            out.feed(piece)
    out.value

Nothing of it is applied before the end of the block. An error says where the output is wrong, but does not quote
it: it may contain a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

import msgspec

from takeback.core.json_position import Part, line_and_column, offset_of, parts_of, path_of
from takeback.core.redact import redact
from takeback.errors import InvalidOutput, UsageError

BYTES_MAX = 16 * 2**20

_FENCE = re.compile(rb"\A\s*```[ \t]*[\w-]*[ \t]*\r?\n(.*?)\s*```\s*\Z", re.DOTALL)
_OPENED = re.compile(rb"\A\s*```")
_BYTE = re.compile(r" \(byte (\d+)\)$")
_AT = re.compile(r"(?: - at `([^`]*)`)?$")
_TOLD = re.compile(r"(?:Expected|Object|Array|Invalid|Integer|Number|Timestamp)\b[^'\"]*", re.DOTALL)

T = TypeVar("T")
Wrong = tuple[str, list[Part]]
"""What is wrong, and where."""


class Buffered(Generic[T]):
    """An output being collected, and its value if all of it is valid.

    `schema` is a type that msgspec decodes (a Struct, dataclass, TypedDict, list[…]) or a JSON Schema as a dict; the
    latter needs the extra `takeback[schema]`. A Markdown fence around the JSON is taken off. `apply` is called with
    the valid value at the end of the block, and never otherwise.
    """

    @overload
    def __init__(
        self, schema: type[T], *, apply: Callable[[T], object] | None = None, bytes_max: int = BYTES_MAX
    ) -> None: ...
    @overload
    def __init__(
        self: Buffered[Any],
        schema: Any,
        *,
        apply: Callable[[Any], object] | None = None,
        bytes_max: int = BYTES_MAX,
    ) -> None: ...
    def __init__(
        self, schema: Any, *, apply: Callable[[Any], object] | None = None, bytes_max: int = BYTES_MAX
    ) -> None:
        self._convert = _by_schema(schema) if isinstance(schema, dict) else _by_type(schema)
        self._apply = apply
        self._bytes_max = bytes_max
        self._data = bytearray()
        self._ended = False
        self._valid = False
        self._value: Any = None

    def feed(self, piece: str | bytes) -> None:
        """Add the next piece. Bytes may end in the middle of a character."""
        if self._ended:
            raise UsageError("the output has ended; feed() belongs inside the block")
        self._data += piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
        if len(self._data) > self._bytes_max:
            self._end()
            raise InvalidOutput(
                f"the output has more than {self._bytes_max:,} bytes; nothing was applied",
                hint="raise bytes_max if that much is intended",
            )

    @property
    def value(self) -> T:
        """The valid value; UsageError before the end of the block and for an invalid output."""
        if not self._valid:
            state = (
                "it was not valid, or the block was left by an error" if self._ended else "it has not ended"
            )
            raise UsageError(f"the output has no value: {state}")
        value: T = self._value
        return value

    @property
    def valid(self) -> bool:
        """True if the output has ended and is valid."""
        return self._valid

    def __enter__(self) -> Buffered[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        data = bytes(self._data)
        self._end()
        if kind is None:
            self._value = _read(data, self._convert)
            self._valid = True
            if self._apply is not None:
                self._apply(self._value)

    def _end(self) -> None:
        self._ended = True
        self._data = bytearray()

    def __repr__(self) -> str:
        state = "valid" if self._valid else "ended" if self._ended else f"{len(self._data):,} bytes so far"
        return f"<Buffered {state}>"


def _read(data: bytes, convert: Callable[[bytes], tuple[Any, Wrong | None]]) -> Any:
    """Return the value of a whole output, or raise InvalidOutput."""
    text = _text(data)
    if not text.strip():
        raise InvalidOutput("the output is empty; nothing was applied", truncated=True)
    start, body = _unfenced(data)
    _check_syntax(data, start, body)
    value, wrong = convert(body)
    if wrong is not None:
        what, parts = wrong
        inner = body.decode()
        offset = len(data[:start].decode()) + offset_of(inner, parts)
        raise _invalid(text, offset, what, path=path_of(parts))
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        if error.reason == "unexpected end of data":
            raise _truncated(before) from None
        raise _invalid(before, len(before), "this is not UTF-8 text") from None


def _unfenced(data: bytes) -> tuple[int, bytes]:
    """Return the JSON in the output, and where it begins."""
    if fenced := _FENCE.match(data):
        return fenced.start(1), fenced[1]
    if _OPENED.match(data):
        raise _truncated(data.decode())
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    return start, data[start:]


def _check_syntax(data: bytes, start: int, body: bytes) -> None:
    text = data.decode()
    try:
        msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        at = _BYTE.search(str(error))
        place = _place_of_fault(body.decode())
        if at is None and place is None:
            raise _invalid(text, 0, "a string contains an unpaired surrogate") from None
        if at is None or int(at[1]) >= len(body.rstrip()):
            raise _truncated(text) from None
        if place is None:
            place = len(body[: int(at[1])].decode("utf-8", "ignore"))
        what = _BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
        if b"```" in body and not body.lstrip().startswith((b"{", b"[", b'"')):
            what += ". There is text around a Markdown fence: ask for the JSON alone"
        raise _invalid(text, len(data[:start].decode()) + place, f"this is not JSON: {what}") from None
    except RecursionError:
        raise InvalidOutput("the output is nested too deeply; nothing was applied") from None


def _place_of_fault(text: str) -> int | None:
    """Return the position of the first fault by Python's own parser, which is less strict but exact."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos
    except (ValueError, RecursionError):
        return 0
    return None


def _truncated(text: str) -> InvalidOutput:
    line, column = line_and_column(text, len(text.rstrip()))
    return InvalidOutput(
        f"the output is cut off: it ends at line {line}, column {column}, in the middle; nothing was applied",
        hint="ask for the rest, or give the model more room for its answer",
        line=line,
        column=column,
        truncated=True,
    )


def _invalid(text: str, offset: int, what: str, *, path: str = "") -> InvalidOutput:
    line, column = line_and_column(text, offset)
    where = f"line {line}, column {column}" + (f" ({redact(path)})" if path else "")
    return InvalidOutput(
        f"the output is not valid: {where}: {redact(what)}; nothing was applied",
        path=path,
        line=line,
        column=column,
    )


# Schemas


def _by_type(schema: Any) -> Callable[[bytes], tuple[Any, Wrong | None]]:
    try:
        decoder = msgspec.json.Decoder(schema)
    except TypeError as error:
        raise UsageError(
            f"{schema!r} is not a schema: {error}",
            hint="pass a msgspec Struct, a dataclass, a TypedDict, a list[…] of these, or a JSON Schema as a dict",
        ) from error

    def convert(body: bytes) -> tuple[Any, Wrong | None]:
        try:
            return decoder.decode(body), None
        except msgspec.ValidationError as error:
            at = _AT.search(str(error))
            path = at[1] if at and at[1] else "$"
            return None, (_without_content(error), parts_of(path))

    return convert


def _without_content(error: msgspec.ValidationError) -> str:
    """Return msgspec's message without the value that it may quote."""
    if error.__cause__ is not None:
        return "refused by the type's own check"
    message = _AT.sub("", str(error))
    if message.startswith("Expected `str` matching regex"):
        return message
    found = _TOLD.match(message)
    return found[0].rstrip() if found else "not of the expected kind"


def _by_schema(schema: dict[str, Any]) -> Callable[[bytes], tuple[Any, Wrong | None]]:
    try:
        import jsonschema_rs
    except ImportError:
        raise UsageError(
            "a JSON Schema needs a package that is not installed",
            hint="pip install 'takeback[schema]', or pass a type: a msgspec Struct, dataclass or TypedDict",
        ) from None
    try:
        # Offline: a schema must not reach the network or other files. Masked: an error does not repeat the value.
        validator = jsonschema_rs.validator_for(schema, mask="the value", offline=True)
    except ValueError as error:
        raise UsageError(f"this is not a valid JSON Schema: {str(error).splitlines()[0]}") from None

    def convert(body: bytes) -> tuple[Any, Wrong | None]:
        value = msgspec.json.decode(body)
        for error in validator.iter_errors(value):
            return None, (error.message, list(error.instance_path))
        return value, None

    return convert
