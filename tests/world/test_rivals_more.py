"""Not captured, too large, not honest: the rest of what users of other tools reported, named after it."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import takeback

from . import torture
from .cli import Workspace, disk_bytes, environment, items
from .picture import differences, picture
from .test_rivals import git, needs_git, repository

# Not captured


def test_claude_code_94657_a_turn_of_shell_commands_only_is_captured(world: Workspace) -> None:
    world.human("a.py", "a")
    world.human("b.py", "b")
    world.human("c/d.py", "d")
    before = world.look()
    world.agent("sed -i.bak s/a/z/ a.py; cp a.py copied; rm b.py; mv c e; chmod 600 e/d.py; ln -s a.py link")
    world.undo()
    assert world.changes_since(before) == []


def test_claude_code_34368_deletions_come_back(world: Workspace) -> None:
    for number in range(50):
        world.human(f"src/{number % 5}/{number}.py", f"# {number}")
    before = world.look()
    world.agent("rm -rf src")
    world.undo()
    assert world.changes_since(before) == []


@needs_git
@pytest.mark.parametrize("clean", ["-fdX", "-fdx", "-ffdx"])
def test_codex_37998_42355_what_git_clean_wiped_comes_back(world: Workspace, clean: str) -> None:
    repository(world)
    world.human(".env", "KEY=secret\n")
    os.chmod(world.root / ".env", 0o600)
    world.human("data/keys/id", "key")
    world.human("notes.txt", "untracked")
    (world.root / "build/empty").mkdir(parents=True)
    with sqlite3.connect(world.root / "app.db") as db:
        db.execute("create table t (x)")
        db.execute("insert into t values (42)")
    db.close()
    before = world.look(git=False)
    world.agent(f"git clean -q {clean}")
    assert not world.has(".env") and not world.has("app.db")
    world.undo()
    assert world.changes_since(before, git=False) == []
    db = sqlite3.connect(world.root / "app.db")
    assert db.execute("select x from t").fetchall() == [(42,)]
    db.close()


def test_claude_code_56255_a_dropped_table_of_a_database_file_comes_back(world: Workspace) -> None:
    db = sqlite3.connect(world.root / "app.db")
    db.executescript("create table t (x); insert into t values (1), (2);")
    db.close()
    before = world.look()
    world.agent(f"{sys.executable} -c \"import sqlite3; sqlite3.connect('app.db').execute('drop table t')\"")
    world.undo()
    # SQLite itself put it back, and counts in the header how often it has written.
    assert [found for found in world.changes_since(before) if not found.startswith("'app.db': content")] == []
    db = sqlite3.connect(world.root / "app.db")
    assert db.execute("select x from t").fetchall() == [(1,), (2,)]
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    db.close()


def test_codex_19205_zed_61951_opencode_38672_it_works_without_git(world: Workspace, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "rm", "mv", "cat"):
        os.symlink(shutil.which(tool) or "", tools / tool)
    env = {"PATH": str(tools)}
    world.human("app.py", "one")
    world.human("folder/x", "x")
    before = world.look()
    script = "command -v git && exit 9; echo two > app.py; rm folder/x; mv folder gone"
    assert world.run("run", "--", "sh", "-c", script, env=env).code == 0
    assert world.changes_since(before)
    assert world.run("undo", env=env).code == 0
    assert world.changes_since(before) == []


def test_codex_19205_doing_nothing_is_not_called_success(world: Workspace) -> None:
    world.human("app.py", "one")
    world.save()
    done = world.undo()
    assert done.json["verdict"] == "nothing"
    assert done.json["items"] == []


# Nested repositories


@needs_git
def test_cline_5598_1313_2868_9590_a_nested_git_is_never_renamed_and_comes_back(world: Workspace) -> None:
    repository(world)
    for name in ("vendor/a", "vendor/b"):
        world.human(f"{name}/code.py", "x = 1\n")
        git(world, "-C", name, "init", "-q")
        git(world, "-C", name, "add", ".")
        git(world, "-C", name, "commit", "-qm", "nested")
    before = world.look(git=False)
    seen: set[str] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.update(os.listdir(world.root / "vendor/a"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        world.save()
    finally:
        stop.set()
        watcher.join()
    assert seen == {".git", "code.py"}
    assert world.changes_since(before, git=False) == []
    world.agent("rm -rf vendor/a/.git; git -C vendor/b commit -q --allow-empty -m agent; rm vendor/b/code.py")
    world.undo()
    assert world.changes_since(before, git=False) == []
    assert git(world, "-C", "vendor/b", "log", "--format=%s") == "nested"


@needs_git
def test_roo_8164_8433_10636_a_nested_repository_does_not_switch_it_off(world: Workspace) -> None:
    repository(world)
    world.human("sub/code.py", "x")
    git(world, "-C", "sub", "init", "-q")
    before = world.look(git=False)
    world.agent("echo two > app.py; echo agent > sub/code.py; echo x > sub/new.py")
    world.undo()
    assert world.changes_since(before, git=False) == []


# Disk and speed


def test_opencode_15416_many_checkpoints_of_one_line_stay_small(world: Workspace) -> None:
    """The pace is that of the goal: 1,000 checkpoints in less than 20 MB."""
    for number in range(1000):
        world.human(f"src/{number % 37}/{number}.py", f"# {number}\n" * 40)
    with takeback.open(world.root, home=world.home) as tb:
        tb.save("first")
    before = disk_bytes(world.home)
    with takeback.open(world.root, home=world.home) as tb:
        for number in range(100):
            world.human("src/3/3.py", f"# {number}\n" * 40)
            tb.save(str(number))
    assert disk_bytes(world.home) - before < 100 * 20_000


def test_opencode_17397_gc_never_needs_twice_the_space(world: Workspace) -> None:
    world.configure("[store]\nkeep-checkpoints = 2\n")
    for version in range(6):
        world.human("large.bin", torture.noise(3_000_000, seed=version))
        world.save(str(version))
    world.agent("rm large.bin")
    before = peak = disk_bytes(world.home)
    command = [sys.executable, "-m", "takeback", "gc"]
    with subprocess.Popen(
        command, cwd=world.root, env=environment(world.home), stdout=subprocess.DEVNULL
    ) as gc:
        while gc.poll() is None:
            try:
                peak = max(peak, disk_bytes(world.home))
            except FileNotFoundError:  # a file went away while we were looking
                continue
    assert gc.returncode == 0
    assert peak < before * 1.5
    assert disk_bytes(world.home) < before
    world.undo()
    assert (world.root / "large.bin").read_bytes() == torture.noise(3_000_000, seed=5)


@pytest.mark.parametrize("where", ["home", "above"])
def test_codex_19588_a_home_folder_is_refused(world: Workspace, where: str) -> None:
    world.human("you/.bashrc", "x")
    home = world.root if where == "home" else world.root / "you"
    done = world.run("save", env={"HOME": str(home)})
    assert done.code in (2, 3), done
    assert str(world.root) in done.said or "home" in done.said.lower()


def test_hermes_83036_damage_in_the_store_is_named_and_never_reaches_the_tree(world: Workspace) -> None:
    data = torture.noise(1_000_000)
    world.human("photo", data)
    world.agent("rm photo")
    pack = max(
        (path for path in world.home.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    damaged = bytearray(pack.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    pack.write_bytes(damaged)
    world.do("verify", "--deep", code=5)
    done = world.run("undo")
    assert done.code in (5, 6)
    assert not world.has("photo") or (world.root / "photo").read_bytes() == data
    world.agent("echo the agent can still work > note")


# Concurrency and honesty


def test_kilocode_11060_two_sessions_at_once_are_not_told_apart_by_guessing(
    world: Workspace, tmp_path: Path
) -> None:
    """The second works while the first is still busy: what it made may not be removed with the first's."""
    go = tmp_path / "go"
    os.mkfifo(go)
    command = [sys.executable, "-m", "takeback", "run", "--name", "slow", "--", "sh", "-c"]
    world.human("app.py", "one")
    world.save()
    with subprocess.Popen(
        [*command, f"echo x > by-slow; echo ready > {go}; read line < {go}"],
        cwd=world.root,
        env=environment(world.home),
        stdout=subprocess.DEVNULL,
    ) as slow:
        assert go.read_text() == "ready\n"
        world.agent("echo y > by-quick; echo two > app.py", name="quick")
        go.write_text("go on\n")
    assert slow.returncode == 0
    done = world.run("undo", world.action("slow"))
    assert done.code in (0, 3)
    assert world.read("by-quick") == "y\n"
    assert world.read("app.py") == "two\n"


