"""A secret that was captured is forgotten: it is nowhere in the state folder, and nobody takes that for damage."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

import takeback
from takeback.core import events as e
from takeback.errors import ConflictError, RefusedError, RunBusy, UsageError
from takeback.frameworks.session_items import SessionItems
from takeback.storage.content.packs.format.packfile import PackFile
from takeback.system import crash_points
from takeback.testing import crash
from takeback.workspace.known import FORGETTING
from takeback.workspace.opening import open_workspace
from takeback.workspace.parts import FORGOTTEN
from takeback.workspace.workspace import Workspace

from . import remote
from .conftest import Desk

SECRET = "hunter2-SECRET-0815"
POINTS = ("forget-noted", "forget-recorded", "forget-removed", "gc-copied", "gc-noted", "gc-unlinked")


@pytest.fixture
def watching() -> bool:
    return False


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Paths are named as on the command line: from the current folder."""
    (tmp_path / "work").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def found(home: Path, secret: str = SECRET) -> list[str]:
    """Return where the secret is: in any file as it is, and in any record of a pack unpacked."""
    places = []
    for path in (path for path in home.rglob("*") if path.is_file()):
        if secret.encode() in path.read_bytes():
            places.append(path.name)
        if path.suffix == ".pack":
            with PackFile(path, int(path.stem)) as pack:
                places += [
                    f"{path.name} at {item.offset}"
                    for item in pack.records()
                    if secret.encode() in pack.prove(item)
                ]
    return places


def wholly_sound(tb: Workspace) -> bool:
    return tb.verify() == [] and tb.verify(deep=True) == []


def leak(desk: Desk) -> tuple[str, str]:
    """Write a secret, edit, copy, rename and delete it; the agent's actions, first and last."""
    desk.human("env", f"token={SECRET}\n")
    desk.tb.save()
    first = desk.agent(env=f"token={SECRET}\nmore=1\n", other="x")
    desk.agent(env=f"token={SECRET}\nmore=2\n", copy=f"token={SECRET}\nmore=1\n")
    with desk.tb.recording("agent"):
        os.rename(desk.root / "env", desk.root / "renamed")
    last = desk.agent(renamed=None, copy=None, plan="new")
    return first, last


def test_the_secret_is_nowhere_and_all_else_can_be_taken_back(desk: Desk) -> None:
    first, last = leak(desk)
    assert found(desk.home)
    done = desk.tb.forget("env", shared=True)
    assert done.done and [one.path for one in done.paths] == ["env"] and done.paths[0].contents == 3
    assert {one.path for one in done.shared} == {"copy", "renamed"} and not done.present and not done.quoted
    assert found(desk.home) == [] and wholly_sound(desk.tb)
    desk.tb.gc()
    desk.reopen()
    assert found(desk.home) == [] and wholly_sound(desk.tb)
    # What needed it says so before anything is changed; the rest comes back.
    for preview in (True, False):
        try:
            report = desk.tb.undo(last, preview=preview)
        except ConflictError as error:
            report = error.report
        said = {str(item.target): (item.did, item.why) for item in report.items}
        assert said["copy"] == said["renamed"] == ("conflict", FORGOTTEN)
        assert desk.read("plan") == "new"
    desk.tb.undo(last, on_conflict="keep")
    assert (desk.read("plan"), desk.read("renamed"), desk.read("copy")) == ("old", None, None)
    desk.tb.undo(first, on_conflict="keep")
    assert desk.read("other") is None
    assert found(desk.home) == [] and wholly_sound(desk.tb)


def test_content_that_others_share_goes_only_if_that_is_allowed(desk: Desk) -> None:
    leak(desk)
    before = desk.tb.history.seq
    with pytest.raises(RefusedError, match="copy, renamed have the same content"):
        desk.tb.forget("env")
    shown = desk.tb.forget("env", preview=True)
    assert not shown.done and {one.path for one in shown.shared} == {"copy", "renamed"}
    assert desk.tb.history.seq == before and found(desk.home)
    desk.tb.forget("env", "copy", "renamed")
    assert found(desk.home) == []


def test_what_the_file_still_has_is_stored_again_and_can_then_be_taken_back(desk: Desk) -> None:
    """The workspace is not touched, and nobody's work is lost for a secret."""
    desk.human("env", SECRET)
    done = desk.tb.forget("env")  # never captured: nothing is stored of it
    assert not done.done and not done.paths
    desk.tb.save()
    done = desk.tb.forget("env")
    assert done.done and done.present == ("env",) and desk.read("env") == SECRET
    assert found(desk.home) == [] and wholly_sound(desk.tb)
    action = desk.agent(env="overwritten")
    assert found(desk.home)
    desk.tb.gc()
    desk.tb.undo(action)
    assert desk.read("env") == SECRET and wholly_sound(desk.tb)


