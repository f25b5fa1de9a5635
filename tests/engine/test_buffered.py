"""A model's output is applied whole and valid, or not at all; an error says where, and repeats nothing of it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.engine.runs.buffered import Buffered
from takeback.errors import InvalidOutput, UsageError


class Item(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    kind: Literal["file", "folder"] = "file"
    tags: dict[str, int] = {}
    code: Annotated[str, msgspec.Meta(pattern="^[a-z]+$", max_length=9)] = "a"

    def __post_init__(self) -> None:
        if self.name.startswith("!"):
            raise ValueError(f"{self.name} is refused")


class Report(msgspec.Struct):
    title: str
    items: list[Item] = []


@dataclass
class Plain:
    title: str


class Typed(TypedDict):
    title: str


SCHEMA = {
    "type": "object",
    "required": ["title"],
    "properties": {
        "title": {"type": "string", "maxLength": 5},
        "items": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "additionalProperties": False,
}
SECRET = "sk-live-abcdefghijklmnop1234"


def fed(schema: Any, *pieces: str | bytes, **options: Any) -> Any:
    out = Buffered(schema, **options)
    feed(out, *pieces)
    return out.value


def feed(out: Buffered[Any], *pieces: str | bytes) -> None:
    with out:
        for piece in pieces:
            out.feed(piece)


def invalid(schema: Any, *pieces: str | bytes, **options: Any) -> InvalidOutput:
    applied: list[Any] = []
    out = Buffered(schema, apply=applied.append, **options)
    with pytest.raises(InvalidOutput) as caught:
        feed(out, *pieces)
    assert applied == []
    assert not out.valid
    with pytest.raises(UsageError, match="has no value"):
        _ = out.value
    error = caught.value
    assert error.message.endswith("nothing was applied")
    assert SECRET not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    return error


def test_a_valid_output_is_applied_once_at_the_end() -> None:
    applied: list[Report] = []
    with Buffered(Report, apply=applied.append) as out:
        out.feed('{"title": "re')
        out.feed('port", "items": [{"name": "x"}]}')
        assert applied == []
        assert repr(out) == "<Buffered 45 bytes so far>"
        with pytest.raises(UsageError, match="it has not ended"):
            _ = out.value
    assert applied == [out.value] == [Report("report", [Item("x")])]
    assert out.valid
    assert repr(out) == "<Buffered valid>"
    with pytest.raises(UsageError, match="belongs inside the block"):
        out.feed("more")


@pytest.mark.parametrize(
    "schema, expected",
    [
        (Report, Report("t")),
        (Plain, Plain("t")),
        (Typed, {"title": "t"}),
        (dict[str, str], {"title": "t"}),
        (SCHEMA, {"title": "t"}),
        ({}, {"title": "t"}),
    ],
)
def test_what_a_schema_can_be(schema: Any, expected: Any) -> None:
    assert fed(schema, '{"title": "t"}') == expected


@pytest.mark.parametrize("schema", [5, "Report", list[Any] | dict[str, Any] | Report | Plain])
def test_what_it_cannot_be(schema: Any) -> None:
    with pytest.raises(UsageError, match="is not a schema"):
        Buffered(schema)


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/passwd"}]
)
def test_a_schema_that_is_wrong_or_reaches_out(schema: Any) -> None:
    with pytest.raises(UsageError, match="not a valid JSON Schema"):
        Buffered(schema)


def test_without_the_extra_a_json_schema_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(UsageError, match="not installed") as caught:
        Buffered(SCHEMA)
    assert "takeback[schema]" in caught.value.hint
    assert fed(Report, '{"title": "t"}') == Report("t")


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"title": "t"}\n```',
        '```\n{"title": "t"}\n```\n',
        '  \n```JSON \r\n{"title": "t"}\r\n```  ',
        '```json\n\n{"title":\n"t"}```',
        '\ufeff{"title": "t"}',
        ' \n{"title": "t"}\n ',
    ],
)
def test_a_fence_is_taken_off(text: str) -> None:
    assert fed(Report, text) == Report("t")


def test_a_fence_inside_a_text_stays() -> None:
    assert fed(Report, '```json\n{"title": "```\\n```"}\n```') == Report("```\n```")


@pytest.mark.parametrize(
    "text",
    [
        '{"title": "t',
        '{"title"',
        '{"title": "t"',
        '[{"title": tru',
        "{",
        '{"n": 1e',
        '{"n": -',
        '"a\\u12',
        "[1,",
        "",
        "  \n ",
        '{"title": "t"  \n',
        '```json\n{"title": "t"}\n',
        "```",
        "```json",
        '```json\n{"title": ',
    ],
)
def test_what_is_cut_off_is_said_as_such(text: str) -> None:
    error = invalid(Report, text)
    assert error.truncated
    assert "empty" in error.message if not text.strip() else "cut off" in error.message


def test_a_character_that_is_cut_off() -> None:
    whole = '{"title": "ü"}'.encode()
    assert fed(Report, whole[:12], whole[12:]) == Report("ü")
    assert invalid(Report, whole[:12]).truncated


@given(st.data())
def test_every_prefix_of_an_output_is_cut_off_and_never_applied(data: st.DataObject) -> None:
    value = data.draw(st.dictionaries(st.text(), st.lists(st.text() | st.booleans() | st.none()), min_size=1))
    whole = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert invalid(dict[str, Any], whole[:cut]).truncated
    middle = data.draw(st.integers(0, len(whole)))
    assert fed(dict[str, Any], whole[:middle], whole[middle:]) == value


@pytest.mark.parametrize(
    "text, line, column, said",
    [
        ('{"title": "t"} and so on', 1, 16, "trailing characters"),
        ('Here it is: {"title": "t"}', 1, 1, "invalid character"),
        ('{\n  "title": nope\n}', 2, 12, "invalid character"),
        ('{"title": "ü" "more": 1}', 1, 15, "expected ','"),
        ('["ü", NaN]', 1, 7, "invalid character"),
        ("```json\n{'title': 1}\n```", 2, 2, "object keys must be strings"),
        (b'{"title": "\xff"}', 1, 12, "not UTF-8"),
        ('{"title": "\\ud800"}', 1, 1, "surrogate"),
    ],
)
def test_what_is_no_json_is_placed(text: str | bytes, line: int, column: int, said: str) -> None:
    error = invalid(Report, text)
    assert said in error.message
    assert (error.line, error.column, error.path, error.truncated) == (line, column, "", False)
    assert f"line {line}, column {column}:" in error.message


def test_half_a_pair_that_python_made() -> None:
    assert "not UTF-8" in invalid(Report, '{"title": "\ud800"}').message


@pytest.mark.parametrize(
    "text, path, line, column, said",
    [
        ("[]", "$", 1, 1, "Expected `object`, got `array`"),
        ('{\n "items": []}', "$", 1, 1, "missing required field `title`"),
        ('{"title": "t",\n "items": [{"name": "x"},\n  {"name": 7}]}', "$.items[1].name", 3, 12, "got `int`"),
        (
            f'{{"title": "t", "items": [{{"name": "x", "kind": "{SECRET}"}}]}}',
            "$.items[0].kind",
            1,
            48,
            "Invalid enum value",
        ),
        (
            '{"title": "t", "items": [{"name": "x", "tags": {"k": "v"}}]}',
            "$.items[0].tags",
            1,
            48,
            "Expected `int`",
        ),
        (
            '{"title": "t", "items": [{"name": "x", "code": "A"}]}',
            "$.items[0].code",
            1,
            48,
            "regex '^[a-z]+$'",
        ),
        ('{"title": "t", "items": [{"name": "x", "more": 1}]}', "$.items[0]", 1, 26, "unknown field `more"),
        (f'{{"title": "t", "items": [{{"name": "!{SECRET}"}}]}}', "$.items[0]", 1, 26, "own check"),
        ('```json\n{"title": 7}\n```', "$.title", 2, 11, "Expected `str`, got `int`"),
        ('\ufeff{"title": 7}', "$.title", 1, 12, "Expected `str`, got `int`"),
        ('{"title": 7, "title": 8}', "$.title", 1, 23, "got `int`"),
    ],
)
def test_what_does_not_fit_the_type_is_placed(
    text: str, path: str, line: int, column: int, said: str
) -> None:
    error = invalid(Report, text)
    assert said in error.message
    assert (error.path, error.line, error.column) == (path, line, column)
    assert f"line {line}, column {column} ({path})" in error.message


@pytest.mark.parametrize(
    "text, path, said",
    [
        ('{"title": 7}', "$.title", 'the value is not of type "string"'),
        (f'{{"title": "{SECRET}"}}', "$.title", "the value is longer than 5"),
        (f'{{"title": "t", "items": ["a", "{SECRET}"]}}', "$.items[1]", "the value is not one of"),
        ("{}", "$", '"title" is a required property'),
        (f'{{"title": "t", "{SECRET}": 1}}', "$", "[hidden]"),
    ],
)
def test_what_does_not_fit_the_json_schema_is_placed(text: str, path: str, said: str) -> None:
    error = invalid(SCHEMA, text)
    assert said in error.message
    assert error.path == path


def test_numbers_that_are_no_json() -> None:
    assert "not JSON" in invalid(list[float], "[NaN]").message


def test_nesting_has_an_end() -> None:
    assert "nested too deeply" in invalid(list[Any], "[" * 100_000 + "]" * 100_000).message


def test_the_size_has_a_limit() -> None:
    assert fed(str, '"12345678"', bytes_max=10) == "12345678"
    error = invalid(str, '"1234', '56789"', "and more", bytes_max=10)
    assert "more than 10 bytes" in error.message


def test_an_exception_applies_nothing() -> None:
    applied: list[Any] = []
    out = Buffered(Report, apply=applied.append)

    def interrupted() -> None:
        with out:
            out.feed('{"title": "t"}')
            raise ConnectionError

    with pytest.raises(ConnectionError):
        interrupted()
    assert applied == []
    assert repr(out) == "<Buffered ended>"
    with pytest.raises(UsageError, match="left by an error"):
        _ = out.value


def test_what_apply_raises_goes_on() -> None:
    def refuse(_: Report) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError), Buffered(Report, apply=refuse) as out:
        out.feed('{"title": "t"}')
