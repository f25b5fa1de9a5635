"""A server that cannot be reached: what happened there is not known, and stands in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from takeback.errors import BackendError, RollbackIncomplete
from tests.resources.postgres.world import Shop


@contextmanager
def unreachable(shop: Shop) -> Iterator[None]:
    """Nobody can connect to the database."""
    with psycopg.connect(shop.server.dsn("postgres"), autocommit=True) as db:
        db.execute(f"ALTER DATABASE {shop.name} ALLOW_CONNECTIONS false".encode())
        try:
            yield
        finally:
            db.execute(f"ALTER DATABASE {shop.name} ALLOW_CONNECTIONS true".encode())


def write(shop: Shop, name: str, text: str) -> str:
    with shop.workspace.recording(f"write {name}") as id:
        (shop.workspace.root / name).write_text(text)
    return id


def test_what_may_have_been_done_is_passed_over_and_named(shop: Shop) -> None:
    first = write(shop, "a", "1")
    with unreachable(shop):
        with shop.workspace.recording("nothing") as id:
            pass
        report = shop.workspace.undo()
        assert (report.of, report.passed, report.verdict) == ((first,), (id,), "clean")
        assert report.data()["passed_over"] == [id]
        assert not (shop.workspace.root / "a").exists()
        for words in ([id], []):
            with pytest.raises(BackendError, match="currently accepting"):
                shop.workspace.undo(*words)
    again = shop.workspace.undo()
    assert (again.verdict, again.passed) == ("nothing", ()), "now it is known that it did nothing"


def test_what_is_known_comes_back_and_the_rest_is_said_to_be_unknown(shop: Shop) -> None:
    with unreachable(shop):
        id = write(shop, "a", "1")
        with pytest.raises(RollbackIncomplete) as incomplete:
            shop.workspace.undo()
        did = {item.resource: item.did for item in incomplete.value.report.items if not item.minor}
        assert did == {"files": "removed", "postgres": "unverifiable"}
        assert not (shop.workspace.root / "a").exists()
    report = shop.workspace.undo(id)
    assert report.verdict in ("clean", "nothing") and not report.passed


def test_what_was_done_before_the_server_went_is_found_when_it_is_back(shop: Shop) -> None:
    shop.human("INSERT INTO notes VALUES ('me', 'mine')")
    with shop.workspace.recording("agent") as id:
        token = shop.workspace.parts.tracker.token(id)
        from takeback.resources.postgres import connection

        with psycopg.connect(shop.dsn, options=connection.options(token)) as db:
            db.execute("UPDATE notes SET what = 'spoilt'")
        with psycopg.connect(shop.server.dsn("postgres"), autocommit=True) as db:
            db.execute(f"ALTER DATABASE {shop.name} ALLOW_CONNECTIONS false".encode())
    with psycopg.connect(shop.server.dsn("postgres"), autocommit=True) as db:
        db.execute(f"ALTER DATABASE {shop.name} ALLOW_CONNECTIONS true".encode())
    (change,) = shop.workspace.history.actions[id].changes
    assert change.after.is_unknown
    report = shop.workspace.undo()
    assert (report.of, report.verdict) == ((id,), "clean")
    assert shop.ask("SELECT what FROM notes") == [("mine",)]
