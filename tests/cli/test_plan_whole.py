"""A plan is approved as a whole; one that failed is changed and continued; dependent steps go together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shop import FILE, SEARCH, WRITE, made_at, notes, plan, step
from tests.world.cli import Workspace

ONLY_APPROVED = '[rules]\nplans = "approved"\n'
SEND = step("mail", "send", to="team")
BOOK = step("book", "reserve", room="A")
FAIL = step("last", "fail", "write", why="no route")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return made_at(tmp_path)


def latest_run(shop: Workspace) -> str:
    """Return the id of the run that began last."""
    events = [json.loads(line) for line in shop.do("export").stdout.splitlines()]
    return str([one for one in events if one["type"].endswith("run-began")][-1]["id"])


def steps_of(shop: Workspace, run: str) -> dict[str, str]:
    """Return the id of each step by its name."""
    shown = shop.do("show", run, "--json").json
    return {one["name"]: one["id"] for one in shown["steps"]}


def test_only_an_approved_plan_runs_and_only_as_it_was_approved(shop: Workspace) -> None:
    shop.human("takeback.toml", ONLY_APPROVED)
    plan(shop, SEARCH, WRITE)
    said = shop.do("plan", "run", FILE, code=3)
    assert "a human has not approved 'report' as it is now; nothing was done" in said.stderr
    assert "takeback plan approve" in said.stderr
    assert shop.do("plan", "approve", FILE, code=2).stderr.count("--yes") == 1
    approved = shop.do("plan", "approve", "--yes", "--json", FILE).json
    assert approved["approved"] and approved["digest"].startswith("b3:")
    shop.do("plan", "run", "--key", "other", FILE, code=3)  # the key is part of what was approved
    shop.do("plan", "run", FILE)
    plan(shop, SEARCH, step("write", "write", path="report.md", text="mine"))
    assert "has not approved" in shop.do("plan", "run", FILE, code=3).stderr
    assert notes(shop) == ["search", "write report.md"]


def test_a_tool_that_was_edited_since_needs_another_approval(shop: Workspace) -> None:
    shop.human("takeback.toml", ONLY_APPROVED)
    plan(shop, SEARCH)
    shop.do("plan", "approve", "--yes", FILE)
    shop.human("shop_tools.py", shop.read("shop_tools.py").replace("about {topic}", "all of {topic}"))
    assert "has not approved" in shop.do("plan", "run", FILE, code=3).stderr
    assert notes(shop) == []


def test_an_agent_cannot_approve_its_plan(shop: Workspace) -> None:
    shop.human("takeback.toml", ONLY_APPROVED)
    plan(shop, SEARCH)
    said = shop.run("run", "--", "python3", "-m", "takeback", "plan", "approve", "--yes", FILE)
    assert said.code == 3 and "an agent cannot approve a plan" in said.stderr
    assert "has not approved" in shop.do("plan", "run", FILE, code=3).stderr


def test_an_approved_plan_does_not_ask_about_what_it_says_itself(shop: Workspace) -> None:
    plan(shop, SEARCH, SEND)
    shop.do("plan", "approve", "--yes", FILE)
    shop.do("plan", "run", FILE)
    assert notes(shop) == ["search", "send"]
    assert (
        "granted" in str(shop.do("export").stdout) and shop.do("approvals", "--json").json["approvals"] == []
    )


def test_a_failed_plan_is_changed_and_continued(shop: Workspace) -> None:
    plan(shop, SEARCH, WRITE, BOOK | {"after": ["write"]}, FAIL | {"after": ["book"]})
    said = shop.do("plan", "run", "--on-failure", "pause", FILE, code=4)
    assert "Its completed steps stay" in said.stderr and shop.read("report.md") == "about cats"
    run = latest_run(shop)
    assert f"takeback plan run FILE --continue {run}" in said.stderr
    # The search is the same; the report gets another name, so the booking that came after it goes, too.
    plan(shop, SEARCH, WRITE | {"args": WRITE["args"] | {"path": "other.md"}}, BOOK | {"after": ["write"]})
    done = shop.do("plan", "run", "--json", "--continue", run, FILE).json
    assert done["run"] == run and done["earlier"] == ["find"]
    assert not shop.has("report.md") and shop.read("other.md") == "about cats"
    first, then = ["search", "write report.md", "reserve A", "fail"], ["write other.md", "reserve A"]
    assert notes(shop) == [*first, "release A", *then]
    again = shop.run("plan", "run", "--json", "--continue", run, FILE)
    assert again.code == 2 and "is done" in again.json["error"]["message"]


def test_a_killed_plan_is_changed_and_continued(shop: Workspace) -> None:
    plan(shop, SEARCH, WRITE, step("risky", "break_once", "write", path="x.md"))
    assert shop.run("plan", "run", FILE).code == -9
    run = latest_run(shop)
    plan(shop, SEARCH, WRITE, step("safe", "write", "write", path="y.md", text="z"))
    done = shop.do("plan", "run", "--json", "--continue", run, FILE).json
    assert done["earlier"] == ["find", "write"] and done["run"] == run
    assert shop.read("y.md") == "z"
    assert notes(shop) == ["search", "write report.md", "break", "write y.md"]


def test_a_changed_plan_with_the_same_key_is_not_mixed_up(shop: Workspace) -> None:
    plan(shop, SEARCH, WRITE, FAIL, key="nightly")
    shop.do("plan", "run", "--on-failure", "pause", FILE, code=4)
    plan(shop, SEARCH, step("write", "write", path="other.md", text="x"), key="nightly")
    said = shop.do("plan", "run", FILE, code=3)
    assert "not with these arguments: write" in said.stderr and "--continue" in said.stderr
    assert not shop.has("other.md") and shop.has("report.md")


def test_without_pause_nothing_stays(shop: Workspace) -> None:
    before = shop.look()
    plan(shop, SEARCH, WRITE, FAIL)
    shop.do("plan", "run", FILE, code=4)
    assert shop.changes_since(before) == []
    run = latest_run(shop)
    plan(shop, SEARCH, WRITE)
    assert shop.do("plan", "run", "--json", "--continue", run, FILE).json["earlier"] == []


CHAIN = (
    SEARCH,
    step("copy", "search", topic={"$result": "find", "path": "/text"}),
    step("report", "write", path="report.md", text={"$result": "copy", "path": "/text"}),
    step("aside", "write", path="aside.md", text="by itself"),
    step("first", "write", path="first.md", text={"$result": "find", "path": "/text"}),
)


@pytest.mark.parametrize("choice", ["stop", "take", "leave", "named"])
def test_undo_of_a_step_counts_what_used_its_result(shop: Workspace, choice: str) -> None:
    plan(shop, *CHAIN)
    run = shop.do("plan", "run", "--json", FILE).json["run"]
    steps = steps_of(shop, run)
    before = shop.look()
    if choice == "stop":
        said = shop.do("undo", steps["find"], code=3)
        assert f"report ({steps['report']}), first ({steps['first']})" in said.stderr
        assert f"takeback undo {steps['find']} {steps['report']} {steps['first']}" in said.stderr
        assert shop.changes_since(before) == []
        assert "aside" not in said.stderr
        assert shop.do("undo", steps["aside"]).code == 0
        return
    named = [steps["find"], *([steps["report"], steps["first"]] if choice == "named" else [])]
    more = [] if choice == "named" else ["--dependents", choice]
    shop.do("undo", *named, *more)
    assert shop.has("report.md") == shop.has("first.md") == (choice == "leave")
    assert shop.read("aside.md") == "by itself"
