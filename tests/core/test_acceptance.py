"""Accepting a view: the take-back rule inverted, and its record, which is an action once it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from takeback.core import events as e
from takeback.core import selection as select
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.rollback import Do, OnConflict, plan_acceptance
from tests.core.story import Story, version

F = Target("files", "f")
BASE, VIEW, MINE = version("base"), version("view"), version("mine")


def planned(
    change: Change, now: Version, choice: OnConflict = OnConflict.STOP, *, divisible: bool = False
) -> tuple[Do, Version]:
    def present(targets: Iterable[Target]) -> Mapping[Target, Version]:
        return dict.fromkeys(targets, now)

    (item,) = plan_acceptance([change], present, on_conflict=choice, divisible=lambda _: divisible).items
    assert item.present == now and not item.settles
    return item.do, item.goal


def test_what_is_as_the_view_began_with_it_becomes_as_the_view_has_it() -> None:
    assert planned(Change(F, BASE, VIEW), BASE) == (Do.RESTORE, VIEW)
    assert planned(Change(F, ABSENT, VIEW), ABSENT) == (Do.RESTORE, VIEW)
    assert planned(Change(F, BASE, ABSENT), BASE) == (Do.REMOVE, ABSENT)


def test_what_is_already_as_the_view_has_it_stays() -> None:
    assert planned(Change(F, BASE, VIEW), VIEW) == (Do.ALREADY, VIEW)
    assert planned(Change(F, BASE, ABSENT), ABSENT) == (Do.ALREADY, ABSENT)


@pytest.mark.parametrize("now", [MINE, ABSENT])
def test_what_somebody_else_changed_is_a_conflict(now: Version) -> None:
    change = Change(F, BASE, VIEW)
    assert planned(change, now) == (Do.CONFLICT, now)
    assert planned(change, now, OnConflict.KEEP) == (Do.KEEP, now)
    assert planned(change, now, OnConflict.OVERWRITE) == (Do.RESTORE, VIEW)
    assert planned(change, now, OnConflict.MERGE)[0] is Do.MERGE
    assert planned(change, now, divisible=True)[0] is Do.MERGE


def test_nothing_to_accept() -> None:
    assert plan_acceptance([], lambda _: {}).items == ()


def test_an_acceptance_is_finished_like_a_rollback_and_taken_back_like_an_action() -> None:
    story = Story()
    change = Change(F, ABSENT, VIEW)
    item = e.Item(F, e.Did.RESTORED, True)
    began = e.RollbackBegan(e.RollbackKind.ACCEPT, (), (change,), (item,), stage="t1")
    id = story.tell(began).id
    action = story.history.actions[id]
    assert (action.kind, action.name) == ("accept", "stage accept t1")
    assert (action.is_rollback, action.is_tool) == (True, False)
    story.tell(e.RollbackEnded(id, (item,), (change,)))
    action = story.history.actions[id]
    assert (action.is_rollback, action.is_tool) == (False, True)
    assert select.last_action(story.history).actions == (id,)
    assert not select.last_rollback(story.history)
