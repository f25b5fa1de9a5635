"""An effect that nobody declared is unknown: never taken for safe, and said in every report."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback import action
from takeback.core.entities import Approval
from takeback.core.events import ActionRefused, Effect
from takeback.core.rollback import Verdict
from takeback.engine.runs.actions import Action, Denied
from takeback.errors import RefusedError, UsageError
from takeback.workspace.opening import open_workspace
from tests.runs.scene import Scene


class Failure(Exception):
    pass


def mail(path: str) -> str:
    """Nobody declared what this does."""
    Path(path).write_text("sent")
    return "sent"


@action(retries=2)
def half_declared(path: str) -> None:
    Path(path).write_text("sent")


@action(effect="restorable")
def write(path: str) -> None:
    Path(path).write_text("written")


def only_called() -> None:
    """Changes nothing where anybody looks."""


def fail_after(scene: Scene, *calls: tuple[object, ...], **options: object) -> takeback.RollbackReport:
    run = scene.tb.run("failing")
    with pytest.raises(Failure), run:
        for function, *args in calls:
            run.call(function, *args, **options)  # type: ignore[arg-type]
        raise Failure
    assert run.report is not None
    return run.report


def effect_of(scene: Scene, id: str) -> Effect:
    began = scene.tb.history.actions[id].began
    assert hasattr(began, "effect")
    return began.effect


def test_what_an_undeclared_function_did_is_taken_back_and_the_verdict_is_unknown(scene: Scene) -> None:
    sent = scene.root / "sent"
    report = fail_after(scene, (mail, str(sent)))
    assert not sent.exists(), "what it changed in the folder comes back"
    assert report.verdict is Verdict.UNKNOWN
    (id,) = report.unknown
    assert effect_of(scene, id) is Effect.UNKNOWN
    assert report.data()["verdict"] == "unknown" and report.data()["unknown"] == [id]
    assert str(report).endswith(f" Unknown: whether {id} did anything elsewhere.")


def test_a_declaration_that_does_not_name_the_effect_leaves_it_unknown(scene: Scene) -> None:
    assert fail_after(scene, (half_declared, str(scene.root / "sent"))).verdict is Verdict.UNKNOWN


def test_unknown_is_said_also_of_what_changed_nothing_in_the_folder(scene: Scene) -> None:
    report = fail_after(scene, (only_called,))
    assert report.verdict is Verdict.UNKNOWN and len(report.unknown) == 1


def test_one_unknown_call_among_declared_ones_is_named_alone(scene: Scene) -> None:
    report = fail_after(scene, (write, str(scene.root / "a")), (mail, str(scene.root / "b")))
    assert report.verdict is Verdict.UNKNOWN
    assert [scene.tb.history.actions[id].name for id in report.unknown] == ["mail"]


def test_a_declared_function_is_clean(scene: Scene) -> None:
    report = fail_after(scene, (write, str(scene.root / "a")))
    assert report.verdict is Verdict.CLEAN and report.unknown == () and report.data()["unknown"] == []
    assert "unknown" not in str(report)


def test_the_effect_can_be_declared_where_the_function_is_called(scene: Scene) -> None:
    report = fail_after(scene, (mail, str(scene.root / "sent")), effect="restorable")
    assert report.verdict is Verdict.CLEAN
    with scene.tb.run("copy") as run:  # a function of a library, which nobody here can decorate
        run.call(shutil.copyfile, scene.root / "plan", scene.root / "copy", effect="restorable")
    assert scene.tb.undo(run.id).verdict is Verdict.CLEAN


def test_an_effect_at_the_call_may_be_more_careful_than_the_declaration_but_not_less(scene: Scene) -> None:
    with scene.tb.run("careful", approve=lambda _: False) as run:
        with pytest.raises(RefusedError):
            run.call(write, str(scene.root / "a"), effect="irreversible")
        with pytest.raises(UsageError, match="write is declared as restorable"):
            run.call(write, str(scene.root / "a"), effect="none")
        with pytest.raises(UsageError, match="'harmless' is not an effect"):
            run.call(mail, "a", effect="harmless")
        with pytest.raises(UsageError, match="undo handler"):
            run.call(mail, "a", effect="compensable")
    assert not (scene.root / "a").exists()


def test_a_function_of_a_library_can_be_declared_once(scene: Scene) -> None:
    touch = action(effect="restorable")(scene.root.joinpath("touched").touch)  # a bound method
    remove = action(effect="restorable")(
        os.remove
    )  # a built-in function, which has no place for a declaration
    with scene.tb.run("tidy", autopilot=True) as run:
        run.call(touch)
        run.call(remove, str(scene.root / "plan"))
    assert (scene.root / "touched").exists() and not (scene.root / "plan").exists()
    assert [a.name for a in scene.tb.history.actions.values()][1:] == ["Path.touch", "remove"]
    assert scene.tb.undo(run.id).verdict is Verdict.CLEAN and (scene.root / "plan").exists()


def test_undo_of_an_unknown_call_does_not_raise(scene: Scene) -> None:
    with scene.tb.run("mailing") as run:
        run.call(mail, str(scene.root / "sent"))
    preview = scene.tb.undo(run.id, preview=True)
    report = scene.tb.undo(run.id)
    assert preview.verdict is report.verdict is Verdict.UNKNOWN
    assert preview.unknown == report.unknown != ()
    assert scene.tb.undo(run.id).verdict is Verdict.NOTHING, "it was said once"
    assert scene.tb.redo().verdict is Verdict.CLEAN, "what is brought back is known"
    assert (scene.root / "sent").exists()


def test_on_autopilot_an_undeclared_function_is_refused_and_the_hint_says_how_to_declare_it(
    scene: Scene,
) -> None:
    with scene.tb.run("unwatched", autopilot=True) as run:
        with pytest.raises(RefusedError, match="mail was refused: its effect is unknown") as caught:
            run.call(mail, str(scene.root / "sent"))
        run.call(mail, str(scene.root / "declared"), effect="restorable")
    assert 'run.call(mail, …, effect="…")' in caught.value.hint
    assert 'takeback.action(effect="…")(mail)' in caught.value.hint
    assert 'unknown = "allow"' in caught.value.how
    assert 'unknown = "allow"' not in str(caught.value), "a framework passes this on to its model"
    assert not (scene.root / "sent").exists() and (scene.root / "declared").exists()
    refused = [r.event for r in scene.tb.journal.read() if isinstance(r.event, ActionRefused)]
    assert [(event.effect, event.rule) for event in refused] == [(Effect.UNKNOWN, "autopilot")]


def settings(scene: Scene, do: str) -> Scene:
    scene.tb.close()
    (scene.root / "takeback.toml").write_text(f'[rules.effects]\nunknown = "{do}"\n')
    scene.tb = open_workspace(scene.root, watching=False)
    scene.tb.accept_config()
    return scene


def test_on_autopilot_an_explicit_allow_lets_it_run(scene: Scene) -> None:
    with settings(scene, "allow").tb.run("unwatched", autopilot=True) as run:
        run.call(mail, str(scene.root / "sent"))
    assert scene.tb.undo(run.id).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("do", ["ask", "deny"])
@pytest.mark.parametrize("autopilot", [False, True])
def test_an_explicit_ask_or_deny_always_wins(scene: Scene, do: str, autopilot: bool) -> None:
    settings(scene, do)
    asked: list[Approval] = []

    def refuse(approval: Approval) -> bool:
        asked.append(approval)
        return False

    with scene.tb.run("mailing", autopilot=autopilot, approve=refuse) as run:
        with pytest.raises(RefusedError):
            run.call(mail, str(scene.root / "sent"))
        denied = run.begin("tool", {}, call_id="1")
        assert isinstance(denied, Denied)
        assert "allow it" not in str(denied) and "takeback.toml" not in str(denied)
        assert "takeback.toml" in denied.how or (do == "ask" and not autopilot)
        assert isinstance(run.begin("sh", {"command": "make all"}, call_id="2", effect="restorable"), Denied)
    assert len(asked) == (3 if do == "ask" and not autopilot else 0)
    assert not (scene.root / "sent").exists()


def test_the_seam_takes_a_tool_without_an_effect_for_unknown(scene: Scene) -> None:
    run = scene.tb.run("framework")
    with pytest.raises(Failure), run:
        for name, effect in (("a", ""), ("b", "restorable"), ("c", "unknown")):
            begun = run.begin(name, {}, call_id=name, effect=effect)
            assert isinstance(begun, Action)
            begun.end()
        raise Failure
    assert run.report is not None and run.report.verdict is Verdict.UNKNOWN
    assert [scene.tb.history.actions[id].name for id in run.report.unknown] == ["a", "c"]


def test_on_autopilot_unknown_commands_run_and_are_reported(scene: Scene) -> None:
    run = scene.tb.run("unwatched", autopilot=True)
    with pytest.raises(Failure), run:
        assert isinstance(run.begin("tool", {}, call_id="undeclared"), Denied)
        begun = run.begin("sh", {"command": "make all"}, call_id="make", effect="restorable")
        assert isinstance(begun, Action)
        begun.end()
        raise Failure
    assert run.report is not None
    assert run.report.unknown == (run.action("make").id,)


@pytest.mark.parametrize("function, name", [(", ".join, "str.join"), (dict.get, "dict.get")])
def test_the_hint_names_a_builtin_as_the_message_does(
    scene: Scene, function: Callable[..., Any], name: str
) -> None:
    with pytest.raises(RefusedError, match=name) as caught, scene.tb.run("auto", autopilot=True) as run:
        run.call(function, ["a"], key="k")
    assert f"run.call({name}, " in caught.value.hint
