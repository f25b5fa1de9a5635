"""Rows that an agent wrote are taken back exactly; rows of others stay exactly."""

from __future__ import annotations

import pytest

from takeback.core.rollback import Verdict
from takeback.errors import ConflictError
from tests.resources.postgres.world import Shop

EXACT = (
    "INSERT INTO customers (id, name, email, mood) VALUES (1, 'Ann, \"the\" \\ (first)', 'ann@example.org', 'cross')",
    """INSERT INTO orders VALUES (7, 1, 1.500, 'NaN', '{"a": 1.10}', '{"b":  1, "b": 2}', '{a,NULL,"c, d",""}',
        '{{1,2},{3,4}}', '\\x00ff27', '2026-03-29 01:30:00.123456+02', '1 mon -2 days', '(3,4.50)', '[1,5)'),
        (8, 1, 'NaN', '-Infinity', 'null', NULL, '{}', NULL, '', 'infinity', NULL, '(,)', 'empty'),
        (9, NULL, -0.0, '-0', '[]', '"x"', NULL, NULL, NULL, '0044-03-15 12:00:00+00 BC', '1.01 s', NULL, NULL)""",
    "INSERT INTO lines VALUES (7, 1, 'x'), (7, 2, NULL), (7, 3, '')",
    "INSERT INTO events VALUES (1, '2010-01-01', 'old'), (2, '2030-01-01', 'new')",
    "INSERT INTO notes VALUES ('h', 'same'), ('h', 'same'), ('h', NULL)",
)


def test_every_kind_of_value_comes_back_exactly(shop: Shop) -> None:
    shop.human(*EXACT)
    before = shop.rows()
    shop.agent(
        "SET datestyle = 'SQL, DMY'",
        "SET timezone = 'Asia/Kolkata'",
        "SET extra_float_digits = -5",
        "SET bytea_output = escape",
        "SET intervalstyle = iso_8601",
        "UPDATE customers SET name = 'x'",
        "UPDATE orders SET total = 0, ratio = 0, data = NULL, raw = NULL, tags = NULL, grid = NULL, blob = NULL",
        "UPDATE orders SET at = NULL, took = NULL, area = NULL, span = NULL",
        "DELETE FROM orders WHERE id = 9",
        "DELETE FROM customers",
        "UPDATE events SET day = '2031-01-01', what = 'moved' WHERE id = 1",
        "DELETE FROM events_new WHERE id = 2",
        "DELETE FROM notes WHERE what = 'same'",
        "INSERT INTO notes VALUES ('a', 'b')",
    )
    after = shop.rows()
    report = shop.workspace.undo()
    assert report.verdict is Verdict.CLEAN and shop.rows() == before
    shop.workspace.redo()
    assert shop.rows() == after
    shop.workspace.undo()
    assert shop.rows() == before


def test_a_change_of_keys_that_cascades_is_taken_back(shop: Shop) -> None:
    shop.human(*EXACT)
    before = shop.rows()
    shop.agent(
        "UPDATE customers SET id = 50", "UPDATE lines SET n = n + 1 WHERE n = 3", "UPDATE lines SET n = -n"
    )
    shop.workspace.undo()
    assert shop.rows() == before


def test_several_actions_are_taken_back_as_one(shop: Shop) -> None:
    shop.human(*EXACT)
    before = shop.rows()
    first = shop.agent("UPDATE customers SET name = 'one'", "INSERT INTO customers VALUES (2, 'two')")
    second = shop.agent("DELETE FROM customers", "INSERT INTO customers VALUES (1, 'again')")
    with pytest.raises(ConflictError, match=f"customers, row 1: changed by {second} since"):
        shop.workspace.undo(first)
    report = shop.workspace.undo(first, second)
    assert shop.rows() == before and len(report.items) == 2
    shop.workspace.redo()
    assert shop.ask("SELECT name FROM customers") == [("again",)]


