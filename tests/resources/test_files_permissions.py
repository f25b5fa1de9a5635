"""Files that cannot be read, folders that cannot be written: as they bind a user who is not root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.processes import bound
from tests.world.cli import Workspace, items


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    made.human("plan.md", "old\n")
    made.human("sub/inner.md", "old\n")
    return made


def agent(world: Workspace, script: str) -> None:
    bound(world, "run", "--name", "agent", "--", "sh", "-c", script)


def undo(world: Workspace, *words: str) -> None:
    report = bound(world, "undo", "--json", *words).json
    assert report["verdict"] == "clean" and all(item["verified"] for item in report["items"]), report


def test_an_unreadable_file_is_stated_and_does_not_stop_the_rest(world: Workspace) -> None:
    (world.root / "plan.md").chmod(0)
    saved = bound(world, "save", "--json").json
    assert any(text.startswith("plan.md cannot be read") for text in saved["not_covered"]), saved
    agent(world, "echo new > sub/inner.md")
    undo(world)
    assert world.read("sub/inner.md") == "old\n"
    assert (world.root / "plan.md").stat().st_mode & 0o777 == 0
    # Once it can be read, nothing is left to state.
    (world.root / "plan.md").chmod(0o644)
    assert bound(world, "save", "--json").json["not_covered"] == []


def test_an_unreadable_folder_is_stated(world: Workspace) -> None:
    (world.root / "sub").chmod(0)
    saved = bound(world, "save", "--json").json
    (world.root / "sub").chmod(0o755)
    assert any(text.startswith("sub cannot be opened") for text in saved["not_covered"]), saved
    assert bound(world, "save", "--json").json["not_covered"] == []


def test_more_than_can_be_listed_is_counted(world: Workspace) -> None:
    for n in range(70):
        world.human(f"closed-{n}", "x")
        (world.root / f"closed-{n}").chmod(0)
    saved = bound(world, "save", "--json").json
    named = [text for text in saved["not_covered"] if text.startswith("closed-")]
    assert len(named) == 70 or any("more" in text for text in saved["not_covered"]), len(named)


@pytest.mark.parametrize(
    "script",
    [
        "chmod 000 plan.md",
        "chmod 000 sub",
        "echo new > plan.md; chmod 000 plan.md",
        "echo new > sub/made.md; chmod 555 sub",
        "rm sub/inner.md; chmod 555 sub",
        "echo new > sub/inner.md; chmod 400 sub/inner.md; chmod 500 sub",
        "chmod 555 .",
        "echo new > plan.md; rm -r sub; chmod 555 .",
        "chmod -R a-w .",
    ],
)
def test_what_the_agent_closed_is_opened_again(script: str, world: Workspace) -> None:
    before = world.look()
    agent(world, script)
    undo(world)
    assert world.changes_since(before) == []


def test_what_was_out_of_sight_is_not_called_clean(world: Workspace) -> None:
    """The agent closed a folder behind a change inside it: nobody could see that when it was recorded."""
    agent(world, "chmod 000 sub/inner.md sub plan.md")
    done = bound(world, "undo", "--json", code=6)
    assert items(done) == {"plan.md": "restored", "sub": "restored", "sub/inner.md": "unverifiable"}


@pytest.mark.parametrize("many", [1, 20], ids=["synced-one-by-one", "synced-together"])
def test_a_file_that_nobody_may_read_is_put_back(world: Workspace, many: int) -> None:
    """It is made ready and made durable under a mode that does not let even its owner open it again."""
    names = [f"secret-{n}" for n in range(many)]
    for name in names:
        world.human(name, f"content of {name}\n")
    bound(world, "save")
    for name in names:
        (world.root / name).chmod(0)
    before = world.look()
    agent(world, "rm -f secret-*")
    done = bound(world, "undo", "--json", code=6)
    assert {items(done)[name] for name in names} == {"unverifiable"}, done
    assert world.changes_since(before) == []
    # Root can read it again, and so call it clean.
    world.do("redo")
    world.undo()
    assert world.changes_since(before) == []


def test_a_file_in_a_protected_folder_comes_back(world: Workspace) -> None:
    """The folder was write-protected before; the agent opened it, and the human closed it again."""
    (world.root / "sub").chmod(0o555)
    before = world.look()
    agent(world, "chmod 755 sub; echo new > sub/inner.md; echo x > sub/made.md; chmod 555 sub")
    undo(world)
    assert world.changes_since(before) == []


def test_a_rollback_that_cannot_write_says_so_and_can_be_tried_again(world: Workspace) -> None:
    """One path that fails does not stop the others, and leaves no rollback that blocks every command."""
    agent(world, "echo new > plan.md; echo new > sub/inner.md")
    (world.root).chmod(0o555)
    done = bound_any(world, "undo")
    (world.root).chmod(0o755)
    assert done in (0, 4, 6)
    bound(world, "save")
    bound(world, "undo")
    assert (world.read("plan.md"), world.read("sub/inner.md")) == ("old\n", "old\n")


def bound_any(world: Workspace, *words: str) -> int:
    for code in (0, 4, 6):
        try:
            bound(world, *words, code=code)
        except AssertionError as error:
            if "Traceback" in str(error) or "mistake" in str(error):
                raise
            continue
        return code
    return -1
