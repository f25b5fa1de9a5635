"""Databases inside runs, in commands, after crashes, and when the server is not there."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import psycopg
import pytest

import takeback
from takeback.core.lifecycle import Life
from takeback.errors import BackendError, ConflictError, RefusedError, RollbackIncomplete, UsageError
from takeback.resources.postgres import guard
from takeback.system import postgres_address
from takeback.testing import crash
from tests.resources.postgres.test_rows import EXACT
from tests.resources.postgres.world import Server, Shop


def test_a_step_is_one_transaction_and_is_taken_back_with_its_run(shop: Shop) -> None:
    before = shop.rows()
    with pytest.raises(RuntimeError, match="no"), shop.workspace.run("shop") as run:
        with run.step("fill"):
            with run.database(shop.dsn) as db:
                db.execute("INSERT INTO notes VALUES ('a', 'b')")
            assert shop.rows() == before  # not yet: the step goes on
        assert shop.rows()["public.notes"] == ["a\tb"]
        raise RuntimeError("no")
    assert shop.rows() == before


def test_an_exception_in_the_block_aborts_it(shop: Shop) -> None:
    before = shop.rows()
    with shop.workspace.run("shop") as run:
        with pytest.raises(psycopg.Error), run.database(shop.dsn) as db:
            db.execute("INSERT INTO notes VALUES ('a', 'b')")
            db.execute("INSERT INTO nowhere VALUES (1)")
    assert shop.rows() == before


def test_a_failed_statement_that_was_passed_over_is_not_called_done(shop: Shop) -> None:
    with shop.workspace.run("shop") as run:
        with (
            pytest.raises(BackendError, match="nothing of the transaction was kept"),
            run.database(shop.dsn) as db,
        ):
            try:
                db.execute("INSERT INTO nowhere VALUES (1)")
            except psycopg.Error:
                pass
    assert all(not action.changes for action in shop.workspace.history.actions.values())


def test_another_workspace_finds_the_guard(server: Server, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path / "work", guarded=False)
    shop.guard()
    folder = tmp_path / "other"
    folder.mkdir()
    with takeback.open(folder) as other:
        with other.run("elsewhere") as run, run.database(shop.dsn) as db:
            db.execute("INSERT INTO notes VALUES ('a', 'b')")
        other.undo()
    assert shop.rows()["public.notes"] == []
    shop.workspace.close()


def test_actions_of_two_workspaces_are_not_mistaken_for_each_other(shop: Shop, tmp_path: Path) -> None:
    shop.agent("INSERT INTO notes VALUES ('one', '')")
    folder = tmp_path / "other"
    folder.mkdir()
    with takeback.open(folder) as other:
        other.postgres.add(shop.workspace.postgres.all()[0].guard, shop.dsn)
        with other.run("r") as run, run.database(shop.dsn) as db:
            db.execute("INSERT INTO notes VALUES ('two', '')")
    shop.workspace.undo()
    assert shop.ask("SELECT who FROM notes") == [("two",)]


def test_a_commit_that_was_cut_short_is_known_afterwards(shop: Shop, tmp_path: Path) -> None:
    """Killed right after the server had committed: the server says what lasted, and it can be taken back."""
    before = shop.rows()
    place = "tests.resources.postgres.test_runs:write_in_a_run"
    for point, happened in (("action-began", False), ("database-committed", True)):
        done = crash.run(
            point, 2 if point == "action-began" else 1, [place, str(shop.workspace.root), shop.dsn]
        )
        assert done.returncode == crash.KILLED, done.stderr
        assert (shop.rows() != before) is happened
        shop.workspace.recover()
        action = next(
            a for a in reversed(shop.workspace.history.actions.values()) if a.name.startswith("database")
        )
        assert action.life is Life.SETTLED and bool(action.changes) is happened
    shop.workspace.undo(list(shop.workspace.history.runs)[-1])
    assert shop.rows() == before


def write_in_a_run(folder: str, dsn: str) -> None:
    with takeback.open(folder) as workspace, workspace.run("killed") as run, run.database(dsn) as db:
        db.execute("INSERT INTO notes VALUES ('a', 'b')")


@pytest.mark.parametrize(
    "point", ["rollback-recorded", "postgres-written", "postgres-committed", "rollback-swapped"]
)
def test_an_undo_that_was_cut_short_is_finished(shop: Shop, point: str) -> None:
    shop.human(*EXACT)
    before = shop.rows()
    shop.agent("DELETE FROM customers", "DROP TABLE notes", "CREATE TABLE made AS SELECT 1 AS x")
    done = crash.run(point, 1, ["takeback", "undo"], cwd=shop.workspace.root)
    assert done.returncode == crash.KILLED, done.stderr
    assert (shop.rows() == before) is (point in ("postgres-committed", "rollback-swapped"))
    report = shop.workspace.undo()
    assert report.finished_earlier and report.verdict.value == "clean" and shop.rows() == before
    shop.workspace.redo()
    assert shop.rows().keys() == before.keys() - {"public.notes"} | {"public.made"}


AGENT = """
import psycopg, sys
with psycopg.connect(sys.argv[1]) as db:
    print(db.execute("SHOW takeback.action").fetchone(), db.execute("SHOW statement_timeout").fetchone())
    db.execute("INSERT INTO notes VALUES ('child', '')")