def test_what_a_human_changed_is_a_conflict_and_the_choice_decides(shop: Shop) -> None:
    shop.human(*EXACT, "INSERT INTO customers VALUES (2, 'Bob'), (3, 'Cid'), (4, 'Dan')")
    shop.agent("UPDATE customers SET name = name || '!'", "INSERT INTO customers VALUES (5, 'Eve')")
    shop.human("UPDATE customers SET name = 'mine' WHERE id = 2", "DELETE FROM customers WHERE id IN (3, 5)")
    there = shop.rows()
    with pytest.raises(ConflictError) as stop:
        shop.workspace.undo()
    assert "customers, row 2: changed by another client since" in str(stop.value)
    assert "customers, row 3: removed by another client since" in str(stop.value)
    assert shop.rows() == there
    report = shop.workspace.undo(on_conflict="keep")
    assert [item.did for item in report.items] == ["merged"]
    names = "SELECT id, name FROM customers WHERE id > 1 ORDER BY id"
    assert shop.ask(names) == [(2, "mine"), (4, "Dan")]
    shop.workspace.redo()
    assert shop.rows() == there
    shop.workspace.undo(on_conflict="overwrite")
    assert shop.ask(names) == [(2, "Bob"), (3, "Cid"), (4, "Dan")]


def test_rows_that_others_refer_to_stay_and_nothing_cascades(shop: Shop) -> None:
    shop.agent(
        "INSERT INTO customers VALUES (1, 'a'), (2, 'b')", "INSERT INTO orders (id, customer) VALUES (1, 1)"
    )
    shop.human("INSERT INTO orders (id, customer) VALUES (9, 2)")
    there = shop.rows()
    for choice in ("stop", "overwrite"):
        with pytest.raises(ConflictError, match="customers, row 2: a row of orders refers to it"):
            shop.workspace.undo(on_conflict=choice)
        assert shop.rows() == there
    shop.workspace.undo(on_conflict="keep")
    assert shop.ask("SELECT id FROM customers") == [(2,)] and shop.ask("SELECT id FROM orders") == [(9,)]


def test_a_row_whose_parent_is_gone_is_a_conflict(shop: Shop) -> None:
    shop.human(
        "INSERT INTO customers VALUES (1, 'a')", "INSERT INTO orders (id, customer) VALUES (1, 1), (2, NULL)"
    )
    shop.agent("DELETE FROM orders")
    shop.human("DELETE FROM customers")
    with pytest.raises(
        ConflictError, match="orders, row 1: it refers to a row of customers that does not exist"
    ):
        shop.workspace.undo()
    shop.workspace.undo(on_conflict="keep")
    assert shop.ask("SELECT id FROM orders") == [(2,)]


def test_a_unique_value_that_another_row_has_now_is_a_conflict(shop: Shop) -> None:
    shop.human("INSERT INTO customers VALUES (1, 'a', 'a@example.org'), (2, 'b', 'b@example.org')")
    shop.agent("DELETE FROM customers")
    shop.human("INSERT INTO customers VALUES (3, 'c', 'a@example.org')")
    with pytest.raises(ConflictError, match="customers, row 1: another row has the same unique value"):
        shop.workspace.undo()
    shop.workspace.undo(on_conflict="keep")
    assert shop.ask("SELECT id FROM customers ORDER BY 1") == [(2,), (3,)]


def test_unique_values_that_changed_places_are_taken_back(shop: Shop) -> None:
    shop.human("INSERT INTO customers VALUES (1, 'a', 'a'), (2, 'b', 'b'), (3, 'c', 'c')")
    before = shop.rows()
    shop.agent(
        "UPDATE customers SET email = NULL",
        "UPDATE customers SET email = chr(97 + (id % 3))",
        "UPDATE customers SET id = id + 10",
        "UPDATE customers SET id = 14 - id",
    )
    shop.workspace.undo()
    assert shop.rows() == before


def test_triggers_of_the_tables_do_not_run_in_an_undo(shop: Shop) -> None:
    shop.human(
        "CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name := NEW.name || '!'; "
        "INSERT INTO notes VALUES ('trigger', NEW.name); RETURN NEW; END $$",
        "CREATE TRIGGER loud BEFORE INSERT OR UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION loud()",
        "INSERT INTO customers VALUES (1, 'a')",
    )
    before = shop.rows()
    shop.agent("UPDATE customers SET name = 'b'", "DELETE FROM customers")
    assert shop.ask("SELECT count(*) FROM notes") == [(2,)]
    shop.workspace.undo()
    assert shop.rows() == before


