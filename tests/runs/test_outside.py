"""Sessions, runs and calls that name paths outside the workspace."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.core.events import Effect
from takeback.engine.runs.session import Session
from takeback.testing import crash
from tests.runs.scene import Scene

X = "x.conf"


@pytest.fixture
def beside(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder beside the workspace, with a file and a tree in it; the agent stands in the workspace."""
    monkeypatch.chdir(scene.root)
    folder = scene.root.parent
    (folder / X).write_text("old")
    (folder / "tree/deep").mkdir(parents=True)
    (folder / "tree/deep/leaf").write_text("leaf")
    return folder


def shell(session: Session, command: str, call: str) -> str:
    """One call of an agent's shell, told before and after."""
    action = begun(session, command, call)
    subprocess.run(command, shell=True, check=True)
    return action.end("").id


def begun(session: Session, command: str, call: str) -> takeback.Action:
    action = session.begin("Bash", {"command": command}, call_id=call, effect="restorable")
    assert isinstance(action, takeback.Action), action
    return action


def targets(scene: Scene, action: str) -> set[str]:
    return {str(change.target) for change in scene.tb.history.actions[action].changes}


def test_a_shell_call_of_a_session_is_taken_back(scene: Scene, beside: Path) -> None:
    session = scene.tb.session("agent", key="one")
    id = shell(session, f"rm -rf ../tree; echo new > ../{X}", "c1")
    assert targets(scene, id) >= {str(beside / X), str(beside / "tree/deep/leaf")}
    assert scene.tb.undo(id).verdict.value == "clean"
    assert (beside / X).read_text() == "old" and (beside / "tree/deep/leaf").read_text() == "leaf"
    session.end()


def test_an_editing_tool_that_names_a_file_outside(scene: Scene, beside: Path) -> None:
    session = scene.tb.session("agent", key="one")
    for call, told in (
        ("c1", {"args": {"file_path": str(beside / X)}}),
        ("c2", {"paths": [str(beside / X)]}),
    ):
        action = session.begin("Edit", call_id=call, **told)
        assert isinstance(action, takeback.Action)
        (beside / X).write_text("new")
        action.end("")
        scene.tb.undo(action.id)
        assert (beside / X).read_text() == "old"


def test_what_cannot_be_captured_is_asked_for(scene: Scene, beside: Path) -> None:
    scene.human("takeback.toml", "[outside]\nmax-files = 2\n")
    session = scene.tb.session("agent", key="one")
    asked = session.begin("Bash", {"command": "rm -rf ../tree"}, call_id="c1", effect="restorable")
    assert isinstance(asked, takeback.Ask) and "was not captured" in asked.reason
    scene.tb.approve(asked.approval)
    action = begun(session, "rm -rf ../tree", "c1")
    began = scene.tb.history.actions[action.id].began
    assert began.effect is Effect.IRREVERSIBLE and began.uncaptured and not began.outside  # type: ignore[union-attr]
    action.end("")


def test_on_autopilot_it_is_denied(scene: Scene, beside: Path) -> None:
    scene.human("takeback.toml", "[outside]\nmax-files = 2\n")
    session = scene.tb.session("agent", key="one", autopilot=True)
    denied = session.begin("Bash", {"command": "rm -rf ../tree"}, call_id="c1", effect="restorable")
    assert isinstance(denied, takeback.Denied) and "was not captured" in denied.reason
    assert isinstance(
        session.begin("Bash", {"command": f"rm ../{X}"}, call_id="c2", effect="restorable"), takeback.Action
    )


def test_a_call_of_a_run_is_looked_at_by_itself(scene: Scene, beside: Path) -> None:
    def bash(command: str) -> None:
        subprocess.run(command, shell=True, check=True)

    with pytest.raises(ZeroDivisionError), scene.tb.run("agent") as run:
        with run.step("one"):
            run.call(bash, f"echo new > ../{X}; rm -rf ../tree", key="k")
        raise ZeroDivisionError
    assert (beside / X).read_text() == "old" and (beside / "tree/deep/leaf").read_text() == "leaf"


def test_two_at_once_share_what_changed(scene: Scene, beside: Path) -> None:
    session = scene.tb.session("agent", key="one")
    first, second = begun(session, f"echo 1 > ../{X}", "c1"), begun(session, f"echo 2 > ../{X}", "c2")
    (beside / X).write_text("new")
    first.end("")
    second.end("")
    with pytest.raises(takeback.ConflictError):
        scene.tb.undo(first.id)
    assert (beside / X).read_text() == "new"
    scene.tb.undo(first.id, second.id)
    assert (beside / X).read_text() == "old"


