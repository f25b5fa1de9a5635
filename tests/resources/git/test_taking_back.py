"""What an agent does to a repository is taken back exactly, as plain git commands see it."""

from __future__ import annotations

import os

import pytest

from .desk import Desk, says

EVERYTHING = """
git reset -q --hard; git clean -qfdX
git checkout -q -b agent; echo c > c; git add c; git commit -qm c; git commit -q --amend -m c2
git stash drop -q stash@{1}; echo z >> b; git stash -q
git branch -q -D feature; git tag v1; git tag -d v0 > /dev/null; git tag -a -m note v2
git checkout -q main; git reset -q --hard HEAD~1
git worktree add -q wt other
git reflog expire --expire=now --all; git pack-refs --all; git gc -q --prune=now
git checkout -q -B clash main; echo r > a; git commit -qam r; git rebase -q other > /dev/null 2>&1
git config x.y z; echo '#!/bin/sh' > .git/hooks/post-checkout
"""


def prepared(desk: Desk) -> None:
    desk.commit(".gitignore", "*.o\n")
    desk.git("tag", "v0")
    desk.git("checkout", "-qb", "other")
    desk.commit("a", "other\n")
    desk.git("checkout", "-q", "main")
    desk.commit("a", "main\n")
    for text in ("first", "second"):
        desk.write("b", text)
        desk.git("stash", "push", "-q", "-m", text)
    desk.write("x.o", "ignored")
    desk.write("staged", "staged")
    desk.git("add", "staged")
    desk.write("a", "not staged\n")


@pytest.mark.parametrize("fixture", ["desk", "sha256"])
def test_everything_at_once(request: pytest.FixtureRequest, fixture: str) -> None:
    desk: Desk = request.getfixturevalue(fixture)
    prepared(desk)
    before = desk.picture()
    desk.agent(EVERYTHING)
    done = desk.picture()
    assert done["refs"] != before["refs"] and done["rebase-merge"] != "[]"
    assert desk.undo().verdict == "clean"
    assert desk.picture() == before
    assert desk.tb.redo().verdict == "clean"
    assert desk.picture() | {"index": "", "logs": ""} == done | {"index": "", "logs": ""}
    desk.undo()
    assert desk.picture() == before


def test_a_report_reads_well(desk: Desk) -> None:
    old = desk.at("main")
    desk.agent(
        "git checkout -q feature; for n in 1 2; do git commit -q --allow-empty -m $n; done; git tag v1"
    )
    report = desk.undo()
    assert says(report) == [
        "HEAD back on main",
        f"branch feature back at {old[:7]}, 2 commits dropped",
        "tag v1 removed",
    ]
    assert "removed tag v1." in str(report)


OPERATIONS = {
    "git merge -q other": "merge",
    "git rebase -q other": "rebase",
    "git rebase -q --apply other": "rebase or am",
    "git cherry-pick other": "cherry-pick",
    "git cherry-pick other~1 other": "series of picks",
    "git revert --no-edit HEAD~1": "revert",
    "git bisect start HEAD HEAD~2": "bisect",
    "git format-patch -q --stdout other~1..other | git am -q": "rebase or am",
}
ENDED = ["git merge -q other", "git rebase -q other", "git bisect start HEAD HEAD~2"]


@pytest.mark.parametrize(
    "start, ended_by", [*((start, "agent") for start in OPERATIONS), *((start, "human") for start in ENDED)]
)
def test_an_operation_in_progress(desk: Desk, start: str, ended_by: str) -> None:
    """One that the agent began is gone; one that was in progress before, and that the agent ended, is back."""
    word = OPERATIONS[start]
    desk.git("checkout", "-qb", "other")
    desk.commit("c", "unrelated\n")
    desk.commit("a", "other\n")
    desk.git("checkout", "-q", "main")
    desk.commit("a", "between\n")
    desk.commit("a", "main\n")
    begin = f"{{ {start}; }} > /dev/null 2>&1 || true"
    if ended_by == "agent":
        before = desk.picture()
        desk.agent(begin)
        assert desk.picture() != before
        report = desk.undo()
        assert desk.picture() == before
        assert any(said.startswith(f"{word} no longer in progress") for said in says(report)), says(report)
    else:
        desk.agent(begin)
        desk.tb.save()
        before = desk.picture()
        desk.agent(
            "rm -rf .git/rebase-* .git/sequencer .git/*_HEAD .git/BISECT_* .git/AUTO_MERGE; git reset -q --hard"
        )
        report = desk.undo()
        assert desk.picture() == before
        assert f"{word} in progress again" in says(report)


