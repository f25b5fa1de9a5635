"""A hook that is killed while it begins or ends an action: the next one with its call_id finds or finishes it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.testing.forks import killed_at, run
from takeback.workspace.opening import open_workspace
from tests.runs.scene import Scene

SAMPLE = [
    ("begin", "call-before-record"),
    ("begin", "action-began"),
    ("begin", "call-recorded"),
    ("end", "call-made"),
    ("end", "action-ending"),
    ("end", "action-ended"),
    ("end", "call-ended"),
]


def begin(folder: Path, session: str) -> None:
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        tb.session("agent", key=session).begin("Write", {"path": session}, call_id="c1", effect="restorable")


def end(folder: Path, session: str) -> None:
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        tb.session("agent", key=session).action("c1").end("written")


def is_killed(scene: Scene, session: str, at: str, place: int | str) -> bool:
    """Begin and end one action, one of its hooks killed and called again; False if that passed no such place."""
    folder, killed = scene.root.parent, False
    for hook in (begin, end):
        if hook.__name__ == at:
            killed = killed_at(place, hook, folder, session, errors=folder / "errors")
        assert run(hook, folder, session, errors=folder / "errors") == 0, (folder / "errors").read_text()
        if hook is begin:
            scene.human(session, "by the agent")
    (id,) = scene.tb.history.runs_of_key(session)
    (action,) = [scene.tb.history.actions[a] for a in scene.tb.history.runs[id].actions]
    assert action.life is Life.DONE and scene.tb.result(action) == "written"
    assert session in {str(change.target) for change in action.changes}
    assert scene.tb.undo(id).verdict is Verdict.CLEAN
    assert scene.read(session) is None
    return killed


@pytest.mark.parametrize("at, place", SAMPLE)
def test_killed_at_a_named_place(scene: Scene, at: str, place: str) -> None:
    assert is_killed(scene, "session", at, place)


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("at", ["begin", "end"])
def test_killed_everywhere(scene: Scene, at: str) -> None:
    for place in itertools.count(1):
        if not is_killed(scene, f"session-{place}", at, place):
            assert place > 10
            return
