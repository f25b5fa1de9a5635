"""Where a repository lies, whether there is one, and what becomes of one that an agent makes or throws away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .picture import differences, take, unsound
from .repo import Repo, dirty, lines, project, with_stashes
from .scene import USUAL, Scene, sample, taken_back

# Where the repository lies, and whether there is one


def test_a_repository_that_lies_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    repo = project(tmp_path / "work", f"--separate-git-dir={tmp_path / 'elsewhere'}")
    assert (repo.root / ".git").is_file()
    dirty(repo)
    taken_back(Scene.of(repo, tmp_path / "state"), USUAL)


def test_a_link_to_a_repository(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    (repo.root / ".git").rename(tmp_path / "elsewhere")
    (repo.root / ".git").symlink_to("../elsewhere")
    dirty(repo)
    taken_back(Scene.of(repo, tmp_path / "state"), USUAL)


def test_a_branch_that_is_not_born_yet(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "work")
    repo.root.mkdir()
    repo.git("init", "-q", "-b", "main")
    repo.write("mine", "x\n")
    repo.write("staged", "x\n")
    repo.git("add", "staged")
    scene = Scene.of(repo, tmp_path / "state")
    taken_back(scene, "git add -A .; git commit -qm first; git branch b; git checkout -q --orphan other")


def test_nothing_staged_and_nothing_born(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "work")
    repo.root.mkdir()
    repo.git("init", "-q", "-b", "main")
    scene = Scene.of(repo, tmp_path / "state")
    taken_back(scene, "echo x > x; git add -A .; git commit -qm first; git tag t; git gc -q --prune=now")
    assert not (repo.root / ".git/index").exists()


def test_a_repository_made_by_the_agent_goes(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "work")
    repo.write("mine", "x\n")
    before = repo.look()
    scene = Scene.of(repo, tmp_path / "state")
    scene.agent("git init -q; git add -A .; git commit -qm first; git stash list")
    after = scene.look()
    assert scene.quick("undo") == 0
    assert (repo.root / "mine").read_text() == "x\n"
    assert not take(repo.root).of("ref")
    assert differences(before, scene.look(), but=("file",)) == []
    assert scene.quick("redo") == 0
    scene.is_at(after)


def _remove(root: Path) -> str:
    return "rm -rf .git"


def _move_away(root: Path) -> str:
    return "mv .git was-git"


def _init_again(root: Path) -> str:
    return "rm -rf .git; git init -q -b other; git add -A .; git commit -qm fresh"


def _damage(root: Path) -> str:
    return (
        "rm -rf .git/refs .git/objects/pack .git/HEAD .git/index; echo junk > .git/config; rm -rf .git/logs"
    )


def _rewrite(root: Path) -> str:
    return "git checkout -q -f main; git commit -q --amend --reset-author -m x; git replace HEAD HEAD~1"


HOW = {how.__name__[1:]: how for how in (_remove, _move_away, _init_again, _damage, _rewrite)}


@pytest.mark.parametrize("how", sample(list(HOW), "init_again", "damage"))
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_a_repository_thrown_away_comes_back(how: str, packed: bool, tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    dirty(repo)
    if packed:
        repo.git("gc", "-q")
    taken_back(Scene.of(repo, tmp_path / "state"), HOW[how](repo.root))


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_objects_thrown_away_under_refs_that_stay_come_back(packed: bool, tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    dirty(repo)
    if packed:
        repo.git("gc", "-q")
    scene = Scene.of(repo, tmp_path / "state")
    before = scene.look()
    scene.agent("rm -rf .git/objects/pack .git/objects/[0-9a]*")
    assert unsound(scene.look())
    assert scene.quick("undo") == 0
    scene.is_at(before)


def test_the_empty_tree_comes_back(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    repo.git("rm", "-rq", ".")
    repo.git("commit", "-qm", "Nothing is left")
    scene = Scene.of(repo, tmp_path / "state")
    before = scene.look()
    scene.agent("git reset -q --hard HEAD~1; git reflog expire --expire=now --all; git gc -q --prune=now")
    assert scene.quick("undo") == 0
    scene.is_at(before)


def test_work_that_nothing_refers_to_survives_a_clean_up_of_the_agent(tmp_path: Path) -> None:
    """A stash that the human dropped by mistake is still to be found with `git fsck --lost-found`."""
    repo = project(tmp_path / "work")
    with_stashes(repo)
    dropped = repo.git("rev-parse", "stash@{0}")
    repo.git("stash", "drop", "-q")
    scene = Scene.of(repo, tmp_path / "state")
    before = scene.look()
    scene.agent("git reflog expire --expire=now --all; git gc -q --prune=now")
    assert repo.git("cat-file", "-t", dropped, code=None) == ""
    assert scene.quick("undo") == 0
    scene.is_at(before)
    assert repo.git("cat-file", "-t", dropped) == "commit"


def test_settings_hooks_and_notes_to_git(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    repo.write(".git/hooks/mine", "#!/bin/sh\n")
    script = """
    git config core.bare true; git config --unset core.bare; git config user.name agent
    git remote add origin ../nowhere; echo '*.agent' >> .git/info/exclude; rm .git/hooks/mine
    printf '#!/bin/sh\nexit 1\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; rm .git/description
    """
    taken_back(Scene.of(repo, tmp_path / "state"), script)


def test_a_repository_that_says_it_is_bare(tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    repo.git("config", "core.bare", "true")
    taken_back(
        Scene.of(repo, tmp_path / "state"), "git branch -D easy; git tag x; git update-ref refs/y HEAD"
    )


def test_refs_in_tables_are_refused_in_words_and_files_are_covered(tmp_path: Path) -> None:
    """What this version cannot read it does not touch, and says so."""
    repo = project(tmp_path / "work")
    config = repo.root / ".git/config"
    config.write_text(
        config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1")
        + "[extensions]\n\trefStorage = reftable\n"
    )
    (repo.root / ".git/reftable").mkdir()
    (repo.root / ".git/reftable/tables.list").write_text("")
    scene = Scene.of(repo, tmp_path / "state")
    assert "reftable" in scene.world.do("save").said
    scene.agent("echo x > app; echo junk > .git/HEAD")
    assert scene.quick("undo") == 0
    assert scene.world.read("app") == lines("main")
    assert scene.world.read(".git/HEAD") == "junk\n"


def test_without_git_on_the_path(tmp_path: Path) -> None:
    """Files are covered as ever; what of the repository needs git to be checked is said."""
    repo = project(tmp_path / "work")
    dirty(repo)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "rm", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    scene = Scene.of(repo, tmp_path / "state")
    before = scene.look()
    bare = {"PATH": str(tools)}
    script = "echo x > app; rm .git/refs/heads/main; echo junk > .git/index; rm -r .git/logs; rm untracked"
    done = scene.world.run("run", "--", "sh", "-c", script, env=bare)
    assert done.code == 0, done
    assert "git is not installed" in scene.world.run("save", env=bare).said
    back = scene.world.run("undo", env=bare)
    assert back.code == 0, back
    scene.is_at(before)
    assert unsound(scene.look()) == []