"""


def test_whatever_a_command_starts_is_known_as_its_own(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Through the variable that every client of PostgreSQL reads; what was in it stays."""
    from takeback.engine.tracking.command import run_child

    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=77s")
    (tmp_path / "agent.py").write_text(AGENT)
    with shop.workspace.recording("command") as id:
        token, more = shop.workspace.parts.tracker.token(id), shop.workspace.parts.environment_of(id)
        child = run_child(
            [sys.executable, str(tmp_path / "agent.py"), shop.dsn],
            token=token,
            show_life=lambda: None,
            more=more,
        )
        assert child.code == 0
    assert shop.rows()["public.notes"] == ["child\t"]
    shop.workspace.undo(id)
    assert shop.rows()["public.notes"] == []


def test_a_folder_with_spaces_and_quotes_is_no_trouble(server: Server, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path / "my \\ 'odd' folder")
    shop.agent("INSERT INTO notes VALUES ('a', 'b')")
    shop.workspace.undo()
    assert shop.rows()["public.notes"] == []
    shop.workspace.close()


def test_an_undo_does_not_wait_for_ever(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from takeback.resources.postgres import undo

    monkeypatch.setattr(undo, "LOCK_MS", 200)
    shop.agent("INSERT INTO notes VALUES ('a', 'b')")
    with psycopg.connect(shop.dsn) as human:
        human.execute("INSERT INTO notes VALUES ('human', '')")
        with pytest.raises(ConflictError, match="an open transaction holds locks on rows or tables"):
            shop.workspace.undo()
        human.commit()
    shop.workspace.undo()
    assert shop.rows()["public.notes"] == ["human\t"]


def test_what_was_done_while_the_server_went_away_is_not_lost(server: Server, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path / "work")
    known = shop.workspace.postgres
    place = known.all()[0]
    with shop.action() as db:
        db.execute("INSERT INTO notes VALUES ('a', 'b')")
        db.commit()
        known.add(place.guard, "postgresql://postgres@/none?host=/nowhere&connect_timeout=1")
    (change,) = shop.workspace.history.actions[shop.last].changes
    assert "what changed is still unknown" in shop.workspace.tell(change)
    with pytest.raises(BackendError, match="cannot be reached"):
        shop.workspace.undo()
    known.add(place.guard, place.dsn)
    shop.workspace.undo()
    assert shop.rows()["public.notes"] == []
    shop.workspace.close()


def test_where_the_guard_is_gone_nothing_is_claimed(shop: Shop) -> None:
    shop.agent("INSERT INTO notes VALUES ('a', 'b')")
    guard.remove(shop.dsn)
    shop.guard()
    with pytest.raises(RollbackIncomplete) as stop:
        shop.workspace.undo()
    assert "the guard was removed from the database" in stop.value.report.items[0].why
    shop.agent("INSERT INTO notes VALUES ('c', 'd')")
    shop.workspace.undo()
    assert shop.rows()["public.notes"] == ["a\tb"]


def test_a_guard_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path / "work", guarded=False)
    before = server.schema_of(shop.dsn)
    first, second = shop.guard(), shop.guard()
    assert first.id == second.id and first.tables == second.tables and len(first.tables) == 7
    assert server.schema_of(shop.dsn) != before
    assert guard.remove(shop.dsn) and not guard.remove(shop.dsn)
    assert server.schema_of(shop.dsn) == before and guard.status(shop.dsn) is None
    assert shop.ask("SELECT to_regnamespace('takeback')") == [(None,)]
    shop.workspace.close()


