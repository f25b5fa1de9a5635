"""Kill -9 in the middle of try, accept and drop: the view is whole or gone, and the real folder untouched or done.

By default the places of views are tried, each where it is last passed; with --all every place at every passage.
The process inside the view counts on from where the one outside was, so both are killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world.cli import Workspace
from tests.world.kill import finish, killed_at, places_of
from tests.world.picture import Picture, differences

TELLING = ("stage-", "rollback-recorded")
CHANGE = "echo new > new; echo more >> edited; rm deleted; mkdir d; echo q > d/q; mv folder moved"


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    for name in ("edited", "deleted", "mine", "folder/inner"):
        made.human(name, f"old {name}\n")
    made.do("init")
    return made


def places(world: Workspace, *command: str, every: bool) -> list[int]:
    """Return the numbers of the places to die at."""
    passed = places_of(command, cwd=world.root, home=world.home)
    last = {name: number for number, name in enumerate(passed, 1) if name.startswith(TELLING)}
    return list(range(1, len(passed) + 1)) if every else sorted(set(last.values()))


def views(world: Workspace) -> list[str]:
    """Return the views that there are, each of which must be whole."""
    found = [stage["name"] for stage in world.do("stage", "list", "--json").json["stages"]]
    for name in found:
        world.do("stage", "diff", name)
    return found


def drop_all(world: Workspace) -> None:
    for name in views(world):
        world.do("stage", "drop", name)


def die_in_try(world: Workspace, *, every: bool) -> None:
    before = world.look()
    command = ("try", "--keep", "--", "sh", "-c", CHANGE)
    numbers = places(world, *command, every=every)
    assert world.changes_since(before) == []
    drop_all(world)
    for number in numbers:
        killed_at(number, command, cwd=world.root, home=world.home)
        assert world.changes_since(before) == [], number
        drop_all(world)
    left = [path.name for path in (next((world.home / "workspaces").iterdir()) / "stages").iterdir()]
    world.do("stage", "new", "x")
    world.do("stage", "drop", "x")
    after = [path.name for path in (next((world.home / "workspaces").iterdir()) / "stages").iterdir()]
    assert after == [], f"what kills left is removed with the next view: {left}"


def die_in_accept(world: Workspace, *, every: bool) -> None:
    before = world.look()
    world.do("try", "--keep", "--", "sh", "-c", CHANGE)
    command = ("stage", "accept", "t1")
    numbers = places(world, *command, every=every)
    after = world.look()
    assert differences(before, after)
    world.undo()
    assert world.changes_since(before) == []
    for number in numbers:
        if "t1" not in views(world):
            world.do("try", "--keep", "--", "sh", "-c", CHANGE)
        killed_at(number, command, cwd=world.root, home=world.home)
        finish(("status",), cwd=world.root, home=world.home)
        untouched = world.changes_since(before) == []
        if untouched:
            assert views(world) == ["t1"], number
        else:
            assert same_but_times(after, world.look()) == [], number
        if views(world):
            world.do("stage", "accept", "t1")
        assert same_but_times(after, world.look()) == [], number
        world.undo()
        assert world.changes_since(before) == [], number


def same_but_times(one: Picture, other: Picture) -> list[str]:
    ones, others = ({path: e._replace(mtime_ns=0) for path, e in seen.items()} for seen in (one, other))
    return differences(ones, others)


def die_in_drop(world: Workspace, *, every: bool) -> None:
    before = world.look()
    world.do("try", "--keep", "--", "sh", "-c", CHANGE)
    command = ("stage", "drop", "t1")
    for number in places(world, *command, every=every):
        if "t1" not in views(world):
            world.do("try", "--keep", "--", "sh", "-c", CHANGE)
        killed_at(number, command, cwd=world.root, home=world.home)
        assert world.changes_since(before) == [], number
        views(world)


DEATHS = (die_in_try, die_in_accept, die_in_drop)


@pytest.mark.parametrize("die", DEATHS)
def test_killed(world: Workspace, die: object) -> None:
    assert callable(die)
    die(world, every=False)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", ["", "user", "off"])
@pytest.mark.parametrize("die", DEATHS)
def test_killed_anywhere(world: Workspace, die: object, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(die)
    monkeypatch.setenv("TAKEBACK_NAMESPACES", way)
    die(world, every=True)