def test_a_branch_follows_a_folder_of_branches(desk: Desk) -> None:
    desk.git("branch", "topic/one")
    before = desk.picture()
    desk.agent(
        "git branch -q -D topic/one; git branch topic; git pack-refs --all; git branch -f topic HEAD~1"
    )
    desk.undo()
    assert desk.picture() == before
    desk.tb.redo()
    assert desk.at("topic") == desk.at("main~1")


def test_packing_refs_changes_nothing(desk: Desk) -> None:
    desk.tb.save()
    id = desk.agent("git pack-refs --all --prune; rmdir -p .git/refs/heads 2> /dev/null || true")
    assert desk.tb.history.actions[id].changes == ()


def test_the_index_is_compared_by_its_entries(desk: Desk) -> None:
    desk.write("new", "text\n")
    desk.agent("git add new")
    os.utime(desk.root / "a", (1, 1))
    staged = (desk.root / ".git/index").read_bytes()
    desk.git("status")
    assert (desk.root / ".git/index").read_bytes() != staged
    assert says(desk.undo()) == ["index restored"]
    assert desk.git("status", "--porcelain") == "?? new\n"


def test_a_repository_that_was_deleted(desk: Desk) -> None:
    prepared(desk)
    (desk.root / ".git/hooks/pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (desk.root / ".git/hooks/pre-commit").chmod(0o755)
    before = desk.picture()
    desk.agent("rm -rf .git")
    assert not (desk.root / ".git").exists()
    desk.undo()
    assert desk.picture() == before
    assert (desk.root / ".git/hooks/pre-commit").stat().st_mode & 0o777 == 0o755


def test_a_repository_that_was_made(desk: Desk) -> None:
    desk.agent("rm -rf .git")
    desk.agent("git init -q -b trunk; git add .; git commit -qm new")
    made = desk.picture()
    desk.undo()
    assert not (desk.root / ".git").exists()
    desk.tb.redo()
    assert desk.picture() | {"logs": ""} == made | {"logs": ""}


def test_settings_hooks_and_excludes(desk: Desk) -> None:
    config = (desk.root / ".git/config").read_bytes()
    desk.agent(
        "git config user.name Agent; echo 'exit 0' > .git/hooks/pre-push; chmod +x .git/hooks/pre-push;"
        "echo '*' >> .git/info/exclude; rm .git/description"
    )
    exclude = (desk.root / ".git/info/exclude").read_text()
    assert exclude.endswith("*\n")
    desk.undo()
    assert (desk.root / ".git/config").read_bytes() == config
    assert not (desk.root / ".git/hooks/pre-push").exists()
    assert not (desk.root / ".git/info/exclude").read_text().endswith("*\n")
    assert (desk.root / ".git/description").exists()


def test_no_hook_is_run(desk: Desk) -> None:
    for name in ("reference-transaction", "post-checkout", "post-rewrite", "post-index-change"):
        hook = desk.root / ".git/hooks" / name
        hook.write_text("#!/bin/sh\ntouch ran\n")
        hook.chmod(0o755)
    desk.agent("git branch -q x; git commit -q --allow-empty -m x; git branch -q -D feature; rm -f ran")
    desk.undo()
    assert not (desk.root / "ran").exists() and desk.at("feature") == desk.at("main")


def test_a_restore_moves_no_branch(desk: Desk) -> None:
    checkpoint = desk.tb.save("here")
    desk.agent("git commit -q --allow-empty -m agent; echo x > a")
    desk.git("commit", "-q", "--allow-empty", "-m", "human")
    before = desk.git("for-each-ref")
    desk.tb.restore(checkpoint)
    assert desk.git("for-each-ref") == before
    assert desk.git("status", "--porcelain") == ""