def test_what_cannot_be_guarded_is_named(server: Server, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path / "work", guarded=False)
    shop.human("CREATE TABLE above (id int)", "CREATE TABLE below (more int) INHERITS (above)")
    made = shop.guard()
    assert [table for table, _ in made.left_out] == ["public.above", "public.below"]
    shop.workspace.close()


def test_a_role_without_rights_is_told_so(server: Server, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path / "work", guarded=False)
    name = f"limited_{shop.name}"
    shop.human(f"CREATE ROLE {name} LOGIN", f"GRANT ALL ON DATABASE {shop.name} TO {name}")
    limited = server.dsn(shop.name, name)
    with pytest.raises(RefusedError, match="the role is not allowed to do that"):
        guard.install(limited, ["public"])
    assert guard.status(shop.dsn) is None
    shop.human(
        f"GRANT SET ON PARAMETER session_replication_role TO {name}", f"ALTER TABLE notes OWNER TO {name}"
    )
    tables = ("customers", "orders", "lines", "events", "events_old", "events_new")
    shop.human(
        *(f"ALTER TABLE {table} OWNER TO {name}" for table in tables),
        f"GRANT CREATE ON SCHEMA public TO {name}",
    )
    made = guard.install(limited, ["public"])
    assert not made.sees_ddl and len(made.tables) == 7
    shop.workspace.postgres.add(made.id, limited)
    shop.human("ALTER TABLE notes ADD COLUMN more text")
    shop.agent("INSERT INTO notes VALUES ('a', 'b', 'c')", "INSERT INTO customers VALUES (1, 'x')")
    shop.workspace.undo()
    assert shop.rows()["public.notes"] == [] and shop.rows()["public.customers"] == []
    shop.workspace.close()


def test_a_table_whose_rows_are_hidden_from_the_guard_is_not_called_guarded(
    server: Server, tmp_path: Path
) -> None:
    shop = Shop(server, tmp_path / "work", "CREATE TABLE t (id int PRIMARY KEY, tenant text)", guarded=False)
    name = f"tenant_{shop.name}"
    shop.human(
        f"CREATE ROLE {name} LOGIN",
        f"GRANT ALL ON DATABASE {shop.name} TO {name}",
        f"GRANT ALL ON SCHEMA public TO {name}",
        f"GRANT SET ON PARAMETER session_replication_role TO {name}",
        f"ALTER TABLE t OWNER TO {name}",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "CREATE POLICY p ON t USING (tenant = current_setting('app.tenant', true))",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    )
    limited, before = server.dsn(shop.name, name), shop.rows()
    made = guard.install(limited, ["public"])
    assert made.tables == ("public.t",)  # its owner sees all of it
    shop.workspace.postgres.add(made.id, limited)
    shop.human("ALTER TABLE t FORCE ROW LEVEL SECURITY")
    with pytest.raises(psycopg.Error, match="would be affected by row-level security"):
        shop.agent("TRUNCATE t")
    assert shop.rows() == before
    guard.remove(limited)
    made = guard.install(limited, ["public"])
    assert made.tables == () and "BYPASSRLS" in dict(made.left_out)["public.t"]
    shop.human(f"ALTER ROLE {name} BYPASSRLS")
    shop.workspace.postgres.add(guard.install(limited, []).id, limited)
    shop.agent("TRUNCATE t")
    shop.workspace.undo()
    assert shop.rows() == before
    shop.workspace.close()


