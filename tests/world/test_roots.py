"""Folders beside the workspace that a run names are protected as the workspace is: whatever is written there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import takeback
from takeback.errors import RefusedError, UsageError
from tests.cli.processes import bound

from .cli import Workspace, items
from .kill import finish, killed_at, places_of
from .picture import Picture, differences, picture

SLY = (
    "import os, shutil; d = os.path.join('..', 'atad'[::-1]); shutil.rmtree(d + '/deep'); "
    "open(d + '/a.txt', 'w').write('agent'); open(d + '/new', 'w').write('new'); open('plan.md', 'w').write('agent')"
)
"""What no judge can see in the words: only a look at the whole folder finds it."""


class Scene:
    def __init__(self, folder: Path) -> None:
        self.world = Workspace.at(folder)
        self.data = folder / "data"
        (self.data / "deep/empty").mkdir(parents=True)
        (self.data / "a.txt").write_text("a\n")
        (self.data / "deep/b.txt").write_text("b\n")
        self.world.human("plan.md", "old\n")
        self.world.save()

    def look(self) -> dict[str, Picture]:
        return {name: picture(bytes(path)) for name, path in (("data", self.data), ("work", self.world.root))}

    def same(self, before: dict[str, Picture]) -> bool:
        return not any(differences(before[name], now) for name, now in self.look().items())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


RUN = ("run", "--also", "../data", "--", sys.executable, "-c", SLY)


def test_one_undo_takes_back_both(scene: Scene) -> None:
    before = scene.look()
    done = scene.world.do(*RUN)
    assert f"captured outside the workspace: {scene.data}" in done.stderr
    after = scene.look()
    report = scene.world.undo()
    assert {f"{scene.data}/a.txt", f"{scene.data}/new", "plan.md"} <= items(report).keys()
    assert scene.same(before)
    scene.world.do("redo")
    assert scene.same(after)


def test_without_it_nobody_looks_there(scene: Scene) -> None:
    scene.world.do("run", "--", sys.executable, "-c", SLY)
    scene.world.do("undo")
    assert (scene.data / "a.txt").read_text() == "agent"


def test_a_folder_that_was_removed_as_a_whole_comes_back(scene: Scene) -> None:
    before = scene.look()
    scene.world.do(
        "run",
        "--also",
        "../data",
        "--",
        sys.executable,
        "-c",
        "import shutil; shutil.rmtree('../' + 'atad'[::-1])",
    )
    assert not scene.data.exists()
    scene.world.undo()
    assert scene.same(before)


def test_what_a_human_did_there_stays(scene: Scene) -> None:
    (scene.data / "mine").write_text("mine")
    scene.world.do(*RUN)
    (scene.data / "yours").write_text("yours")
    scene.world.undo()
    assert (scene.data / "yours").read_text() == "yours" and (scene.data / "mine").read_text() == "mine"
    scene.world.do(*RUN)
    (scene.data / "a.txt").write_text("human")
    assert f"{scene.data}/a.txt" in scene.world.do("undo", code=3).said
    assert (scene.data / "new").exists(), "nothing was taken back"
    scene.world.undo("--on-conflict", "keep")
    assert (scene.data / "a.txt").read_text() == "human" and not (scene.data / "new").exists()


def test_more_than_the_limits_of_named_paths(scene: Scene) -> None:
    (scene.world.root / "takeback.toml").write_text("[outside]\nmax-files = 1\n")
    scene.world.save()
    done = scene.world.do("run", "--also", "../data", "--autopilot", "--", "sh", "-c", "rm -rf ../data/deep")
    assert "not captured" not in done.stderr
    scene.world.undo()
    assert (scene.data / "deep/b.txt").exists()


@pytest.mark.parametrize(
    "folder, words",
    [
        ("../nothing", "is not a folder"),
        ("../data/a.txt", "is not a folder"),
        ("src", "is inside the workspace"),
        (".", "is inside the workspace"),
        ("..", "contains the workspace"),
        ("../state", "Takeback keeps its own state there"),
        ("/proc", "is not an ordinary folder"),
        ("/", "is a home folder, or above one"),
    ],
)
def test_what_cannot_be_named(scene: Scene, folder: str, words: str) -> None:
    scene.world.human("src/a", "a")
    done = scene.world.run("run", "--also", folder, "--", "touch", "started")
    assert done.code == 125 and words in done.stderr, done
    assert not (scene.world.root / "started").exists()


def test_a_home_folder_is_named_only_with_a_flag(scene: Scene, tmp_path: Path) -> None:
    home = {"HOME": str(scene.data)}
    words = ("--also", "../data", "--", sys.executable, "-c", SLY)
    done = scene.world.run("run", *words, env=home)
    assert done.code == 125 and "is a home folder" in done.stderr and "--allow-home" in done.stderr
    before = scene.look()
    assert scene.world.run("run", "--allow-home", *words, env=home).code == 0
    scene.world.undo()
    assert scene.same(before)


def test_takebacks_own_state_in_it_is_left_alone(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    inside = Workspace(scene.world.root, scene.data / "state")
    inside.save()
    inside.do(*RUN)
    assert items(inside.undo()).keys() >= {f"{scene.data}/a.txt"}
    assert (scene.data / "a.txt").read_text() == "a\n"
    inside.do("verify", "--deep")


# Rights


def test_it_is_put_back_also_where_the_folder_around_it_is_closed(scene: Scene, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    scene.data.rename(closed / "data")
    closed.chmod(0o555)
    script = SLY.replace("os.path.join('..', 'atad'[::-1])", "'../closed/' + 'data'")
    bound(scene.world, "run", "--also", "../closed/data", "--", sys.executable, "-c", script)
    assert (closed / "data/a.txt").read_text() == "agent"
    bound(scene.world, "undo", "--json")
    assert (closed / "data/a.txt").read_text() == "a\n" and (closed / "data/deep/b.txt").exists()
    assert not (closed / "data/new").exists()
    closed.chmod(0o755)


def test_one_that_could_not_be_put_back_is_refused(scene: Scene) -> None:
    scene.data.chmod(0o555)
    done = bound(scene.world, "run", "--also", "../data", "--", "touch", "started", code=125)
    assert "is not writable" in done.stderr
    scene.data.chmod(0o333)
    assert "cannot be opened" in bound(scene.world, "run", "--also", "../data", "--", "true", code=125).stderr


# A kill


@pytest.mark.parametrize("what", ["the command", "the undo"])
def test_killed_it_is_settled_and_taken_back_as_a_whole(tmp_path: Path, what: str) -> None:
    dry = Scene(tmp_path / "dry")
    where = {"cwd": dry.world.root, "home": dry.world.home}
    if what == "the undo":
        assert finish(RUN, **where) == 0
    command = RUN if what == "the command" else ("undo",)
    passed = places_of(command, **where)
    assert "outside-marked" in passed
    for place in sorted(
        {
            passed.index(name) + 1
            for name in set(passed)
            if name.startswith(("outside-", "action-", "rollback-"))
        }
    ):
        scene = Scene(tmp_path / str(place))
        where = {"cwd": scene.world.root, "home": scene.world.home}
        before = scene.look()
        if what == "the undo":
            assert finish(RUN, **where) == 0
        assert killed_at(place, command, **where)
        scene.world.do("save")
        if not scene.same(before):
            scene.world.do("undo", "--on-conflict", "overwrite")
        assert scene.same(before), passed[place - 1]


# From Python


def fail(tb: takeback.Workspace, data: Path) -> None:
    with tb.run("one", roots=[data]) as run:
        with run.step("write"):
            (data / "new").write_text("new")
            (data / "a.txt").unlink()
        raise ZeroDivisionError


def test_a_run_names_them(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_HOME", str(scene.world.home))
    before = scene.look()
    with takeback.open(scene.world.root) as tb:
        with pytest.raises(ZeroDivisionError) as failed:
            fail(tb, scene.data)
        assert "Took back" in failed.value.__notes__[0]
        assert scene.same(before)
        with tb.run("two", roots=[str(scene.data)]) as run, run.step("write") as step:
            (scene.data / "new").write_text("new")
        assert tb.undo(step.id).verdict == "clean"
        assert scene.same(before)
        with pytest.raises(UsageError, match="is not a folder"):
            tb.run("three", roots=["nowhere"])
        with pytest.raises(RefusedError, match="home folder"):
            tb.run("four", roots=[Path.home()])
        with pytest.raises(UsageError, match="list of folders"):
            tb.run("five", roots="nowhere")


def test_a_run_that_was_killed_is_taken_back_there_too(scene: Scene) -> None:
    program = (
        "import os, signal, takeback\n"
        "with takeback.open('.') as tb, tb.run('half', roots=['../data']):\n"
        "    open('../data/a.txt', 'w').write('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    before = scene.look()
    env = {**os.environ, "TAKEBACK_HOME": str(scene.world.home)}
    assert (
        subprocess.run([sys.executable, "-c", program], cwd=scene.world.root, env=env).returncode
        == -signal.SIGKILL
    )
    scene.world.undo("--on-conflict", "overwrite")
    assert scene.same(before)