def test_what_changed_before_it_was_named_is_not_given_to_whoever_is_at_work(
    scene: Scene, beside: Path
) -> None:
    session = scene.tb.session("agent", key="one")
    shell(session, f"echo agent > ../{X}", "c1")
    (beside / X).write_text("human")
    at_work = begun(session, "make", "c2")
    third = begun(session, f"echo again > ../{X}", "c3")
    (beside / X).write_text("again")
    third.end("")
    at_work.end("")
    assert str(beside / X) not in targets(scene, at_work.id) | {
        str(change.target) for entry in scene.tb.history.actions[at_work.id].made for change in [entry.change]
    }
    scene.tb.undo(third.id, at_work.id)
    assert (beside / X).read_text() == "human"


def test_a_place_that_comes_into_view_above_another_loses_nothing(scene: Scene, beside: Path) -> None:
    session = scene.tb.session("agent", key="one")
    inner = begun(session, "echo new > ../tree/deep/leaf", "c1")
    (beside / "tree/deep/leaf").write_text("new")
    outer = begun(session, "rm -rf ../tree", "c2")
    (beside / "tree/other").write_text("x")
    outer.end("")
    inner.end("")
    made = {str(entry.target) for entry in scene.tb.history.actions[inner.id].made}
    assert str(beside / "tree/deep/leaf") in made
    scene.tb.undo(inner.id, outer.id)
    assert (beside / "tree/deep/leaf").read_text() == "leaf" and not (beside / "tree/other").exists()


def test_where_nothing_outside_is_named_nothing_is_looked_at(scene: Scene, beside: Path) -> None:
    session = scene.tb.session("agent", key="one")
    with crash.at("outside-marked", lambda: None) as passes:
        shell(session, "echo new > plan; ls ..", "c1")
        scene.tb.save()
        scene.tb.undo()
    assert passes["outside-marked"] == 0 and passes["files-marked"] > 0
    assert not (scene.tb.state / "outside").exists()
    assert all(mark.resource != "outside" for mark in scene.tb.history.marks.values())
    with crash.at("outside-marked", lambda: None) as passes:
        shell(session, f"echo new > ../{X}", "c2")
    assert passes["outside-marked"] == 2


def test_a_database_under_guard_has_one_owner(scene: Scene, beside: Path) -> None:
    with scene.tb.run("first") as run, run.database(str(beside / "app.db")) as db:
        db.execute("create table t (x)")
    session = scene.tb.session("agent", key="one")
    action = begun(session, "rm -rf ../app.db ../tree", "c1")
    (beside / "app.db").unlink()
    action.end("")
    owners = [
        c.target.resource for c in scene.tb.history.actions[action.id].changes if "app.db" in str(c.target)
    ]
    assert owners == ["sqlite"]


def test_secrets_stay_out_of_the_journal(scene: Scene, beside: Path) -> None:
    given: dict[str, Any] = {"command": f"echo token=sk-abcdefghijklmnopqrstuvwx1234 > ../{X}"}
    action = scene.tb.session("agent", key="one").begin("Bash", given, call_id="c1", effect="restorable")
    assert isinstance(action, takeback.Action)
    action.end("")
    bodies = b"".join(path.read_bytes() for path in scene.tb.state.glob("journal.db*"))
    assert b"sk-abcdefghijklmnopqrstuvwx1234" not in bodies and str(beside / X).encode() in bodies


def test_a_checkpoint_while_a_path_is_in_view(scene: Scene, beside: Path) -> None:
    session = scene.tb.session("agent", key="one")
    action = begun(session, f"echo new > ../{X}", "c1")
    checkpoint = scene.tb.save("in between")
    (beside / X).write_text("new")
    action.end("")
    report = scene.tb.restore(checkpoint)
    assert [(str(item.target), item.did) for item in report.items] == [(str(beside / X), "kept")]
    assert (beside / X).read_text() == "new"
    assert [str(change.target) for change in scene.tb.diff(checkpoint)] == [str(beside / X)]
    scene.tb.undo(action.id)
    assert (beside / X).read_text() == "old" and not scene.tb.diff(checkpoint)
