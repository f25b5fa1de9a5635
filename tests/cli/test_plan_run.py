"""`takeback plan run`, in processes of its own: done, taken back, killed and continued, and never twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shop import FILE, SEARCH, WRITE, made_at, notes, plan, step
from tests.world.cli import Workspace


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return made_at(tmp_path)


def test_a_plan_is_done_and_can_be_taken_back(shop: Workspace) -> None:
    plan(shop, WRITE, SEARCH)
    before = shop.look()
    said = shop.do("plan", "run", FILE).stdout.splitlines()
    assert shop.read("report.md") == "about cats"
    assert said[:2] == ["  done          find", "  done          write"]
    run = said[2].split()[0]
    assert said[2] == f"{run} done: 2 steps.  Changed your mind?  takeback undo {run}"
    assert shop.do("show", run).code == 0
    shop.undo(run)
    assert shop.changes_since(before) == []


def test_as_json(shop: Workspace) -> None:
    plan(shop, SEARCH, WRITE, step("up", "later", text={"$result": "find", "path": "/text"}))
    said = shop.do("plan", "run", "--json", FILE).json
    assert said["run"].startswith("r")
    assert said["key"].startswith("plan:b3:")
    assert said["results"] == {
        "find": {"text": "about cats", "items": [{"id": 7}]},
        "write": {"path": "report.md"},
        "up": "ABOUT CATS",
    }
    assert said["earlier"] == []


def test_once_done_it_answers_from_the_record(shop: Workspace) -> None:
    plan(shop, SEARCH, WRITE)
    first = shop.do("plan", "run", "--json", FILE).json
    (shop.root / "report.md").unlink()
    again = shop.do("plan", "run", "--json", FILE).json
    assert again == first | {"earlier": ["find", "write"]}
    assert not shop.has("report.md")
    assert notes(shop) == ["search", "write report.md"]
    assert "was already done" in shop.do("plan", "run", FILE).stdout
    assert shop.do("plan", "run", "--json", "--key", "another", FILE).json["run"] != first["run"]
    assert notes(shop) == ["search", "write report.md"] * 2


def test_a_step_that_fails_takes_all_of_it_back(shop: Workspace) -> None:
    plan(shop, SEARCH, WRITE, step("mail", "fail", "write", why="no route; token=abcdefgh123"))
    before = shop.look()
    said = shop.do("plan", "run", FILE, code=4)
    assert shop.changes_since(before) == []
    assert "failed: ConnectionError: no route" in said.stderr and "step mail (" in said.stderr
    assert "Took back" in said.stderr
    assert "abcdefgh123" not in said.said
    error = shop.do("plan", "run", "--json", FILE, code=4)
    assert error.json["error"]["code"] == "backend"
    # Taken back, so it began anew.
    assert notes(shop) == ["search", "write report.md", "fail"] * 2


def test_what_is_transient_is_tried_again(shop: Workspace) -> None:
    plan(shop, step("mail", "fail", why="x") | {"retries": 2})
    shop.do("plan", "run", FILE, code=4)
    assert notes(shop) == ["fail"] * 3


def test_killed_it_is_continued_after_the_last_completed_step(shop: Workspace) -> None:
    plan(
        shop,
        SEARCH,
        WRITE,
        step("risky", "break_once", "write", path="x.md"),
        step("end", "search", "risky", topic="y"),
    )
    assert shop.run("plan", "run", FILE).code == -9
    assert shop.read("x.md") == "half"
    said = shop.do("plan", "run", FILE)
    assert "4 steps, 2 of them by an earlier attempt" in said.stdout
    assert shop.read("x.md") == "whole"
    assert notes(shop) == ["search", "write report.md", "break", "break", "search"]


def test_a_rule_that_is_broken_later_takes_it_back(shop: Workspace) -> None:
    shop.human("takeback.toml", '[rules.paths]\ndeny = ["about*"]\n')
    plan(shop, SEARCH, WRITE, step("bad", "write", "write", path={"$result": "find", "path": "/text"}))
    before = shop.look()
    said = shop.do("plan", "run", FILE, code=3)
    assert "step bad was refused before it ran: path = about cats" in said.stderr
    assert shop.changes_since(before) == []


def test_a_plan_that_breaks_a_rule_does_not_begin(shop: Workspace) -> None:
    plan(shop, SEARCH, step("w", "write", path="../x"))
    said = shop.do("plan", "run", FILE, code=3)
    assert "rule paths.outside" in said.stderr
    assert "[rules.paths]" in said.stderr
    plan(shop, SEARCH, step("mail", "send", to="x"))
    said = shop.do("plan", "run", "--autopilot", "--json", FILE, code=3)
    assert said.json["error"]["code"] == "refused"
    assert notes(shop) == []
    assert shop.do("log", "--json").json["entries"] == []


def test_tools_work_at_the_top_of_the_workspace(shop: Workspace) -> None:
    (shop.root / "sub").mkdir()
    shop.save()
    plan(shop, step("w", "write", path="here.md"))
    shop.do("plan", "run", "-C", "sub", "../../plan.json")
    assert shop.has("here.md")


def test_a_tool_of_the_project_is_compensated_by_the_run_itself_and_by_a_later_process(
    shop: Workspace,
) -> None:
    booking = step("b", "book", room="blue")
    plan(shop, booking, step("mail", "fail", "b", why="x"))
    said = shop.do("plan", "run", FILE, code=6)
    # Without a check nobody can look whether the booking is gone, and that is said.
    assert "failed: ConnectionError: x. Took back" in said.stderr
    undone = "unbook {'room': 'blue'}"
    assert notes(shop) == ["book blue", "fail", undone]
    assert "was handed over" in shop.do("plan", "run", FILE, code=3).stderr
    plan(shop, booking)
    run = shop.do("plan", "run", "--json", FILE).json["run"]
    shop.run("undo", run)
    assert notes(shop)[3:] == ["book blue", undone]
