"""One run over files, git, SQLite, PostgreSQL, memory and another system: it fails anywhere, and nothing is left."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from takeback.engine.runs.run import Run
from tests.git_world import picture as repositories
from tests.resources.postgres.world import Server, Shop, rows_of
from tests.runs import service, tools
from tests.runs.scene import items

SCHEMA = """
    CREATE TABLE public.customers (id int PRIMARY KEY, name text);
    CREATE TABLE public.orders (id int PRIMARY KEY, customer int REFERENCES public.customers, total numeric);
    INSERT INTO customers VALUES (1, 'Ada'), (2, 'Bob');
    INSERT INTO orders VALUES (10, 1, 9.99), (11, 2, 5);
    """


class Stopped(Exception):
    """The agent's plan does not work."""


@dataclass
class Everything:
    """A project with a repository and a database of its own, a server, and a booking service."""

    root: Path
    shop: Shop

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True)

    def residue(self, before: repositories.Picture) -> list[str]:
        """What differs in the folder and the repository. A database counts by its rows: SQLite counts its writes."""
        found = repositories.differences(before, repositories.take(self.root))
        return [text for text in found if not text.startswith("file 'app.db'")]

    def look(self) -> dict[str, Any]:
        """Each part of the world, by somebody who knows nothing of Takeback."""
        database = sqlite3.connect(self.root / "app.db")
        dump = list(database.iterdump())
        database.close()
        return {"rows of app.db": dump, "rows of the server": rows_of(self.shop.dsn), "bookings": items()}

    # What the agent does

    def files(self, _run: Run) -> None:
        (self.root / "src.py").write_text("broken\n")
        (self.root / "keep.md").unlink()
        (self.root / "new").mkdir()
        (self.root / "new/file").write_text("new\n")

    def branches(self, _run: Run) -> None:
        self.git("checkout", "-q", "-b", "agent")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Agent's work")
        self.git("branch", "-D", "idea")

    def sqlite(self, run: Run) -> None:
        with run.database("app.db") as db:
            db.execute("update notes set text = 'gone'")
            db.execute("create table junk (x)")

    def postgres(self, run: Run) -> None:
        with run.database(self.shop.dsn) as db:
            db.execute("UPDATE orders SET total = 0")
            db.execute("DELETE FROM orders WHERE id = 11")
            db.execute("INSERT INTO customers VALUES (3, 'Eve')")

    def memory(self, run: Run) -> None:
        run.memory["goal"] = {"name": "rewrite", "tries": [1, 2]}

    def call(self, run: Run) -> None:
        run.call(tools.book, "room")

    @property
    def plan(self) -> list[Callable[[Run], None]]:
        return [self.files, self.branches, self.sqlite, self.postgres, self.memory, self.call]


@pytest.fixture(scope="module", autouse=True)
def services() -> Iterator[None]:
    with service.running():
        yield


@pytest.fixture
def everything(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Everything]:
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    service.ask("reset")
    root = tmp_path / "work"
    root.mkdir()
    made = Everything(root, Shop(server, root, SCHEMA))
    (root / "src.py").write_text("fine\n")
    (root / "keep.md").write_text("keep\n")
    (root / ".gitignore").write_text("*.db\n")
    database = sqlite3.connect(root / "app.db")
    database.executescript(
        "create table notes (id integer primary key, text); insert into notes values (1, 'a');"
    )
    database.close()
    made.git("init", "-q", "-b", "main")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "First")
    made.git("branch", "idea")
    monkeypatch.chdir(root)
    yield made
    made.shop.workspace.close()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("failing", range(6))
def test_a_run_over_everything_fails_at_each_step(
    everything: Everything, failing: int, *, late: bool
) -> None:
    repository, world = repositories.take(everything.root), everything.look()
    tb = everything.shop.workspace
    with pytest.raises(Stopped), tb.run("everything") as run:
        for number, do in enumerate(everything.plan):
            with run.step(do.__name__):
                do(run)
                if number == failing and not late:
                    raise Stopped
            if number == failing:
                raise Stopped
    assert everything.residue(repository) == []
    assert everything.look() == world
    assert run.report is not None and run.report.verdict == "clean"
    assert not tb.history.memory_of(run.id)


def test_a_run_over_everything_is_taken_back_after_it_was_committed(everything: Everything) -> None:
    repository, world = repositories.take(everything.root), everything.look()
    tb = everything.shop.workspace
    with tb.run("everything") as run:
        for do in everything.plan:
            with run.step(do.__name__):
                do(run)
    assert everything.look() != world
    assert everything.residue(repository)
    everything.shop.human("INSERT INTO customers VALUES (4, 'Human')")
    report = tb.undo(run.id)
    everything.shop.human("DELETE FROM customers WHERE id = 4")
    assert report.verdict == "clean"
    assert everything.residue(repository) == []
    assert everything.look() == world
