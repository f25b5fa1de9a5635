"""What can be asked about a run afterwards."""

from __future__ import annotations

from tests.engine.conftest import Desk


def test_a_step_and_a_run_have_a_diff_from_before_to_after(desk: Desk) -> None:
    with desk.tb.run("task") as run:
        with run.step("one") as one:
            desk.human("plan", "first")
        with run.step("two"):
            desk.human("plan", "second")
            desk.human("new", "x")
        run.memory["goal"] = "x"
    changes = {
        str(c.target): (c.before.id, c.after.id) for c in desk.tb.diff(run.id).changes if c.before != c.after
    }
    step = {str(c.target): (c.before.id, c.after.id) for c in desk.tb.diff(one.id).changes}
    assert changes.keys() == {"plan", "new"} and step.keys() == {"plan"}
    assert changes["plan"][0] == step["plan"][0] and changes["plan"][1] != step["plan"][1]
