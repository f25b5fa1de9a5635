"""The items of a session: in order, durable, and cut back, on each store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import takeback
from takeback.frameworks.session_items import SessionItems, names_of
from tests.resources.postgres.world import Server


@pytest.fixture(params=["file", "postgres", "memory"])
def workspace(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[takeback.Workspace]:
    store = {"file": "", "memory": "memory"}.get(request.param)
    with takeback.open(tmp_path, store=server.make("") if store is None else store) as opened:
        yield opened


def test_items_stay_in_order_and_apart_from_other_sessions(workspace: takeback.Workspace) -> None:
    items = SessionItems(workspace, "openai-agents/1")
    assert items.items() == [] and items.position() == ""
    items.add([{"n": 1}, {"n": 2}])
    items.add([])
    items.add([{"n": 3}])
    SessionItems(workspace, "openai-agents/2").add(["another one"])
    assert items.items() == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert items.items(2) == [{"n": 2}, {"n": 3}] and items.items(0) == []


def test_sessions_are_listed_by_their_prefix(workspace: takeback.Workspace) -> None:
    assert names_of(workspace, "a/") == []
    for name in ("a/1", "a/2", "b/1"):
        SessionItems(workspace, name).add([1])
    SessionItems(workspace, "a/2").clear()
    assert names_of(workspace, "a/") == ["a/1"] and sorted(names_of(workspace, "")) == ["a/1", "b/1"]


def test_the_newest_item_is_taken_off(workspace: takeback.Workspace) -> None:
    items = SessionItems(workspace, "s")
    items.add([1, 2])
    items.add([3])
    assert [items.pop() for _ in range(4)] == [3, 2, 1, None]
    items.add([4])
    assert items.items() == [4]


def test_what_came_after_a_position_is_removed(workspace: takeback.Workspace) -> None:
    items = SessionItems(workspace, "s")
    first = items.add([1])
    items.add([2, 3])
    items.add([4])
    items.go_back(first)
    assert items.items() == [1] and items.position() == first
    items.add([5])
    assert SessionItems(workspace, "s").items() == [1, 5]
    items.clear()
    assert items.items() == [] and items.position() == ""


def test_nothing_is_lost_if_several_append(workspace: takeback.Workspace) -> None:
    writers = [SessionItems(workspace, "s") for _ in range(4)]

    def write(number: int) -> None:
        for n in range(10):
            writers[number].add([[number, n]])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(writers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = writers[0].items()
    assert sorted(found) == [[number, n] for number in range(4) for n in range(10)]
    # What one writer appended stays in its order.
    assert all([n for who, n in found if who == number] == list(range(10)) for number in range(4))


def test_a_value_that_json_lacks_is_refused_and_nothing_is_stored(workspace: takeback.Workspace) -> None:
    items = SessionItems(workspace, "s")
    with pytest.raises(TypeError):
        items.add([{"file": object()}])
    with pytest.raises(ValueError, match="JSON compliant"):
        items.add([float("nan")])
    assert items.items() == []
