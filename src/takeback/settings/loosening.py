"""Which settings of takeback.toml hold only once a human has accepted them, and what holds until then.

A file comes with a folder: a clone, an unpacked archive, somebody's branch. What it tightens holds at once. What it
loosens, leaves out, connects to or tells others has to be seen by a human first, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from takeback.core.codec import value_digest
from takeback.settings.toml import Config
from takeback.system.postgres_address import hidden

Plain = dict[str, Any]


class Setting(msgspec.Struct, frozen=True):
    """One thing that has to be accepted, exactly as it is."""

    name: str
    """The table and the setting, as they stand in the file."""
    value: Any
    does: str
    """What it would do, as a verb."""

    @property
    def digest(self) -> str:
        return value_digest([self.name, self.value])

    @property
    def shown(self) -> str:
        """The value, without what looks like a secret in it."""
        shown = hidden(msgspec.json.encode(self.value).decode())
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)

    def __str__(self) -> str:
        table, _, name = self.name.rpartition(".")
        return f"[{table}] {name} = {self.shown}" if table else f"[{name}] {self.shown}"


Test = Callable[[Any, Any], bool]
"""Whether a value has to be accepted, beside the default."""


def _is_less(value: Any, usual: Any) -> bool:
    """Zero means no limit."""
    return bool(0 < value < usual)


def _is_allowed(value: Any, usual: Any) -> bool:
    return bool(value == "allow" != usual)


def _is_another(value: Any, usual: Any) -> bool:
    return bool(value != usual)


_GROUPS = {
    "store": (("store", "workspace", "blobs", "blobs-key"), "connects"),
    "outbox": (("smtp", "sender"), "sends"),
}
"""What means something together only, and is accepted together."""

_TESTS: dict[str, tuple[Test, str]] = {
    "files.exclude": (_is_another, "excludes"),
    "store.quota-bytes": (_is_less, "keeps less"),
    "store.keep-days": (_is_less, "keeps less"),
    "store.keep-checkpoints": (_is_less, "keeps less"),
    "audit.webhooks": (_is_another, "tells"),
    "rules.effects": (_is_allowed, "allows"),
    "rules.commands.allow": (_is_another, "allows"),
}
"""What else is asked of a value than whether it is another than the default; with what it does."""

_FREE = (
    # They only tighten, only give a name to something, or only say when.
    "agents.autopilot",
    "outbox.first-pause-s",
    "outbox.longest-pause-s",
    "outside.max-files",
    "outside.max-bytes",
    "rules.commands.arguments",
    "rules.commands.ask",
    "rules.commands.deny",
    "rules.limits",
    "rules.paths.allow",
    "rules.paths.arguments",
    "rules.paths.deny",
    "rules.tools.allow",
    "rules.tools.ask",
    "rules.tools.deny",
    "tools",
)
"""What holds at once. A setting that stands nowhere here has to be accepted."""


def to_accept(given: Config) -> tuple[Setting, ...]:
    """What of these settings holds only once it is accepted. Of a list, each part by itself."""
    return tuple(setting for setting, _ in _found(_plain(given)))


def holding(given: Config, accepted: Collection[str]) -> Config:
    """These settings, with the default in the place of each that has to be accepted and is not."""
    plain = _plain(given)
    for setting, drop in list(_found(plain)):
        if setting.digest not in accepted:
            drop()
    return msgspec.convert(plain, Config)


def _plain(given: Config) -> Plain:
    plain: Plain = msgspec.json.decode(msgspec.json.encode(given))
    return plain


def _found(plain: Plain) -> Iterator[tuple[Setting, Callable[[], None]]]:
    """Each setting that has to be accepted, and how it is taken out."""
    usual = _plain(Config())
    for table, (names, does) in _GROUPS.items():
        together = {name: plain[table][name] for name in names if plain[table][name] != usual[table][name]}
        if together:
            yield Setting(table, together, does), _putting(plain[table], usual[table], *names)
    yield from _in_table(plain, usual, "")


def _in_table(table: Plain, usual: Plain, path: str) -> Iterator[tuple[Setting, Callable[[], None]]]:
    for name, value in list(table.items()):
        here, default = f"{path}{name}", usual.get(name)
        if here in _FREE or name in _GROUPS.get(path.rstrip("."), ((),))[0]:
            continue
        if isinstance(value, dict):
            yield from _in_table(value, default or {}, f"{here}.")
            continue
        test, does = _TESTS.get(here) or _TESTS.get(path.rstrip(".")) or (_is_another, "loosens")
        if not test(value, default):
            continue
        if isinstance(value, list):
            for part in value:
                yield Setting(here, part, does), _removing(value, part)
        else:
            yield Setting(here, value, does), _putting(table, usual, name)


def _putting(table: Plain, usual: Plain, *names: str) -> Callable[[], None]:
    def put() -> None:
        for name in names:
            if name in usual:
                table[name] = usual[name]
            else:
                del table[name]

    return put


def _removing(values: list[Any], part: Any) -> Callable[[], None]:
    return lambda: values.remove(part)