def test_a_restore_says_what_is_forgotten_before_anything_is_done(desk: Desk) -> None:
    desk.human("env", SECRET)
    checkpoint = desk.tb.save()
    desk.agent(env=None, plan="new")
    desk.tb.forget("env")
    with pytest.raises(ConflictError) as caught:
        desk.tb.restore(checkpoint)
    assert FORGOTTEN in [item.why for item in caught.value.report.items]
    assert desk.read("plan") == "new"
    desk.tb.restore(checkpoint, paths=[str(desk.root / "plan")])
    assert desk.read("plan") == "old"


@pytest.mark.parametrize("choice", ["merge", "overwrite"])
def test_a_merge_that_needs_it_is_a_conflict_and_no_damage(desk: Desk, choice: str) -> None:
    lines = "1\n2\n3\n4\n"
    desk.human("env", f"{lines}{SECRET}\n")
    desk.tb.save()
    action = desk.agent(env=f"0\n{lines}{SECRET}\n")
    desk.human("env", f"0\n{lines}")
    desk.tb.save()
    desk.tb.forget("env")
    with pytest.raises(ConflictError) as caught:
        desk.tb.undo(action, on_conflict=choice)
    assert {str(item.target) for item in caught.value.report.items if item.did == "conflict"} == {"env"}
    assert desk.read("env") == f"0\n{lines}"


def test_blocks_of_large_files_go_too_and_what_shares_one_is_named(desk: Desk) -> None:
    """A large file is stored in blocks, which another one may share."""
    body = os.urandom(5 << 20)
    (desk.root / "large").write_bytes(body[: 2 << 20] + SECRET.encode() + body[2 << 20 :])
    (desk.root / "kept").write_bytes(os.urandom(5 << 20))
    desk.tb.save()
    (desk.root / "tail").write_bytes((desk.root / "large").read_bytes() + b"more")
    desk.agent(plan="new")
    (desk.root / "large").unlink()
    (desk.root / "tail").unlink()
    kept = desk.agent(kept=None)
    with pytest.raises(RefusedError, match="tail has the same content"):
        desk.tb.forget("large")
    desk.tb.forget("large", shared=True)
    assert found(desk.home) == []
    desk.tb.gc()
    assert wholly_sound(desk.tb)
    desk.tb.undo(kept)
    assert (desk.root / "kept").stat().st_size == 5 << 20


def test_images_of_a_database_go_as_a_whole(desk: Desk) -> None:
    path = desk.root / "shop.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE keys (value TEXT)")
    db.execute("INSERT INTO keys VALUES (?)", (SECRET,))
    db.commit()
    desk.tb.save()
    with desk.tb.recording("agent") as action:
        db.execute("DELETE FROM keys")
        db.commit()
        db.execute("VACUUM")
    db.close()
    assert found(desk.home)
    desk.tb.forget("shop.db")
    assert found(desk.home) == [] and wholly_sound(desk.tb)
    with pytest.raises(ConflictError) as caught:
        desk.tb.undo(action)
    assert FORGOTTEN in [item.why for item in caught.value.report.items]


def test_what_calls_were_given_about_it_goes_too(desk: Desk) -> None:
    def write(path: str, content: str) -> str:
        (desk.root / path).write_text(content)
        return content * 2000

    with desk.tb.run("agent") as run:
        run.call(write, "env", SECRET)
        run.call(write, "other", "harmless")
    (desk.root / "env").unlink()
    assert found(desk.home)
    done = desk.tb.forget("env")
    assert done.calls == 1
    left = found(desk.home)
    # What an event itself quotes stays: forgetting does not rewrite the journal, and that is said.
    assert all(not name.endswith("pack") and " at " not in name for name in left), left
    assert bool(left) == bool(done.quoted)
    assert wholly_sound(desk.tb)


def test_what_waits_or_can_be_taken_back_loses_its_arguments_only_if_that_is_allowed(desk: Desk) -> None:
    """An argument that is spelled like the path need not have to do with it."""
    desk.human("main", SECRET)
    desk.tb.save()
    with desk.tb.run("release") as run:
        run.call(remote.book, "main", token="hidden-from-the-journal")
        run.defer(remote.login, "main", password="hidden-as-well", key="build")
    (call,) = [id for id, action in desk.tb.history.actions.items() if action.name == "book"]
    (intent,) = desk.tb.history.intents.every
    (desk.root / "main").unlink()
    before = desk.tb.history.seq
    with pytest.raises(RefusedError, match=f"{call}, {intent} ") as refused:
        desk.tb.forget("main")
    assert "Nothing was forgotten" in refused.value.message and desk.tb.history.seq == before
    assert desk.tb.forget("main", preview=True).needed == (call, intent)
    done = desk.tb.forget("main", shared=True)
    assert done.done and done.needed == (call, intent)


