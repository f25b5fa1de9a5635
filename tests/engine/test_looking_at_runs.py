"""What can be asked about a run afterwards."""

from __future__ import annotations

import pytest

from takeback.core.lifecycle import Life
from takeback.errors import HandedOver, RefusedError
from tests.engine.conftest import Desk
from tests.engine.plan_tools import wire


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


def test_a_run_that_waits_and_changed_nothing_is_over_when_it_is_taken_back(desk: Desk) -> None:
    with pytest.raises(HandedOver), desk.tb.run("task") as run:
        run.hand_over("which one?")
    assert desk.tb.handovers()
    report = desk.tb.undo(run.id)
    assert report.items == () and not desk.tb.handovers()
    assert desk.tb.history.runs[run.id].life is Life.STOPPED
    assert desk.tb.history.breaches == []


def test_who_waits_for_an_answer_says_so(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with (
        pytest.raises(RefusedError, match="no answer in time"),
        desk.tb.run("task", approval_wait_s=0.1) as run,
    ):
        run.call(wire, 5)
    (approval,) = desk.tb.history.approvals
    assert f"wire waits for your approval: takeback approve {approval}" in caplog.text