def test_triggers_that_write_to_the_same_row_again_are_taken_back(shop: Shop) -> None:
    shop.human(
        "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF length(NEW.name) < 9 THEN "
        "UPDATE customers SET name = name || '+' WHERE id = NEW.id; END IF; RETURN NULL; END $$",
        "CREATE TRIGGER again AFTER INSERT OR UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION again()",
        "INSERT INTO customers VALUES (1, 'a'), (2, 'b')",
    )
    before = shop.rows()
    shop.agent(
        "UPDATE customers SET name = 'x'",
        "INSERT INTO customers VALUES (3, 'c')",
        "WITH g AS (DELETE FROM customers WHERE id = 2 RETURNING *) INSERT INTO customers SELECT 4, name FROM g",
    )
    after = shop.rows()
    shop.workspace.undo()
    assert shop.rows() == before
    shop.workspace.redo()
    assert shop.rows() == after


def test_what_was_not_committed_is_not_the_actions(shop: Shop) -> None:
    with shop.action() as db:
        db.execute("INSERT INTO notes VALUES ('a', 'b')")
        db.rollback()
    assert shop.workspace.history.actions[shop.last].changes == ()


def test_many_ways_to_write_are_captured(shop: Shop) -> None:
    shop.human("INSERT INTO customers VALUES (1, 'a'), (2, 'b')")
    before = shop.rows()
    with shop.action() as db:
        with db.cursor().copy("COPY customers (id, name) FROM STDIN") as copy:
            copy.write_row((3, "c"))
        db.execute(
            "INSERT INTO customers VALUES (1, 'x'), (4, 'd') ON CONFLICT (id) DO UPDATE SET name = 'up'"
        )
        db.execute(
            "MERGE INTO customers c USING (VALUES (2), (5)) v(id) ON c.id = v.id WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (v.id, 'merged')"
        )
        db.execute(
            "WITH gone AS (DELETE FROM customers WHERE id = 3 RETURNING *) INSERT INTO notes SELECT name FROM gone"
        )
        db.execute("DO $$ BEGIN FOR i IN 6..9 LOOP INSERT INTO customers VALUES (i, 'do'); END LOOP; END $$")
    shop.workspace.undo()
    assert shop.rows() == before


@pytest.mark.timeout(600)
def test_a_hundred_thousand_rows_are_taken_back(shop: Shop) -> None:
    shop.human("INSERT INTO customers (id, name) SELECT n, 'name ' || n FROM generate_series(1, 100000) n")
    before = shop.rows()
    shop.agent("UPDATE customers SET name = upper(name), mood = 'calm'")
    report = shop.workspace.undo()
    assert f"{shop.name}: 100,000 rows of customers put back" in str(report)
    assert shop.rows() == before


def test_a_truncated_table_comes_back(shop: Shop) -> None:
    shop.human(*EXACT)
    before = shop.rows()
    shop.agent(
        "UPDATE events SET what = 'x'",
        "TRUNCATE events, customers CASCADE",
        "INSERT INTO customers VALUES (1, 'n')",
    )
    shop.workspace.undo()
    assert shop.rows() == before