def test_what_was_taken_back_needs_no_arguments(desk: Desk) -> None:
    desk.human("main", SECRET)
    desk.tb.save()
    with desk.tb.run("release") as run:
        run.call(remote.book, "main", token="hidden-from-the-journal")
        run.defer(remote.login, "main", password="hidden-as-well", key="build")
    desk.tb.undo(run.id)
    done = desk.tb.forget("main")
    assert done.done and done.calls == 2 and done.needed == ()


def test_a_result_with_a_line_of_it_stays_and_is_named(desk: Desk) -> None:
    """Other lines of a file are often in the results of other calls, so these are not removed for a line."""
    desk.human("env", f"first-of-all=1\ntoken={SECRET}\n")
    desk.tb.save()

    def search(pattern: str) -> str:
        return f"env:2:token={SECRET}\n" + "." * 100_000

    with desk.tb.run("agent") as run:
        run.call(search, "token")
    (desk.root / "env").unlink()
    (call,) = [id for id, action in desk.tb.history.actions.items() if action.name.endswith("search")]
    done = desk.tb.forget("env")
    assert done.done and found(desk.home) and done.quoted == (call,)


def test_conversations_that_quote_it_are_named(desk: Desk) -> None:
    desk.human("env", f"first=1\npassphrase=käse-{SECRET}\n")
    desk.tb.save()
    SessionItems(desk.tb, "about something else").add([{"content": "hello"}])
    assert desk.tb.forget("env", preview=True).conversations == ()
    told = SessionItems(desk.tb, "support")
    told.add([{"content": f"passphrase=käse-{SECRET}\nwhat now?"}])
    (desk.root / "env").unlink()
    done = desk.tb.forget("env")
    assert done.done and done.conversations == ("support",)
    assert {name.partition("-")[0] for name in found(desk.home)} == {"conversations.db"}
    told.clear()
    desk.reopen()
    assert found(desk.home) == []


def test_only_a_human_while_nothing_is_at_work(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.human("env", SECRET)
    desk.tb.save()
    with pytest.raises(UsageError):
        desk.tb.forget()
    with pytest.raises(UsageError):
        desk.tb.forget("never-there")
    with desk.tb.recording("agent") as action:
        with pytest.raises(RefusedError, match=action):
            desk.tb.forget("env")
        with open_workspace(desk.root, home=desk.home, watching=False) as other:
            monkeypatch.setattr(other, "inside_action", str)
            with pytest.raises(RunBusy, match=action):
                other.forget("env")
    assert found(desk.home)


def test_in_memory(here: Path) -> None:
    (here / "env").write_text(SECRET)
    (here / "plan").write_text("old")
    with takeback.open(here, store="memory") as tb:
        tb.save()
        with tb.recording("agent") as action:
            (here / "env").unlink()
            (here / "plan").write_text("new")
        assert tb.forget("env").done
        assert tb.verify(deep=True) == []
        tb.undo(action, on_conflict="keep")
        assert (here / "plan").read_text() == "old" and not (here / "env").exists()


def test_it_is_recorded(desk: Desk) -> None:
    leak(desk)
    desk.tb.forget("env", shared=True)
    (event,) = [r.event for r in desk.tb.journal.read() if isinstance(r.event, e.ContentForgotten)]
    assert event.paths == ("env",) and event.shared == ("copy", "renamed") and len(event.contents) == 3
    assert len(desk.tb.history.forgets) == 1
    desk.reopen()
    assert len(desk.tb.history.forgets) == 1
    assert not (desk.tb.state / FORGETTING).exists()


# Killed


def test_every_crash_point_is_tried() -> None:
    assert {name for name in crash_points.known() if name.startswith("forget-")} <= set(POINTS)


def forget(root: str, home: str) -> None:
    os.chdir(root)
    with open_workspace(Path(root), home=Path(home), watching=False) as tb:
        tb.forget("env", shared=True)


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_the_next_command_finishes(desk: Desk, point: str) -> None:
    first, _ = leak(desk)
    desk.tb.close()
    done = crash.run(point, 1, [f"{__name__}:forget", desk.root, desk.home], cwd=Path(__file__).parents[2])
    assert done.returncode == crash.KILLED, done.stderr
    desk.tb = open_workspace(desk.root, home=desk.home, watching=False)
    assert wholly_sound(desk.tb)
    desk.tb.recover()
    assert any("interrupted forgetting" in note for note in desk.tb.notices)
    is_recorded = bool(desk.tb.history.forgets)
    assert is_recorded == (point != "forget-noted")
    assert found(desk.home) == [] or not is_recorded
    assert not desk.tb.known.is_forgetting and wholly_sound(desk.tb)
    desk.tb.forget("env", shared=True)
    assert found(desk.home) == [] and wholly_sound(desk.tb)
    desk.tb.undo(first, on_conflict="keep")
    assert desk.read("other") is None
