"""Which settings hold at once and which have to be accepted, for every one that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from takeback.settings import loosening
from takeback.settings.loosening import holding, to_accept
from takeback.settings.toml import Config, parse_config

FREE = """
[agents]
autopilot = true
[outside]
max-files = 1
[outbox]
first-pause-s = 5.0
[tools]
put = "shop.tools:write"
[store]
keep-days = 0
quota-bytes = 99999999999
[rules.paths]
allow = ["src/**"]
deny = [".env"]
[rules.tools]
allow = ["put"]
ask = ["a"]
deny = ["b"]
[rules.effects]
none = "ask"
irreversible = "deny"
restorable = "allow"
[rules.commands]
ask = ["a"]
deny = ["b"]
[rules.limits]
steps = 3
"""


def parsed(text: str) -> Config:
    return parse_config(text, Path("takeback.toml"))


def test_what_tightens_holds_at_once() -> None:
    given = parsed(FREE)
    assert to_accept(given) == ()
    assert holding(given, ()) == given


@pytest.mark.parametrize(
    "text, names",
    [
        ('[files]\nexclude = ["a", "b"]', ["files.exclude", "files.exclude"]),
        ('[store]\nstore = "$S"\nworkspace = "w"\nblobs = "s3://b"', ["store"]),
        ("[store]\nkeep-days = 1\nquota-bytes = 1", ["store.quota-bytes", "store.keep-days"]),
        ('[outbox]\nsmtp = "smtp://h"\nsender = "a@b"', ["outbox"]),
        ('[rules.paths]\noutside = ["/**"]\ndeny = [".env"]', ["rules.paths.outside"]),
        ('[rules.effects]\nirreversible = "allow"', ["rules.effects.irreversible"]),
        (
            '[[audit.webhooks]]\nurl = "http://a"\n[[audit.webhooks]]\nurl = "http://b"',
            ["audit.webhooks"] * 2,
        ),
    ],
)
def test_what_loosens_has_to_be_accepted_and_is_by_its_digest(text: str, names: list[str]) -> None:
    given = parsed(text)
    asked = to_accept(given)
    assert [one.name for one in asked] == names
    assert to_accept(holding(given, ())) == ()
    assert holding(given, [one.digest for one in asked]) == given
    # Each by itself, and exactly so.
    first, *others = asked
    assert to_accept(holding(given, [first.digest])) == (first,)
    assert len({one.digest for one in asked}) == len(asked)
    assert holding(given, [first.digest[:-1]]) == holding(given, ())
    assert all(one in asked for one in others)


def test_the_rest_of_a_table_still_holds() -> None:
    given = parsed('[rules.paths]\noutside = ["/**"]\ndeny = [".env"]\n[store]\nstore = "$S"\nkeep-days = 60')
    held = holding(given, ())
    assert (
        held.rules.paths is not None and held.rules.paths.deny == (".env",) and not held.rules.paths.outside
    )
    assert (held.store.store, held.store.keep_days) == ("", 60)


def test_a_password_is_not_shown() -> None:
    (asked,) = to_accept(parsed('[store]\nstore = "postgresql://me:hunter2@host/db"'))
    assert "hunter2" not in str(asked) and "host/db" in str(asked)


def test_what_is_shown_does_not_steer_a_terminal() -> None:
    (asked,) = to_accept(parsed('[files]\nexclude = ["\\u001b[2Ja\\u009b\\u202eb"]'))
    assert str(asked).isprintable() and "u202e" in str(asked)


def test_a_setting_that_nobody_has_classified_has_to_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each table had got one more: what is new is not taken for harmless."""

    def plain(_given: Config) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(Config())
        if _given is not usual:
            for table in (
                found["files"],
                found["agents"],
                found["rules"]["commands"],
                found["rules"]["tools"],
            ):
                table["new"] = ["*"]
        return found

    usual, marker = Config(), Config()
    monkeypatch.setattr(loosening, "_plain", lambda given: plain(given if given is marker else usual))
    names = {one.name for one in to_accept(marker)}
    assert names == {"files.new", "agents.new", "rules.commands.new", "rules.tools.new"}
