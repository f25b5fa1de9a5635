"""A list in the memory that grows: what it costs, and that it is taken back, replayed and continued exactly."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import takeback
from takeback.core.rollback import Verdict
from tests.runs.scene import Scene

MESSAGE = "a message of some length " * 4


def journal_bytes(scene: Scene) -> int:
    return sum(len(repr(record.event)) for record in scene.tb.journal.read())


def test_the_journal_grows_with_what_is_added(scene: Scene) -> None:
    sizes = [journal_bytes(scene)]
    with scene.tb.run("chat") as run:
        run.memory["messages"] = []
        for _ in range(3):
            for n in range(100):
                run.memory["messages"].append({"n": n, "text": MESSAGE})
            sizes.append(journal_bytes(scene))
    first, second, third = (b - a for a, b in itertools.pairwise(sizes))
    assert second < 1.2 * first and third < 1.2 * first, (first, second, third)


def edit(chance: random.Random, messages: Any) -> None:
    """The same to a list of the memory, and to a plain one."""
    at = chance.randrange(len(messages) + 1)
    if at == len(messages) or chance.random() < 0.6:
        messages.insert(at, chance.choice([None, True, 1, "text", {"a": [1]}]))
    elif chance.random() < 0.5:
        messages[at] = chance.random()
    else:
        del messages[at]


def test_back_to_every_moment(scene: Scene) -> None:
    chance = random.Random(4)
    states: list[list[Any]] = []
    with scene.tb.run("chat", key="K") as run:
        run.memory["messages"] = model = list(range(12))
        marks = []
        for _ in range(25):
            seed = chance.random()
            edit(random.Random(seed), run.memory["messages"])
            edit(random.Random(seed), model)
            assert run.memory["messages"] == model
            states.append(list(model))
            marks.append(run.checkpoint())
        for n in (20, 13, 13, 2):
            run.rollback(to=marks[n])
            assert run.memory["messages"] == states[n]
        run.memory["messages"].append("after all")
        states.append([*states[2], "after all"])
    assert scene.memories()[run.id] == {"messages": states[-1]}
    seen = [moment.memory.get("messages") for moment in scene.tb.replay(run.id)]
    assert all(state in seen for state in states)
    with scene.tb.run("chat", key="K") as again:
        again.memory["messages"].append("only here")
        assert again.memory["messages"] == [*states[-1], "only here"]
    assert scene.tb.undo(run.id).verdict is Verdict.CLEAN
    assert scene.memories()[run.id] == {}
    assert scene.tb.redo().verdict is Verdict.CLEAN
    assert scene.memories()[run.id] == {"messages": states[-1]}


def test_an_action_in_the_middle_is_taken_back_only_with_the_rest(scene: Scene) -> None:
    """What was appended after it was appended to what it had made."""
    with scene.tb.run("chat") as run:
        run.memory["messages"] = list(range(10))
        with run.step("one") as one:
            run.memory["messages"].append("one")
        with run.step("two") as two:
            run.memory["messages"].append("two")
    with pytest.raises(takeback.ConflictError, match=f"messages of {run.id}"):
        scene.tb.undo(one.id)
    assert scene.tb.undo(one.id, two.id).verdict is Verdict.CLEAN
    assert scene.memories()[run.id] == {"messages": list(range(10))}
