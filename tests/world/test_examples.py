"""The examples run by themselves, and leave the world as they say."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from takeback.workspace.opening import open_workspace

from .cli import REPOSITORY, environment

EXAMPLES = [
    "research_report_email",
    "replanning",
    "multi_step_migration",
    "sqlite_migration",
    "git_history",
    "deferred_messages",
    "conversation",
]


def follow(name: str, folder: Path, *words: str) -> str:
    """Run an example in a process of its own, as a reader would."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(REPOSITORY / f"examples/{name}.py"), *words],
        cwd=folder,
        env=environment(folder / "unused") | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    assert 5 <= len(follow(name, tmp_path / "here").splitlines()) <= 20
    assert os.listdir(tmp_path / "here") == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_leaves_alone_what_is_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/mine").write_text("mine")
    words = [sys.executable, str(REPOSITORY / f"examples/{name}.py"), str(tmp_path)]
    done = subprocess.run(words, env=environment(tmp_path / "unused"), capture_output=True, text=True)
    assert done.returncode == 1 and "nothing was done" in done.stderr and "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["work"] and os.listdir(tmp_path / "work") == ["mine"]


def is_whole(folder: Path) -> bool:
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        return tb.verify(deep=True) == [] and tb.drift() == []


def test_the_report_is_taken_back_when_the_mail_fails(tmp_path: Path) -> None:
    said = follow("research_report_email", tmp_path, str(tmp_path))
    failed, _, worked = said.partition("The mailbox has room again")
    assert "Insufficient Storage" in failed and "removed report.md" in failed
    assert "['notes.md']; sent: 0" in failed
    assert worked.count("['notes.md', 'report.md']; sent: 1") == 2
    work = tmp_path / "work"
    assert sorted(os.listdir(work)) == ["notes.md", "report.md"]
    assert "bees" in (work / "report.md").read_text() and (work / "notes.md").read_text() == "my own notes\n"
    assert is_whole(tmp_path)


def test_another_plan_begins_where_the_first_one_began(tmp_path: Path) -> None:
    said = follow("replanning", tmp_path, str(tmp_path))
    assert "'sort in place' fails its tests. Took back" in said and "'use max' passes" in said
    assert "step sort in place began" in said, "the plan that failed stays in the journal"
    work = tmp_path / "work"
    assert sorted(os.listdir(work)) == ["check.py", "notes on use max.md", "top.py"]
    assert "max(items)" in (work / "top.py").read_text()
    assert is_whole(tmp_path)


def test_a_migration_is_killed_continued_and_taken_back(tmp_path: Path) -> None:
    said = follow("multi_step_migration", tmp_path, str(tmp_path))
    assert said.count("the machine goes down") == 1
    assert "schema was already done" in said and "its check finds it" in said
    assert "[('Ada', 'Lovelace'), ('Alan', 'Turing')]" in said, "the names were split once"
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        assert list(db.execute("SELECT * FROM customers ORDER BY 1")) == [("Ada Lovelace",), ("Alan Turing",)]
        assert [row[1] for row in db.execute("PRAGMA table_info(customers)")] == ["name"]
    assert (tmp_path / "work/query.py").read_text() == "QUERY = 'SELECT name FROM customers'\n"
    assert os.listdir(tmp_path / "work") == ["query.py"]
    assert is_whole(tmp_path)


def test_a_database_is_taken_back_while_the_shop_is_open(tmp_path: Path) -> None:
    said = follow("sqlite_migration", tmp_path, str(tmp_path))
    assert "[('pear', 400)]" in said, "the agent has wrecked it"
    assert "merged shop.db (2 rows of orders)" in said
    assert said.count("[('apple', 3), ('pear', 4), ('plum', 5)]") == 2
    assert "there are no quinces. Takeback: Took back 1 change" in said
    with closing(sqlite3.connect(tmp_path / "work/shop.db")) as db:
        assert list(db.execute("SELECT item FROM orders")) == [("apple",), ("pear",), ("plum",)]
        assert list(db.execute("PRAGMA integrity_check")) == [("ok",)]
    assert is_whole(tmp_path)


def test_a_history_is_taken_back_and_a_branch_of_the_human_stays(tmp_path: Path) -> None:
    said = follow("git_history", tmp_path, str(tmp_path))
    assert "After the agent: HEAD -> main Add shoes\n" in said
    assert "  idea: Add hats\n  main: Add hats\n  mine: Add scarves\n" in said
    assert "git fsck finds nothing wrong" in said
    assert is_whole(tmp_path)


def test_only_what_was_committed_and_not_taken_back_is_announced(tmp_path: Path) -> None:
    said = follow("deferred_messages", tmp_path, str(tmp_path))
    assert "the build is broken. Takeback: Took back 2 changes: restored NOTES, cancelled command" in said
    assert "notes: 1.3; announced: []" in said and "delivered 1" in said
    assert said.endswith("notes: 1.2; announced: ['1.2']\n")
    assert (tmp_path / "channel").read_text().startswith("1.2 is out (")
    assert is_whole(tmp_path)


def test_a_conversation_is_killed_resumed_and_taken_back_by_a_turn(tmp_path: Path) -> None:
    said = follow("conversation", tmp_path, str(tmp_path))
    assert said.count("the machine goes down") == 1
    assert "booked: ['attic', 'ballroom']" in said, "each once"
    assert "booked: ['attic']; notes: ['Friday']" in said
    assert sorted(os.listdir(tmp_path / "work")) == ["mine.md", "notes.md"]
    assert is_whole(tmp_path)
