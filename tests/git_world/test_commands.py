"""Every command that takes back knows of the repository: restore, redo, --path, --undo-on-failure, and the words."""

from __future__ import annotations

from pathlib import Path

from .picture import differences
from .repo import dirty, project
from .scene import USUAL, Scene, report


def scene_of(folder: Path) -> Scene:
    repo = project(folder / "work")
    dirty(repo)
    return Scene.of(repo, folder / "state")


def test_a_run_that_fails_takes_its_commits_back(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    before = scene.look()
    done = scene.world.run("run", "--undo-on-failure", "--", "sh", "-c", f"{USUAL}\nexit 7")
    assert done.code == 7, done
    scene.is_at(before)


def test_one_path_leaves_the_repository_alone(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    scene.agent("echo x > app; git add -A .; git commit -qm agent; git tag agents")
    after = scene.look()
    scene.undo("--path", "app")
    found = differences(after, scene.look(), but=("status",))
    assert found
    assert all(line.startswith("file ") for line in found), found


def test_a_conflict_in_a_file_leaves_the_repository_alone(tmp_path: Path) -> None:
    """The plan is one: where it stops, no branch has moved."""
    scene = scene_of(tmp_path)
    scene.agent("echo x > app; git add -A .; git commit -qm agent; git branch -D easy")
    scene.repo.write("app", "edited by the human\n")
    after = scene.look()
    said = report(scene.undo(code=3))
    assert "app" in str(said)
    scene.is_at(after)


def test_what_would_be_done_is_said_and_not_done(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    scene.agent("git commit -qam agent; git commit -qm more --allow-empty; git branch -D easy")
    after = scene.look()
    said = scene.world.do("undo", "--preview").said
    assert "branch main" in said
    assert "2 commits" in said
    assert "easy" in said
    scene.is_at(after)


def test_the_words_of_a_record(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    scene.agent("git commit -qam agent; git tag agents; git stash drop -q")
    action = scene.world.action("sh")
    for command in (["show", action], ["diff", action]):
        said = scene.world.do(*command).said
        assert "main" in said, command
        assert "agents" in said, command
        assert "stash" in said, command
    assert scene.world.do("status").code == 0


def test_two_actions_are_taken_back_apart(tmp_path: Path) -> None:
    """The first of two goes alone where the second did not build on it; else it is a conflict."""
    scene = scene_of(tmp_path)
    repo = scene.repo
    scene.agent("git branch -D easy")
    first = scene.world.action("sh")
    scene.agent("git tag agents; git commit -qam agent")
    main = repo.git("rev-parse", "main")
    scene.undo(first)
    assert repo.git("branch", "--list", "easy") != ""
    assert (repo.git("rev-parse", "main"), repo.git("tag", "--list", "agents")) == (main, "agents")
    assert repo.look().of("fsck") == {"main": b""}


def test_a_commit_under_another_is_not_taken_back_alone(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    scene.agent("git commit -qam first")
    first = scene.world.action("sh")
    scene.agent("echo x > x; git add x; git commit -qm second")
    after = scene.look()
    assert scene.world.run("undo", first).code == 3
    scene.is_at(after)