@contextmanager
def immutable(path: Path) -> Iterator[None]:
    """A file that even root cannot write, rename or delete."""
    get, put, flag = 0x80086601, 0x40086602, 0x10
    fd = os.open(path, os.O_RDONLY)
    try:
        before = struct.unpack("l", fcntl.ioctl(fd, get, struct.pack("l", 0)))[0]
        fcntl.ioctl(fd, put, struct.pack("l", before | flag))
    except OSError as error:
        os.close(fd)
        pytest.skip(f"not on this platform: no immutable files ({error.strerror})")
    try:
        yield
    finally:
        fcntl.ioctl(fd, put, struct.pack("l", before))
        os.close(fd)


def test_claude_code_14002_a_partial_restore_is_not_reported_as_whole(world: Workspace) -> None:
    for name in ("a", "locked", "z"):
        world.human(name, "old")
    before = world.look()
    world.agent("for f in a locked z; do echo new > $f; done; echo x > made")
    with immutable(world.root / "locked"):
        done = world.run("undo", "--json")
        assert done.code == 6
        report = done.json
        assert report["verdict"] == "partial"
        assert items(done)["locked"] == "failed"
    assert (world.read("a"), world.read("locked"), world.read("z")) == ("old", "new\n", "old")
    world.undo()
    assert world.changes_since(before) == []


def test_a_command_that_fails_is_taken_back_on_demand_and_keeps_its_exit_code(world: Workspace) -> None:
    world.human("app.py", "one")
    before = world.look()
    done = world.run("run", "--undo-on-failure", "--", "sh", "-c", "rm app.py; exit 7")
    assert done.code == 7
    assert world.changes_since(before) == []
    assert world.run("run", "--", "sh", "-c", "kill -9 $$").code == 128 + 9


def test_nothing_outside_the_workspace_is_touched(world: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    world.human("folder/x", "x")
    before, around = world.look(), picture(bytes(outside))
    world.agent(f"rm -r folder; ln -s {outside} folder; ln -s {outside}/precious link")
    world.undo()
    assert world.changes_since(before) == []
    assert differences(around, picture(bytes(outside))) == []
