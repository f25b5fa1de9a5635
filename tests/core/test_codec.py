"""Bytes, digests, names."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core import codec
from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.record import Envelope, Record, seal, unseal
from takeback.errors import CorruptionError, FormatTooNew, TakebackError, UsageError


@given(st.binary(max_size=40))
def test_paths_survive_as_printable_text(path: bytes) -> None:
    text = codec.text_of(path)
    assert codec.path_of(text) == path
    assert text.isprintable()


@pytest.mark.parametrize(
    "path, text",
    [
        (b"src/a b.py", "src/a b.py"),
        ("über.txt".encode(), "über.txt"),
        (b"a\nb", "a\\x0ab"),
        (b"\xff\\", "\\xff\\\\"),
        (b"\x80", "\\x80"),
        (b"a\\b", "a\\\\b"),
        ("\u2028".encode(), "\\xe2\\x80\\xa8"),
    ],
)
def test_paths_stay_readable(path: bytes, text: str) -> None:
    assert codec.text_of(path) == text


def test_canonical_json_is_rfc_8785() -> None:
    value = {"b": [1.0, 1e21, True, None], "a": "é\u2028", "big": 2**60, "\ufb33": 1, "😀": 2}
    text = '{"a":"é\u2028","b":[1,1e+21,true,null],"big":"1152921504606846976","😀":2,"\ufb33":1}'
    assert codec.canonical(value) == text.encode()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_that_other_readers_would_round_is_a_text(sign: int) -> None:
    exact = sign * (2**53 - 1)
    assert codec.canonical(exact) == str(exact).encode()
    assert codec.canonical(exact + sign) == f'"{exact + sign}"'.encode()


def test_a_text_with_bytes_that_are_not_utf_8_can_be_written() -> None:
    assert codec.written("plain, é and \\") == "plain, é and \\"
    assert codec.written(b"a\xff\\".decode("utf-8", "surrogateescape")) == "a\\xff\\\\"


def test_equal_values_have_equal_digests() -> None:
    assert codec.value_digest({"a": 1, "b": (2,)}) == codec.value_digest({"b": [2], "a": 1})
    assert codec.value_digest({"a": 1}) != codec.value_digest({"a": 2})
    assert codec.value_digest("").startswith("b3:")


@dataclasses.dataclass
class Point:
    x: int


class Named(msgspec.Struct):
    name: str


def test_structs_and_dataclasses_are_values() -> None:
    assert codec.canonical([Point(1), Named("n")]) == b'[{"x":1},{"name":"n"}]'


@pytest.mark.parametrize(
    "value, place",
    [
        ({"a": [object()]}, r"value\.a\[0\] is a object"),
        ({"a": float("nan")}, r"value\.a is nan"),
        ([float("inf")], r"value\[0\] is inf"),
        ({1: 2}, "has the key 1"),
        ({"a": {1j: 2}}, "has the key 1j"),
    ],
)
def test_what_cannot_be_kept_says_where(value: Any, place: str) -> None:
    with pytest.raises(UsageError, match=place):
        codec.canonical(value)


def envelope(**changes: Any) -> Envelope:
    whole: dict[str, Any] = {
        "v": 1,
        "seq": 1,
        "stream": "w",
        "n": 1,
        "prev": "",
        "at_us": 5,
        "event": e.CheckpointTaken("x"),
    }
    return Envelope(**(whole | changes))


def test_a_record_comes_back_as_it_was() -> None:
    data, digest = seal(envelope())
    assert unseal(data, "event 1") == envelope()
    record = Record(envelope(), digest)
    assert (record.seq, record.stream, record.at_us, record.id) == (1, "w", 5, "c1")
    assert Record(envelope(event=e.RunEnded(e.Outcome.DONE)), "").id == ""


class Word(str):
    def __str__(self) -> str:
        return "another text"


def test_a_kind_of_text_is_stored_as_the_text_that_it_holds() -> None:
    stored = unseal(seal(envelope(event=e.CheckpointTaken(Word("x"))))[0], "event 1")
    assert stored == envelope() and type(stored.event.message) is str  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="an event cannot hold a object"):
        seal(envelope(event=e.CheckpointTaken(object())))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"v":1}', b"\xff", b'{"v":"x"}', seal(envelope())[0][:-2]]
)
def test_damaged_bytes_name_their_place(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="event 9 cannot be read"):
        unseal(data, "event 9")


@pytest.mark.parametrize("event", [{"type": "checkpoint-taken"}, {"type": "from-the-future"}])
def test_a_newer_event_is_refused_and_not_misread(event: dict[str, str]) -> None:
    data = msgspec.json.encode(msgspec.to_builtins(envelope(v=e.EVENTS_VERSION + 1)) | {"event": event})
    with pytest.raises(FormatTooNew, match=f"event format {e.EVENTS_VERSION + 1}"):
        unseal(data, "event 9")


def test_an_event_of_this_format_and_of_those_before_is_read() -> None:
    assert e.EVENTS_VERSION == 10, "a journal of a newer one is refused by every older program"
    for version in range(1, e.EVENTS_VERSION + 1):
        assert unseal(seal(envelope(v=version))[0], "event 9").v == version


LEFT_OUT = {
    "RunBegan.thread": False,
    "RunBegan.generation": 1,
    "RunBegan.autopilot": False,
    "RunBegan.detached": False,
    "ActionBegan.brand": 0,
    "ActionEnded.unsure": False,
    "IntentDeferred.tries": 12,
    "IntentAttempted.unsure": False,
    "IntentDelivered.found": False,
    "IntentDied.unsure": False,
    "IntentCancelled.unsure": False,
    "Item.verified": False,
}


@pytest.mark.parametrize(
    "text, recorded",
    [
        ("", ""),
        (
            "gr\u00fc\u00df dich \\ und\nweiter",
            "gr\u00fc\u00df dich \\ und\nweiter",
        ),  # every reader can hold it
        ("rm a\udcff", "rm a\\xff"),
        ("\udce9 c:\\d", "\\xe9 c:\\\\d"),
    ],
)
def test_a_text_that_is_not_utf_8_is_written_so_that_every_reader_can_hold_it(
    text: str, recorded: str
) -> None:
    assert codec.written(text) == recorded
    assert codec.written(recorded) == recorded


def test_one_line_steers_no_terminal_and_is_cut() -> None:
    assert codec.one_line("a\x1b[8mb\rc\n\td\u202e", 60) == r"a\x1b[8mb c d\u202e"
    assert codec.one_line("abcdef", 6) == "abcdef"
    assert codec.one_line("abcdefg", 6) == "abcde…"


def test_what_a_stored_event_leaves_out_means_what_it_always_meant() -> None:
    """A default is not written down, so another one would change what old journals say."""
    found = {
        f"{event.__name__}.{field.name}": field.default
        for event in (*get_args(e.Event), e.Item)
        for field in msgspec.structs.fields(event)
        if isinstance(field.default, int)
    }
    assert found == LEFT_OUT


def test_versions_compare_by_id_alone() -> None:
    assert Version("x", "t1", {"size": 1}) == Version("x", "t2", {"size": 2})
    assert not Version("x", "t1", {"a": 1}) != Version("x", "t2")  # noqa: SIM202
    assert Version("x") != Version("y") and Version("x") != "x"
    assert len({Version("x", "t1"), Version("x", "t2")}) == 1
    assert not ABSENT and Version("x")


def test_targets_read_well() -> None:
    assert str(Target("files", "src/a.py")) == "src/a.py"
    assert str(Target("files", "x", root="home")) == "home:x"
    assert repr(Change(Target("files", "x"), ABSENT, Version("f:644:1"))) == "<Change x absent to f:644:1>"


def test_errors_end_with_the_way_out() -> None:
    assert str(UsageError("no", hint="try yes")) == "no\n  Hint: try yes"
    assert str(TakebackError("no")) == "no"
