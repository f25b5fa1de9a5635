"""What a failed run or command is taken back from stays as a view, to be looked at and accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

import takeback
from tests.shadow import tools
from tests.world.cli import Workspace


@pytest.mark.parametrize("way", ["", "off"], ids=["overlay", "copy"], indirect=True)
def test_a_failed_run_leaves_a_draft(tb: takeback.Workspace, way: str) -> None:
    def failing() -> takeback.Run:
        with tb.run("report", on_failure="draft") as run:
            run.call(tools.write, "report.md", "a report\n")
            Path("plan.md").unlink()
            run.call(tools.fail, "no")
        return run

    with pytest.raises(RuntimeError, match="no") as failed:
        failing()
    assert "kept as a draft: takeback stage diff t1" in str(failed.value.__notes__)
    assert sorted(p.name for p in tb.root.iterdir()) == ["plan.md"]
    stage = tb.stages["t1"]
    assert {str(c.target) for c in stage.changes() if c.before != c.after} == {"report.md", "plan.md"}
    stage.accept().require_complete()
    assert sorted(p.name for p in tb.root.iterdir()) == ["report.md"]
    tb.undo()
    assert sorted(p.name for p in tb.root.iterdir()) == ["plan.md"]


def test_a_run_that_changed_nothing_or_succeeded_leaves_none(tb: takeback.Workspace) -> None:
    with tb.run("report", on_failure="draft") as run:
        run.call(tools.write, "report.md", "a report\n")
    with pytest.raises(RuntimeError), tb.run("report", on_failure="draft") as run:
        run.call(tools.fail, "no")
    assert tb.stages.names() == []
    with pytest.raises(takeback.UsageError, match="not what can happen to a failed run"):
        tb.run("x", on_failure="burn")


def test_a_failed_command_leaves_a_draft(tmp_path: Path, way: str) -> None:
    shop = Workspace.at(tmp_path)
    shop.human("plan.md", "old\n")
    before = shop.look()
    said = shop.run("run", "--draft-on-failure", "--", "sh", "-c", "echo new > plan.md; echo x > n; exit 7")
    assert said.code == 7 and "takeback stage accept t1" in said.stderr
    assert shop.changes_since(before) == []
    assert shop.run("run", "--draft-on-failure", "--", "sh", "-c", "echo fine > ok").code == 0
    with takeback.open(shop.root, home=shop.home) as tb:
        tb.stages["t1"].accept().require_complete()
    assert shop.read("plan.md") == "new\n" and shop.has("n")
