"""Undo that destroys work: each failure that users of other tools reported, named after the report.

The numbers are those of the issues in the named repositories.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from .cli import Workspace, items
from .picture import differences, picture

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="not on this platform: git is not installed")


def git(world: Workspace, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=world.root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(world: Workspace) -> None:
    """The workspace becomes a repository with one commit."""
    world.human("app.py", "print('one')\n")
    world.human("lib.py", "x = 1\n")
    world.human(".gitignore", "*.db\n.env\ndata/\nbuild/\n")
    git(world, "init", "-q", "-b", "main")
    git(world, "add", ".")
    git(world, "commit", "-qm", "first")


def test_copilot_cli_1675_restore_never_cleans_what_the_agent_only_read(world: Workspace) -> None:
    world.human("app.py", "one")
    world.human("datasets/big.bin", bytes(2_000_000))
    world.human("untracked/notes.txt", "mine")
    before = world.look()
    world.agent("cat datasets/big.bin untracked/notes.txt > /dev/null; echo two > app.py")
    done = world.undo()
    assert world.changes_since(before) == []
    assert set(items(done)) == {"app.py"}


@needs_git
def test_cline_13550_human_commits_after_the_agent_stay_on_the_branch(world: Workspace) -> None:
    repository(world)
    world.agent("echo agent > lib.py; echo new > agent.txt")
    world.human("app.py", "print('two')\n")
    git(world, "commit", "-qm", "mine", "app.py")
    git(world, "branch", "idea")
    before = picture(bytes(world.root / ".git"))
    world.undo()
    assert differences(before, picture(bytes(world.root / ".git"))) == []
    assert git(world, "log", "--format=%s") == "mine\nfirst"
    assert world.read("app.py") == "print('two')\n"
    assert world.read("lib.py") == "x = 1\n"
    assert not world.has("agent.txt")


@needs_git
def test_codex_8214_undo_does_not_clobber_staging(world: Workspace) -> None:
    repository(world)
    world.human("app.py", "staged\n")
    git(world, "add", "app.py")
    world.human("app.py", "staged and more\n")
    world.agent("echo agent > lib.py")
    world.human("later.py", "mine too\n")
    git(world, "add", "later.py")
    staged = git(world, "diff", "--cached")
    before = picture(bytes(world.root / ".git"))
    world.undo()
    world.do("redo")
    world.undo()
    assert differences(before, picture(bytes(world.root / ".git"))) == []
    assert git(world, "diff", "--cached") == staged
    assert world.read("app.py") == "staged and more\n"


@needs_git
def test_saving_writes_nothing_into_the_users_repository(world: Workspace) -> None:
    """Shadow commits, refs, excludes, alternates: whatever others leave there."""
    repository(world)
    before = world.look()
    world.save("one")
    world.human("app.py", "two")
    os.utime(world.root / "app.py", ns=(0, before[b"app.py"].mtime_ns))
    world.human("app.py", "print('one')\n")
    os.utime(world.root / "app.py", ns=(0, before[b"app.py"].mtime_ns))
    world.save("two")
    world.do("status")
    world.do("verify")
    assert world.changes_since(before) == []


@needs_git
def test_cline_14367_a_reverted_gitignore_never_cleans_what_had_been_ignored(world: Workspace) -> None:
    repository(world)
    world.agent("echo '/cache/' >> .gitignore; echo two > app.py")
    world.human("cache/model.bin", "expensive")
    world.human("data/set.csv", "mine")
    world.undo()
    assert world.read("cache/model.bin") == "expensive"
    assert world.read("data/set.csv") == "mine"
    assert world.read(".gitignore") == "*.db\n.env\ndata/\nbuild/\n"


def test_claude_code_16023_manual_edits_are_not_discarded(world: Workspace) -> None:
    world.human("agents.py", "old\n")
    world.human("mine.py", "old\n")
    world.agent("echo new > agents.py")
    world.human("mine.py", "edited by hand\n")
    world.undo()
    assert world.read("agents.py") == "old\n"
    assert world.read("mine.py") == "edited by hand\n"


def test_claude_code_28078_64615_one_sessions_undo_keeps_anothers_work(world: Workspace) -> None:
    world.human("one.py", "old")
    world.human("two.py", "old")
    world.agent("echo first > one.py; echo x > made-by-first", name="first")
    world.agent("echo second > two.py; echo x > made-by-second", name="second")
    world.undo(world.action("first"))
    assert world.read("one.py") == "old"
    assert not world.has("made-by-first")
    assert world.read("two.py") == "second\n"
    assert world.has("made-by-second")


def test_kilocode_11060_a_file_that_another_session_changed_later_is_compared_first(world: Workspace) -> None:
    world.human("shared.py", "old")
    world.agent("echo first > shared.py", name="first")
    world.agent("echo second > shared.py", name="second")
    before = world.look()
    done = world.run("undo", world.action("first"))
    assert done.code == 3
    assert "shared.py" in done.said
    assert world.changes_since(before) == []


def test_opencode_10287_undo_goes_back_one_action_and_not_weeks(world: Workspace) -> None:
    world.human("app.py", "weeks old")
    world.save("weeks ago")
    world.human("app.py", "today")
    world.human("new.py", "today")
    before = world.look()
    world.agent("echo agent > app.py")
    world.undo()
    assert world.changes_since(before) == []


def test_opencode_32529_undo_of_a_turn_that_changed_nothing_is_a_no_op(world: Workspace) -> None:
    world.human("app.py", "one")
    world.agent("cat app.py > /dev/null")
    before = world.look()
    done = world.undo()
    assert done.json["verdict"] == "nothing"
    assert world.changes_since(before) == []


def test_a_turn_that_changed_nothing_is_passed_over(world: Workspace) -> None:
    world.human("app.py", "one")
    before = world.look()
    world.agent("echo two > app.py")
    world.agent("true")
    world.undo()
    assert world.changes_since(before) == []
    assert world.undo().json["verdict"] == "nothing"


def test_opencode_46783_3148_a_file_that_the_human_just_added_survives(world: Workspace) -> None:
    world.human("src/app.py", "one")
    world.agent("echo two > src/app.py; mkdir made; echo x > made/by-agent")
    world.human("src/mine.py", "mine")
    world.human("made/mine-in-the-agents-folder", "mine")
    world.undo()
    assert world.read("src/app.py") == "one"
    assert world.read("src/mine.py") == "mine"
    assert world.read("made/mine-in-the-agents-folder") == "mine"
    assert not world.has("made/by-agent")


def test_opencode_replay_after_mv_a_b_the_file_is_back_at_a(world: Workspace) -> None:
    world.human("a", "content")
    world.human("folder/deep/x", "content of x")
    before = world.look()
    world.agent("mv a b; mv folder moved")
    world.undo()
    assert world.changes_since(before) == []


def test_kilocode_1670_2067_9741_a_week_of_own_edits_is_kept(world: Workspace) -> None:
    world.human("agents.py", "old")
    world.agent("echo new > agents.py")
    for day in range(7):
        world.human(f"day-{day}.py", f"work of day {day}")
        world.save(f"day {day}")
    mine = world.look()
    world.undo()
    assert [line for line in world.changes_since(mine) if "agents.py" not in line and "'.'" not in line] == []
    assert world.read("agents.py") == "old"


def test_zed_28676_a_restore_can_be_undone(world: Workspace) -> None:
    world.human("app.py", "one")
    checkpoint = world.save("one")
    world.human("app.py", "two, by hand")
    world.human("new.py", "by hand")
    present = world.look()
    world.do("restore", checkpoint)
    assert world.read("app.py") == "one"
    assert not world.has("new.py")
    world.do("redo")
    assert world.changes_since(present) == []


def test_zed_28676_an_undo_can_be_undone_step_by_step(world: Workspace) -> None:
    world.human("app.py", "zero\n")
    pictures = [world.look()]
    for word in ("one", "two", "three"):
        world.agent(f"echo {word} > app.py; touch {word}")
        pictures.append(world.look())
    for before in reversed(pictures[:-1]):
        world.undo()
        assert world.changes_since(before) == []
    for after in pictures[1:]:
        world.do("redo")
        assert world.changes_since(after) == []


def test_zed_59099_times_are_right_and_untouched_files_are_not_touched(world: Workspace) -> None:
    for number in range(20):
        world.human(f"src/{number}.py", str(number))
        os.utime(world.root / f"src/{number}.py", ns=(0, 1_500_000_000_123_456_700 + number))
    before = world.look()
    stats = {path.name: path.stat() for path in (world.root / "src").iterdir()}
    world.agent("echo x > src/3.py; rm src/4.py; touch src/5.py")
    world.undo()
    assert world.changes_since(before) == []
    for name, was in stats.items():
        now = (world.root / "src" / name).stat()
        if name not in ("3.py", "4.py", "5.py"):
            assert (now.st_ino, now.st_ctime_ns) == (was.st_ino, was.st_ctime_ns), name


def test_a_directory_turned_file_and_a_file_turned_symlink_come_back(world: Workspace) -> None:
    world.human("folder/inside", "content")
    world.human("file", "content")
    before = world.look()
    world.agent("rm -r folder; echo x > folder; rm file; ln -s /etc/passwd file")
    world.undo()
    assert world.changes_since(before) == []
    world.do("redo")
    assert os.readlink(world.root / "file") == "/etc/passwd"


def test_undo_of_one_path_leaves_the_rest(world: Workspace) -> None:
    world.human("a", "old a")
    world.human("b", "old b")
    world.agent("echo new > a; echo new > b")
    world.undo("--path", "a")
    assert (world.read("a"), world.read("b")) == ("old a", "new\n")
    world.undo()
    assert (world.read("a"), world.read("b")) == ("old a", "old b")


def test_undo_to_a_checkpoint_takes_back_every_action_and_no_edit(world: Workspace) -> None:
    world.human("a", "old")
    checkpoint = world.save("here")
    world.agent("echo 1 > a; echo 1 > made1")
    world.human("mine", "mine")
    world.agent("echo 2 > a; echo 2 > made2")
    world.undo("--to", checkpoint)
    assert world.read("a") == "old"
    assert world.read("mine") == "mine"
    assert not world.has("made1") and not world.has("made2")
