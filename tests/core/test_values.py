"""What can be kept, what of it may be seen, and the keys that are made of it."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core import keys
from takeback.core.change import Target
from takeback.core.redact import HIDDEN
from takeback.core.values import SHOWN_BYTES, plain, said, shortened, view
from takeback.errors import UsageError

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_json_is_kept_as_it_is(value: Any) -> None:
    assert plain(value) == value
    assert msgspec.json.decode(msgspec.json.encode(plain(value))) == value


@dataclass
class Meeting:
    room: str
    when: datetime.date


class Point(msgspec.Struct):
    x: int


class Model:
    """As pydantic's models are, by the one method that they are known by."""

    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


def test_what_has_a_plain_form_is_kept_in_it() -> None:
    assert plain([Model()]) == [{"mode": "json"}]
    assert plain(Meeting("blue", datetime.date(2026, 1, 2))) == {"room": "blue", "when": "2026-01-02"}
    assert plain((Point(1), pathlib.PurePosixPath("a/b"))) == [{"x": 1}, "a/b"]


def nested_in_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value, why",
    [
        ({"a": [object()]}, r"the value\['a'\]\[0\] is a object, which cannot be kept"),
        (Model, "the value is a type, which cannot be kept"),
        ({1: 2}, "has the key 1; keys are strings"),
        (float("nan"), "the value is nan"),
        (2**64, "more than 64 bits"),
        (["ok", "a\udcff"], r"the value\[1\] has an unpaired surrogate at 1"),
        (nested_in_itself(), "the value contains itself"),
    ],
)
def test_what_cannot_be_kept_is_named(value: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plain(value)


@pytest.mark.parametrize("around", [lambda inner: [inner], lambda inner: {"k": inner}], ids=["list", "dict"])
def test_values_may_be_nested_to_the_limit_and_no_deeper(around: Callable[[Any], Any]) -> None:
    def nested(inner: Any, levels: int) -> Any:
        for _ in range(levels):
            inner = around(inner)
        return inner

    assert plain(nested(1, 200)) == nested(1, 200)
    # What has a plain form is one level more.
    assert plain(nested(pathlib.PurePath("x"), 199)) == nested("x", 199)
    for deeper in (nested(1, 201), nested(pathlib.PurePath("x"), 200)):
        with pytest.raises(
            UsageError, match=r"^the value contains itself, or is nested more than 200 levels deep"
        ):
            plain(deeper)


@pytest.mark.parametrize("last, sign", [(2**64 - 1, 1), (-(2**63), -1)])
def test_integers_are_kept_up_to_64_bits(last: int, sign: int) -> None:
    assert plain(last) == last
    with pytest.raises(UsageError, match="more than 64 bits"):
        plain(last + sign)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_not_kept(value: float) -> None:
    with pytest.raises(UsageError, match=f"is {value}, which JSON cannot hold"):
        plain(value)


def test_what_is_just_short_enough_is_shown_and_told_whole() -> None:
    assert SHOWN_BYTES == 16_384, "each record may hold as much of every value"
    whole = "x" * (SHOWN_BYTES - 2)  # and its two quotation marks
    assert shortened(whole) == whole and shortened(f"{whole}x") != whole
    assert len(said(ValueError("y " * 1_000))) == 500


def test_a_view_has_no_secrets() -> None:
    secret = "ghp_" + "a1" * 18
    value = {
        "url": f"https://x?token={secret}",
        "api_key": "hunter2",
        "n": 3,
        "list": [secret, None],
        "key": "k",
    }
    seen = view(value)
    assert secret not in str(seen) and seen["api_key"] == HIDDEN
    assert (seen["n"], seen["key"], seen["list"][1]) == (3, "k", None)


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PGPASSWORD",
        "dbPass",
        "DB_PASS",
        "accessToken",
        "access_tokens",
        "apiKey",
        "x-api-key",
        "Authorization",
        "userAuth",
        "client_secret",
        "clientSecrets",
        "privateKey",
        "Set-Cookie",
        "credentials",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"a": "hunter2"}, 42])
