"""Connections to PostgreSQL servers, and the translation of their errors, for stores and guarded databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from takeback.errors import BackendError, TakebackError
from takeback.system.postgres_address import driver, first_line, parsed

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 5


class Translation(NamedTuple):
    """The translation of some errors of the driver. The text may contain `{name}`, `{text}` and `{world}`."""

    kinds: str
    """The names of the driver's error classes, separated by spaces."""
    ours: type[TakebackError]
    text: str
    hint: str = ""
    retryable: bool | Callable[[Any], bool] = False
    when: Callable[[Any], bool] = lambda _: True


def translate(error: Any, table: Sequence[Translation], name: str, world: str) -> TakebackError:
    """Return our error for an error of the driver, by the first line of the table that fits. The last always fits.

    `name` is the database, `world` says how things are now. The message contains no secret of an address.
    """
    for kinds, ours, text, hint, retryable, when in table:
        found = tuple(getattr(driver().errors, kind) for kind in kinds.split())
        if isinstance(error, found) and when(error):
            message = text.format(name=name, text=first_line(error), world=world)
            if issubclass(ours, BackendError):
                again = retryable(error) if callable(retryable) else retryable
                return ours(message, hint=hint, retryable=again)
            return ours(message, hint=hint)
    raise AssertionError(error)


@contextmanager
def translated(table: Sequence[Translation], name: str, world: str) -> Iterator[None]:
    """Raise errors of the driver as ours."""
    try:
        yield
    except driver().Error as error:
        raise translate(error, table, name, world) from error


def connect(
    dsn: str, *, autocommit: bool = False, limits: dict[str, Any] | None = None, **given: Any
) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect. `limits` apply unless the address sets them; `given` always applies."""
    wanted = {"connect_timeout": CONNECT_S, **(limits or {})}
    known = parsed(dsn)
    more = {name: value for name, value in wanted.items() if name not in known}
    made: psycopg.Connection[tuple[Any, ...]] = driver().connect(dsn, autocommit=autocommit, **more, **given)
    return made
