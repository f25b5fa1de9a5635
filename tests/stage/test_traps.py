"""What is known to go wrong with overlays, each once: in the kernel's layers, around processes, with SQLite."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

import takeback
from takeback.engine.stage.deleting import delete
from takeback.errors import RefusedError, RunBusy
from takeback.system import namespaces
from takeback.workspace.workspace import Workspace
from tests.sampling import ALL
from tests.stage.mounting import with_own_mounts
from tests.world.cli import Workspace as World

WAYS = {"": "overlay", "user": "user", "off": "copy"} if ALL else {"": "overlay"}
"""As root may, as an ordinary user may, and without namespaces; test_views.py always tries all three."""
LAYERED = [way for way in WAYS if way != "off"]


@pytest.fixture(params=WAYS, ids=WAYS.get)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", request.param)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src" / "deep").mkdir(parents=True)
    for name in ("a", "b", "src/c", "src/deep/d", "src/deep/e"):
        (root / name).write_text(f"old {name}\n")
    return root


def names(tb: Workspace, stage: str = "t1") -> set[str]:
    """Return the targets that differ in a view, without mere times."""
    found = tb.stages[stage].changes()
    return {str(change.target) for change in found if change.before != change.after}


def sh(tb: Workspace, script: str, stage: str = "t1") -> int:
    return tb.stages[stage].run(["sh", "-c", script]).code


def test_the_folder_below_changes_while_the_view_is_open(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert sh(tb, "echo view >> a") == 0
        (root / "new-of-mine").write_text("mine\n")
        (root / "src" / "c").write_text("mine too\n")
        os.rename(root / "b", root / "b2")
        assert sh(tb, "echo view > made; echo view > src/made") == 0
        assert names(tb) >= {"a", "made", "src/made"}
        assert {str(change.target) for change in stage.moved()} == {"new-of-mine", "src/c", "b", "b2"}
        stage.accept().require_complete()
        assert (root / "src" / "c").read_text() == "mine too\n"
        assert (root / "new-of-mine").read_text() == "mine\n"
        assert (root / "b2").read_text() == "old b\n" and not (root / "b").exists()
        assert (root / "a").read_text() == "old a\nview\n"


def test_a_folder_that_was_deleted_and_made_again_hides_what_was_in_it(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        tb.stages.new()
        assert sh(tb, "rm -r src; mkdir src; echo new > src/c; rm a; echo again > a") == 0
        assert names(tb) == {"src/c", "src/deep", "src/deep/d", "src/deep/e", "a"}
        tb.stages["t1"].accept().require_complete()
    assert sorted(os.listdir(root / "src")) == ["c"]
    assert (root / "src" / "c").read_text() == "new\n"


def test_what_was_made_and_deleted_again_leaves_nothing(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        tb.stages.new()
        assert sh(tb, "mkdir x; echo 1 > x/y; echo 1 > src/z") == 0
        assert names(tb) == {"x", "x/y", "src/z"}
        assert sh(tb, "rm -r x src/z") == 0
        assert names(tb) == set()


def test_a_renamed_folder(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        tb.stages.new()
        assert sh(tb, "mv src source; echo more >> source/deep/d") == 0
        tb.stages["t1"].accept().require_complete()
    assert not (root / "src").exists()
    assert (root / "source" / "deep" / "d").read_text() == "old src/deep/d\nmore\n"
    assert (root / "source" / "deep" / "e").read_text() == "old src/deep/e\n"


def test_hard_links_stay_joined_where_the_kernel_can(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.link(root / "a", root / "src" / "joined")
    with takeback.open(root) as tb:
        tb.stages.new()
        assert sh(tb, "echo more >> a") == 0
        assert names(tb) == {"a", "src/joined"}
        found = {str(change.target): change.after.stamp for change in tb.stages["t1"].changes()}
        assert found["a"] == found["src/joined"], "one file with two names"
        tb.stages["t1"].accept().require_complete()
    assert (root / "src" / "joined").read_text() == "old a\nmore\n"
    assert os.path.samefile(root / "a", root / "src" / "joined")


def test_attributes(root: Path, way: str) -> None:
    os.setxattr(root / "a", "user.kept", b"1")
    with takeback.open(root) as tb:
        tb.stages.new()
        script = "import os; os.setxattr('a', 'user.made', b'2'); os.setxattr('b', 'user.only', b'3')"
        assert tb.stages["t1"].run(["python3", "-c", script]).code == 0
        tb.stages["t1"].accept().require_complete()
    assert {name: os.getxattr(root / "a", name) for name in os.listxattr(root / "a")} == {
        "user.kept": b"1",
        "user.made": b"2",
    }
    assert os.listxattr(root / "b") == ["user.only"], "the kernel's own attributes stay in the view"


@pytest.mark.parametrize("how", LAYERED)
def test_a_process_that_outlives_its_command_holds_the_view(
    root: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", how)
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert sh(tb, "setsid sleep 300 >/dev/null 2>&1 & echo $! > pid") == 0
        (pid,) = stage.living()
        with pytest.raises(RunBusy, match="still running in the view t1"):
            stage.accept()
        with pytest.raises(RunBusy, match="was not dropped"):
            stage.drop()
        assert sh(tb, "echo joined > joined; cat pid") == 0, "who comes later joins"
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while stage.living() and time.monotonic() < deadline:
            time.sleep(0.01)
        stage.accept().require_complete()
    assert (root / "joined").read_text() == "joined\n"


def test_a_database_in_wal_mode(root: Path, way: str) -> None:
    def open_it(path: Path) -> sqlite3.Connection:
        opened = sqlite3.connect(path)
        opened.execute("PRAGMA journal_mode = WAL")
        return opened

    with open_it(root / "app.db") as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("INSERT INTO people VALUES (1, 'ann')")
    db.close()
    script = (
        "import sqlite3; db = sqlite3.connect('app.db'); db.execute(\"INSERT INTO people VALUES (2, 'bob')\");"
        "db.commit(); db.close()"
    )
    with takeback.open(root) as tb:
        tb.stages.new()
        assert tb.stages["t1"].run(["python3", "-c", script]).code == 0
        with open_it(root / "app.db") as mine:
            mine.execute("INSERT INTO people VALUES (3, 'cyd')")
        mine.close()
        tb.stages["t1"].accept().require_complete()
    with sqlite3.connect(root / "app.db") as db:
        assert db.execute("SELECT name FROM people ORDER BY id").fetchall() == [("ann",), ("bob",), ("cyd",)]
    db.close()


def test_the_content_that_a_view_began_with_is_cleaned_up_outside(root: Path, way: str) -> None:
    (root / "takeback.toml").write_text("[store]\nkeep-checkpoints = 1\nkeep-days = 1\n")
    with takeback.open(root, accept_config=True) as tb:
        stage = tb.stages.new()
        assert sh(tb, "echo view >> a") == 0
        (root / "b").write_text("changed\n")
        tb.save("later")
        tb.gc()
        assert names(tb) == {"a"}
        assert "+view" in stage.diff().text
        stage.accept().require_complete()
    assert (root / "a").read_text() == "old a\nview\n"


def test_every_deletion_is_named(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    for number in range(80):
        world.human(f"f{number}", "x")
        world.human(f"kept/g{number}", "x")
    done = world.run("try", "--", "sh", "-c", "rm f*; for i in $(seq 80); do echo $i > n$i; done")
    assert done.code == 0
    shown = world.do("stage", "diff", "t1")
    for said in (done.stderr, shown.stderr):
        _, _, listed = said.partition("  delete ")
        deleted = listed.partition("  create ")[0].replace(",", " ").split()
        assert {f"f{number}" for number in range(80)} <= set(deleted)


def test_what_a_view_would_change_is_named_and_what_is_generated_is_one_line(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    world.human("app.py", "x")
    world.human(".env", "KEY=1")
    for number in range(60):
        world.human(f"node_modules/p{number}/index.js", "x")
    done = world.run("try", "--", "sh", "-c", "rm -r node_modules .env; echo 1 > new.py; echo 2 > app.py")
    assert done.code == 0
    said = [" ".join(line.split()) for line in done.stderr.splitlines()]
    for line in (
        "delete .env",
        "change app.py",
        "create new.py",
        "delete node_modules: 60 files in 60 folders",
    ):
        assert line in said, said
    assert len(said) < 15, said


def test_nothing_outside_changes_and_all_of_it_is_said(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    world.human("a", "x")
    home, outside = tmp_path / "user", tmp_path / "elsewhere"
    for folder in (home, outside):
        folder.mkdir()
        (folder / "there").write_text("x")
    script = (
        f"echo 1 > {home}/made; rm {home}/there; echo 1 > {outside}/made; touch /usr/takeback-test || echo no"
    )
    done = world.run("try", "--json", "--", "sh", "-c", script, env={"HOME": str(home)})
    assert done.stderr.count("no\n") == 1
    assert not Path("/usr/takeback-test").exists()
    assert sorted(os.listdir(home)) == ["there"] and sorted(os.listdir(outside)) == ["there"]
    assert set(done.json["outside"]) == {f"{home}/made", f"{home}/there (deleted)", f"{outside}/made"}


@pytest.mark.parametrize("where", ["work/state", "user/state", "state"])
def test_the_state_is_not_part_of_the_view_wherever_it_lies(tmp_path: Path, where: str) -> None:
    root, home = tmp_path / "work", tmp_path / "user"
    for folder in (root, home):
        folder.mkdir()
    (root / "a").write_text("x\n")
    world = World(root, tmp_path / where)
    env = {"HOME": str(home)}
    done = world.run("try", "--json", "--", "sh", "-c", "echo more >> a", env=env)
    assert done.code == 0 and not done.json["outside"], done
    inner = world.run("stage", "run", "t1", "--", "sh", "-c", "python3 -m takeback log --json", env=env)
    assert "echo more" in inner.stdout, "what happens inside is recorded"
    assert world.run("stage", "accept", "t1", env=env).code == 0
    assert world.read("a") == "x\nmore\n"


def test_a_view_inside_a_view(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    with takeback.open(root) as tb:
        outer = tb.stages.new("outer")

        def work(view: Workspace) -> bool:
            inner = view.stages.new("inner")
            assert inner.run(["sh", "-c", "echo 1 > one; rm a"]).code == 0
            assert os.path.exists("a")
            inner.accept().require_complete()
            return not os.path.exists("a") and os.path.exists("one")

        assert outer.inside(work, bool)
        assert (root / "a").exists()
        assert names(tb, "outer") == {"one", "a"}
        outer.accept().require_complete()
    assert not (root / "a").exists() and (root / "one").exists()


def test_several_views_of_one_folder(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        for name, script in (("x", "echo 1 > a; echo 1 > n"), ("y", "echo 2 > a; echo 1 > n"), ("z", "rm b")):
            tb.stages.new(name)
            assert sh(tb, script, name) == 0
        found = tb.stages.compare("x", "y")
        assert [str(target) for target in found.same] == [".", "n"] or [str(t) for t in found.same] == ["n"]
        assert "a" in map(str, found.differ)
        assert "b" in map(str, tb.stages.compare("x", "z").only_second)
        tb.stages["y"].accept().require_complete()
        tb.stages["z"].accept().require_complete()
        tb.stages["x"].drop()
    assert ((root / "a").read_text(), (root / "b").exists()) == ("2\n", False)


def test_a_view_of_an_earlier_moment(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        then = tb.save("then")
        (root / "a").write_text("later\n")
        (root / "later").write_text("later\n")
        (root / "b").unlink()
        stage = tb.stages.new("old", at=then.id, way=tb.stages.way_to(then.id))
        script = "cat a b; ls; echo more >> src/c"
        assert stage.run(["sh", "-c", f"{script}; test -f b && ! test -f later && grep -q old a"]).code == 0
        assert names(tb, "old") == {"src/c"}
        assert (root / "a").read_text() == "later\n"
        stage.accept().require_complete()
        assert (root / "a").read_text() == "later\n", "what the moment differs in is not a change of the view"
        assert (root / "src" / "c").read_text() == "old src/c\nmore\n"


def test_only_some_paths_are_accepted(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert sh(tb, "echo 1 > a; echo 1 > b; echo 1 > src/c") == 0
        stage.accept(paths=[str(root / "src"), str(root / "a")]).require_complete()
        assert (root / "b").read_text() == "old b\n"
        assert (root / "src" / "c").read_text() == (root / "a").read_text() == "1\n"
        assert tb.stages.names() == ["t1"]
        stage.accept().require_complete()
        assert (root / "b").read_text() == "1\n" and tb.stages.names() == []


def test_the_folders_of_views_are_private_and_are_removed_whole(root: Path, way: str) -> None:
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        sh(tb, "mkdir shut; echo x > shut/x; chmod 000 shut; echo x > a")
        modes = {path: path.stat().st_mode & 0o777 for path in (stage.folder.path, stage.folder.home)}
        assert set(modes.values()) == {0o700}
        if way == "user":
            assert any(path.stat().st_mode & 0o777 == 0 for path in stage.folder.home.rglob("work"))
        assert tb.upkeep.sizes().stages > 0
        stage.drop()
        assert os.listdir(tb.state / "stages") == []


def test_a_folder_that_is_closed_to_its_owner_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "x" / "work" / "work").mkdir(parents=True)
    (tmp_path / "x" / "work" / "work").chmod(0)
    child = os.fork()
    if not child:
        code = 1
        try:
            namespaces.give_up_capabilities()  # root without them is an ordinary owner
            with pytest.raises(PermissionError):
                os.listdir(tmp_path / "x" / "work" / "work")
            delete(tmp_path / "x")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not (tmp_path / "x").exists()


def test_an_unused_view_is_dropped_a_day_after_a_notice(root: Path) -> None:
    day_us = 86_400_000_000
    with takeback.open(root) as tb:
        made_us = tb.stages.new().card.made_us
        assert tb.stages.expire(14, made_us + 13 * day_us) == []
        (said,) = tb.stages.expire(14, made_us + 14 * day_us)
        assert "dropped tomorrow" in said
        assert tb.stages.expire(14, made_us + 14 * day_us + 1) == []
        (said,) = tb.stages.expire(14, made_us + 15 * day_us)
        assert said.startswith("dropped the view t1") and tb.stages.names() == []


def test_forget_knows_views(root: Path) -> None:
    with takeback.open(root) as tb:
        tb.save()
        tb.stages.new()
        with pytest.raises(RefusedError, match="the views t1 have the same content"):
            tb.forget(str(root / "a"))
        tb.stages["t1"].drop()
        assert tb.forget(str(root / "a")).done


def test_status_names_views_and_du_counts_them(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    world.human("a", "x")
    world.do("try", "--name", "mine", "--keep", "--", "sh", "-c", "echo 1 > a")
    assert "The view mine waits" in world.do("status").stdout
    assert world.do("status", "--json").json["stages"] == ["mine"]
    assert world.do("du", "--json").json["stages_bytes"] > 0
    world.do("forget", "--workspace", "--yes")
    assert not list((world.home / "workspaces").iterdir())


def test_the_network(root: Path) -> None:
    script = (
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
        "socket.create_connection(s.getsockname())"
    )
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert stage.run(["python3", "-c", script], network="loopback").code == 0
        assert stage.run(["python3", "-c", script], network="none").code == 1
        assert stage.run(["python3", "-c", script], network="full").code == 0


@with_own_mounts
def test_a_full_disk_in_a_view_is_not_one_outside(root: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], capture_output=True)
    if done.returncode:
        pytest.skip(f"not on this platform: {done.stderr.decode()}")
    try:
        with takeback.open(root, home=small / "state") as tb:
            stage = tb.stages.new()
            assert sh(tb, "head -c 20000000 /dev/zero > big; echo more >> a; true") == 0
            assert (root / "a").read_text() == "old a\n" and not (root / "big").exists()
            stage.drop()
            assert tb.stages.new().run(["sh", "-c", "echo fits > a"]).code == 0
            tb.stages["t1"].accept().require_complete()
        assert (root / "a").read_text() == "fits\n"
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