def test_a_row_that_came_to_be_what_it_was_is_no_conflict(shop: Shop) -> None:
    shop.human("INSERT INTO customers VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    before = shop.rows()
    shop.agent(
        "INSERT INTO customers VALUES (1, 'a'), (2, 'x'), (4, 'd') "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        "UPDATE customers SET name = 'other' WHERE id = 3",
        "UPDATE customers SET name = 'c' WHERE id = 3",
        "INSERT INTO customers VALUES (9, 'passing')",
        "DELETE FROM customers WHERE id = 9",
    )
    after = shop.rows()
    shop.human("INSERT INTO customers VALUES (9, 'mine')")
    report = shop.workspace.undo(on_conflict="overwrite")
    assert report.verdict is Verdict.CLEAN and shop.ask("SELECT name FROM customers WHERE id = 9") == [
        ("mine",)
    ]
    shop.human("DELETE FROM customers WHERE id = 9")
    assert shop.rows() == before
    shop.workspace.redo()
    assert shop.rows() == after
    assert shop.workspace.undo().verdict is Verdict.CLEAN and shop.rows() == before


@pytest.mark.parametrize(
    "column, mine, theirs",
    [
        ("code text UNIQUE DEFERRABLE", "'a'", "'a'"),
        ("code text UNIQUE NULLS NOT DISTINCT DEFERRABLE INITIALLY DEFERRED", "NULL", "NULL"),
        ("code int4range, EXCLUDE USING gist (code WITH &&) DEFERRABLE", "'[1,5)'", "'[2,3)'"),
    ],
)
def test_a_constraint_that_can_be_deferred_is_kept(shop: Shop, column: str, mine: str, theirs: str) -> None:
    for key in ("PRIMARY KEY", ""):
        shop.human("DROP TABLE IF EXISTS d", f"CREATE TABLE d (id int {key}, {column})")
        shop.human(f"INSERT INTO d VALUES (1, {mine})")
        before = shop.rows()
        shop.agent("DELETE FROM d")
        assert shop.workspace.undo().verdict is Verdict.CLEAN and shop.rows() == before
        shop.agent("DELETE FROM d", "INSERT INTO notes VALUES ('a', 'b')")
        shop.human(f"INSERT INTO d VALUES (2, {theirs})")
        with pytest.raises(ConflictError, match="another row has the same unique value"):
            shop.workspace.undo()
        shop.workspace.undo(on_conflict="keep")
        assert shop.ask("SELECT id FROM d") == [(2,)] and shop.rows()["public.notes"] == []


def test_names_with_percent_signs_are_no_trouble(shop: Shop) -> None:
    shop.human('CREATE TABLE "t%s" ("k%" int PRIMARY KEY, "%(x)s" int)', 'INSERT INTO "t%s" VALUES (1, 1)')
    before = shop.rows()
    shop.agent('UPDATE "t%s" SET "%(x)s" = 2')
    assert shop.workspace.undo().verdict is Verdict.CLEAN and shop.rows() == before


def test_triggers_that_always_run_do_not_run_in_an_undo(shop: Shop) -> None:
    shop.human(
        "CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO public.notes VALUES (TG_NAME, TG_OP); RETURN NEW; END $$",
        "CREATE TRIGGER loud AFTER INSERT OR UPDATE OR DELETE ON customers FOR EACH ROW EXECUTE FUNCTION loud()",
        "CREATE TRIGGER copied AFTER INSERT ON events_old FOR EACH ROW EXECUTE FUNCTION loud()",
        "ALTER TABLE customers ENABLE ALWAYS TRIGGER loud",
        "ALTER TABLE events_old ENABLE REPLICA TRIGGER copied",
        "INSERT INTO customers VALUES (1, 'a')",
        "INSERT INTO events VALUES (1, '2010-01-01', 'old')",
    )
    before, schema = shop.rows(), shop.server.schema_of(shop.dsn)
    shop.agent("UPDATE customers SET name = 'b'", "DELETE FROM events")
    assert shop.workspace.undo().verdict is Verdict.CLEAN
    assert shop.rows() == before and shop.server.schema_of(shop.dsn) == schema
    shop.workspace.redo()
    assert len(shop.rows()["public.notes"]) == 2


def test_checks_may_name_things_as_their_owners_do(shop: Shop) -> None:
    shop.human(
        "CREATE FUNCTION inner_one(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT x + 1'",
        "CREATE FUNCTION outer_one(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
        "'BEGIN RETURN inner_one(x); END'",
        "CREATE DOMAIN positive AS int CHECK (outer_one(VALUE) > 1)",
        "CREATE TABLE d (id int PRIMARY KEY, x int CHECK (outer_one(x) > 0), p positive, "
        "g int GENERATED ALWAYS AS (outer_one(x)) STORED)",
        "INSERT INTO d VALUES (1, 1, 1), (2, 2, 2)",
    )
    before = shop.rows()
    shop.agent("UPDATE d SET x = 5 WHERE id = 1", "DELETE FROM d WHERE id = 2")
    assert shop.workspace.undo().verdict is Verdict.CLEAN and shop.rows() == before