def test_what_a_name_announces_is_hidden_whatever_it_is(name: str, value: Any) -> None:
    if name != "access_tokens" or value != 42:
        assert view({"headers": {name: value}}) == {"headers": {name: HIDDEN}}


@pytest.mark.parametrize(
    "name, value",
    [
        ("author", "Ann"),
        ("passenger", "Bob"),
        ("compass", 90),
        ("key", "k"),
        ("max_tokens", 100),
        ("tokenizer", "bpe"),
        ("password", None),
        ("has_password", True),
    ],
)
def test_what_is_no_secret_is_seen(name: str, value: Any) -> None:
    assert view({name: value}) == {name: value}


def test_a_view_is_short() -> None:
    assert shortened([1, 2]) == [1, 2]
    long = shortened("x" * (SHOWN_BYTES + 1))
    assert len(long) < 300 and long.endswith(f"({SHOWN_BYTES + 3:,} bytes)")


@given(json_values, json_values)
def test_volatile_arguments_are_no_part_of_the_intent(one: Any, other: Any) -> None:
    def key(value: Any) -> str:
        given = {"what": "x", "request_id": value, "more": {"at": value, "to": "me"}}
        return keys.action_key("step", 1, "tool", keys.intent(given, ("request_id", "at"), "more"))

    assert key(one) == key(other)


def test_what_is_inside_of_an_argument_belongs_to_the_intent() -> None:
    given = {"id": 7, "item": {"id": 1}, "in": [{"id": 2}]}
    assert keys.intent(given, ("id",)) == {"item": {"id": 1}, "in": [{"id": 2}]}


def test_keys_tell_calls_apart() -> None:
    made = {
        keys.action_key("s", 1, "tool", {"a": 1}),
        keys.action_key("s", 2, "tool", {"a": 1}),
        keys.action_key("t", 1, "tool", {"a": 1}),
        keys.action_key("s", 1, "other", {"a": 1}),
        keys.action_key("s", 1, "tool", {"a": 2}),
        keys.intent_key("tool", {"a": 1}),
        keys.intent_key("tool", {"a": 2}),
        keys.intent_key("other", {"a": 1}),
        keys.call_key("w", "r", 1, "k", 1),
        keys.call_key("w", "r", 1, "k", 2),
        keys.call_key("w", "r", 2, "k", 1),
        keys.call_key("v", "r", 1, "k", 1),
        keys.call_key("w", "r\nk", 1, "", 1),
        keys.call_key("w", "r", 1, "\nk", 1),
    }
    assert len(made) == 14 and all(len(key) == 32 for key in made)


def test_an_error_is_cut_only_after_its_secrets_are_gone() -> None:
    secret = "ghp_" + "a1" * 18
    text = said(ValueError("x" * 470 + " " + secret))
    assert "ghp_" not in text and len(text) <= 500


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def test_an_error_that_cannot_say_what_it_is_has_a_name() -> None:
    assert said(Mute()) == "Mute"
    assert said(OSError("caf\udce9")) == "OSError: caf\\udce9"


def test_values_deeper_than_the_interpreter_goes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("takeback.core.values.DEEPEST", 10**6)
    with pytest.raises(UsageError, match="the value contains itself"):
        plain(nested_in_itself())


@pytest.mark.parametrize(
    "name, expected",
    {
        "refs/heads/a/b": "branch a/b",
        "refs/tags/v1": "tag v1",
        "refs/remotes/origin/main": "remote branch origin/main",
        "refs/stash": "stash",
        "HEAD": "HEAD",
        "refs/notes/heads": "refs/notes/heads",
    }.items(),
)
def test_a_ref_is_named_as_people_do(name: str, expected: str) -> None:
    assert Target("git", name).said == expected
    assert Target("files", name).said == name


def test_a_call_is_named_without_its_key() -> None:
    assert Target("calls", "book a room 0123").said == "book a room"
    assert Target("calls", "book").said == "book"
