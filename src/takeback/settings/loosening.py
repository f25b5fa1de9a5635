"""The settings of takeback.toml that take effect only after a human accepts them, and what holds until then.

The file comes with a folder: a clone, an unpacked archive, another person's branch. A setting that tightens takes
effect at once. One that loosens, excludes, connects or sends has to be accepted by a human, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from takeback.core.codec import printable, value_digest
from takeback.settings.toml import Config, StoreConfig
from takeback.system.postgres_address import hidden

Plain = dict[str, Any]


class Setting(msgspec.Struct, frozen=True):
    """One setting that has to be accepted, with exactly this value."""

    name: str
    """The table and the setting, as in the file."""
    value: Any
    does: str
    """What the setting would do, as a verb."""

    @property
    def digest(self) -> str:
        return value_digest([self.name, self.value])

    @property
    def shown(self) -> str:
        """The value, without anything that looks like a secret."""
        return printable(hidden(msgspec.json.encode(self.value).decode()))

    def __str__(self) -> str:
        table, _, name = self.name.rpartition(".")
        return f"[{table}] {name} = {self.shown}" if table else f"[{name}] {self.shown}"


Test = Callable[[Any, Any], bool]
"""Compares a value with the default; returns True if the value has to be accepted."""


def _is_less(value: Any, usual: Any) -> bool:
    """Return True for a lower limit than usual. Zero means no limit."""
    return bool(0 < value < usual)


def _is_shorter(value: Any, _usual: Any) -> bool:
    """Return True for a time that is shorter than content is usually kept."""
    days = str(value).removesuffix("d")
    return days.isdecimal() and int(days) < StoreConfig().keep_days


def _is_allowed(value: Any, usual: Any) -> bool:
    return bool(value == "allow" != usual)


def _is_full(value: Any, _usual: Any) -> bool:
    return bool(value == "full")


def _is_off(value: Any, _usual: Any) -> bool:
    return bool(value == "off")


def _is_another(value: Any, usual: Any) -> bool:
    return bool(value != usual)


_GROUPS = {
    "store": (("store", "workspace", "blobs", "blobs-key"), "connects"),
    "outbox": (("smtp", "sender"), "sends"),
}
"""Settings that only make sense together, and are accepted together."""

_TESTS: dict[str, tuple[Test, str]] = {
    "files.exclude": (_is_another, "excludes"),
    "store.quota-bytes": (_is_less, "keeps less"),
    "store.keep-days": (_is_less, "keeps less"),
    "store.keep-checkpoints": (_is_less, "keeps less"),
    "store.keep-journal": (_is_shorter, "keeps less"),
    "audit.webhooks": (_is_another, "tells"),
    "notify.to": (_is_another, "tells"),
    "checks.after-rollback": (_is_another, "runs"),
    "rules.effects": (_is_allowed, "allows"),
    "rules.commands.allow": (_is_another, "allows"),
    "sandbox.commands": (_is_off, "loosens"),
    "sandbox.hosts": (_is_another, "connects"),
    "sandbox.network": (_is_full, "connects"),
    "sandbox.write": (_is_another, "allows writing"),
}
"""Settings with a test or a verb of their own; by default any value but the default has to be accepted."""

_FREE = (
    # They only tighten, name something, or set a time.
    "agents.autopilot",
    "checks.timeout-s",
    "files.framework-stores",
    "outbox.first-pause-s",
    "outbox.longest-pause-s",
    "outside.max-files",
    "outside.max-bytes",
    "rules.commands.arguments",
    "rules.commands.ask",
    "rules.commands.deny",
    "rules.limits",
    "rules.plans",
    "rules.paths.allow",
    "rules.paths.arguments",
    "rules.paths.deny",
    "rules.tools.allow",
    "rules.tools.ask",
    "rules.tools.deny",
    "sandbox.outside",
    "tools",
)
"""Settings that take effect at once. Any setting that is not listed here has to be accepted."""


def to_accept(given: Config) -> tuple[Setting, ...]:
    """Return the settings that take effect only once accepted. Each part of a list counts by itself."""
    return tuple(setting for setting, _ in _found(_plain(given)))


def holding(given: Config, accepted: Collection[str]) -> Config:
    """Return these settings, with the default in place of each that has to be accepted and is not."""
    plain = _plain(given)
    for setting, drop in list(_found(plain)):
        if setting.digest not in accepted:
            drop()
    return msgspec.convert(plain, Config)


def _plain(given: Config) -> Plain:
    plain: Plain = msgspec.json.decode(msgspec.json.encode(given))
    return plain


def _found(plain: Plain) -> Iterator[tuple[Setting, Callable[[], None]]]:
    """Yield each setting that has to be accepted, with a function that resets it."""
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