def test_the_address_is_kept_privately_and_told_nowhere(shop: Shop) -> None:
    secret = shop.dsn.replace("postgres:@", "postgres:hunter2@")
    made = guard.install(secret, [])
    shop.workspace.postgres.add(made.id, secret)
    kept = shop.workspace.state / "postgres.json"
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600 and b"hunter2" in kept.read_bytes()
    with shop.workspace.run("r") as run, run.database(secret) as db:
        db.execute("INSERT INTO notes VALUES ('a', 'b')")
    told = repr(shop.workspace.postgres.all()) + str(shop.workspace.undo())
    told += "".join(str(record) for record in shop.workspace.journal.read())
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "given",
    ["u:hun@ter2@host/db", "u:hun/ter2@host/db", "u:hun%ter2@host/db", "u:hunter2@host:hunter2/db?hunter2"],
)
def test_no_part_of_a_password_is_told_of_an_address_that_cannot_be_read(given: str) -> None:
    address = f"postgresql://{given}"
    for act in (guard.install, lambda dsn, _: guard.status(dsn), lambda dsn, _: postgres_address.called(dsn)):
        with pytest.raises(UsageError, match="that is not an address of a database") as stop:
            act(address, [])
        told = str(stop.value) + postgres_address.hidden(address.partition("@host")[0] + "@host/db")
        assert "hun" not in told and "ter2" not in told
        assert stop.value.__suppress_context__


def test_a_newer_guard_is_not_touched(shop: Shop) -> None:
    from takeback.errors import FormatTooNew

    shop.human("UPDATE takeback.guard SET version = 99")
    with pytest.raises(FormatTooNew, match="newer Takeback"):
        guard.install(shop.dsn, [])
    assert postgres_address.is_address(shop.dsn)


def test_what_was_pruned_is_said_and_not_claimed(shop: Shop) -> None:
    shop.agent("INSERT INTO notes VALUES ('a', 'b')")
    shop.human("UPDATE takeback.statement SET at = now() - interval '40 days'")
    shop.agent("INSERT INTO notes VALUES ('c', 'd')")
    assert guard.prune(shop.dsn, 30) == 1
    shop.workspace.undo()
    assert shop.rows()["public.notes"] == ["a\tb"]
    with pytest.raises(ConflictError, match="its captured rows were pruned"):
        shop.workspace.undo()


@pytest.mark.parametrize("point", ["postgres-written", "postgres-committed"])
def test_a_connection_that_breaks_is_looked_into(shop: Shop, point: str) -> None:
    """Right before the commit nothing is done; right after it all is, and the server is asked which."""
    shop.agent("INSERT INTO notes VALUES ('a', 'b')")

    def cut() -> None:
        with psycopg.connect(shop.server.dsn("postgres"), autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [shop.name]
            )
        if point == "postgres-committed":
            raise psycopg.OperationalError("the connection is lost")

    with crash.at(point, cut):
        if point == "postgres-committed":
            assert [item.did for item in shop.workspace.undo().items] == ["restored"]
        else:
            with pytest.raises(RollbackIncomplete) as stop:
                shop.workspace.undo()
            assert [item.did for item in stop.value.report.items] == ["failed"]
            assert shop.rows()["public.notes"] == ["a\tb"]
    assert shop.workspace.undo().verdict.value == ("nothing" if point == "postgres-committed" else "clean")
    assert shop.rows()["public.notes"] == []
