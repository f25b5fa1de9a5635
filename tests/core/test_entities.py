"""What a recorded action says of itself, whatever began it."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Entry, Target, Version
from takeback.core.entities import ManyEntries, RecordedAction

PROCESS = e.Process(7, "1", "boot", "host")
CHANGE = Change(Target("files", "a.txt"), ABSENT, Version("x"))


def recorded(began: e.ActionBegan | e.RollbackBegan | e.DriftSeen) -> RecordedAction:
    return RecordedAction("a1", "action", "x", "r1", "me", 0, began)


def test_a_tool_call_is_told_as_it_began() -> None:
    began = e.ActionBegan(
        "x", e.Effect.UNKNOWN, step="s1", parent="a0", process=PROCESS, tool="takeback:init"
    )
    action = recorded(began)
    assert action.as_tool is began and action.process == PROCESS and action.swaps == ()
    assert action.is_tool and action.is_own and action.writes_files and action.is_unknown


def test_a_rollback_and_drift_are_no_tool_calls() -> None:
    rollback = recorded(e.RollbackBegan(e.RollbackKind.UNDO, ("a0",), (CHANGE,), process=PROCESS))
    assert rollback.process == PROCESS and rollback.swaps == (CHANGE,)
    drift = recorded(e.DriftSeen((CHANGE,)))
    assert drift.process is None and drift.swaps == ()
    for other in (rollback, drift):
        began = other.as_tool
        assert (began.step, began.parent, began.key, began.call_key, began.brand) == ("", "", "", "", 0)
        assert not (other.is_tool or other.is_own or other.writes_files or other.is_unknown)


def test_what_cannot_be_taken_back_leaves_something_unless_it_is_a_call_which_says_so_itself() -> None:
    assert recorded(e.ActionBegan("x", e.Effect.IRREVERSIBLE)).leaves_something
    assert not recorded(e.ActionBegan("x", e.Effect.IRREVERSIBLE, call_key="k")).leaves_something
    assert not recorded(e.ActionBegan("x", e.Effect.RESTORABLE)).leaves_something


def test_many_changes_are_read_again_up_to_the_last_that_was_shed() -> None:
    made = [Entry(seq, "a1", CHANGE) for seq in range(1, 6)]
    many = ManyEntries(lambda until: (entry for entry in made if entry.seq <= until), 0)
    assert not many and len(many) == 0 and list(many) == []
    many.shed()
    assert list(many) == []
    for so_far in (1, 3, 5):
        many.extend(made[len(many) : so_far])
        for _ in range(2):
            assert many and len(many) == so_far and list(many) == many[:] == made[:so_far]
            many.shed()
