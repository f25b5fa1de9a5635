"""Repositories below the top of the workspace: what their settings have git run is judged, as real git runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from takeback.engine.gate.foresight import real_path, script_text
from takeback.shell.classify import classify
from takeback.shell.judgement import Judgement, Reach

from .corpus import HOME

ALONE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_ALLOW_PROTOCOL": "file",
}


def shell(folder: Path, line: str) -> None:
    subprocess.run(
        ["sh", "-c", line], cwd=folder, env={**os.environ, **ALONE}, capture_output=True, check=False
    )


def judged(root: Path, line: str) -> Judgement:
    return classify(
        line,
        root=str(root),
        cwd=str(root),
        home=HOME,
        real=real_path,
        read=script_text,
        exists=os.path.exists,
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with a nested one, a submodule, an embedded one, a second tree and a bare one."""
    root = tmp_path / "work"
    root.mkdir()
    new = "git init -q {0} && cd {0} && mkdir deep && echo a > deep/a && git add . && git commit -qm x"
    shell(tmp_path, new.format("origin"))
    shell(root, new.format("."))
    shell(root, "echo lib > .gitignore && git add . && git commit -qm y")
    shell(root, new.format("lib"))
    shell(root, "git submodule -q add ../origin sub && git commit -qm z")
    shell(root, "git worktree add -q -b other tree")
    shell(root, "git init -q --bare bare.git")
    assert (root / "sub/.git").is_file() and (root / "tree/.git").is_file()
    return root


CONFIGS = {
    "lib": "lib/.git/config",
    "sub": ".git/modules/sub/config",
    "tree": ".git/config",
    "bare": "bare.git/config",
}


@pytest.mark.parametrize(
    "repository, setting, line",
    [
        ("lib", "core.fsmonitor", "cd lib && git status"),
        ("lib", "core.fsmonitor", "cd lib/deep && git status"),
        ("lib", "core.fsmonitor", "git -C lib/deep diff"),
        ("lib", "core.fsmonitor", "cd lib && git -C deep status"),
        ("lib", "core.fsmonitor", "git --git-dir=lib/.git --work-tree=lib status"),
        ("lib", "core.fsmonitor", "ln -s lib/deep here; cd here && git status"),
        ("lib", "diff.external", "cd lib && echo b > deep/a && git diff"),
        ("lib", "alias.st", "git -C lib st"),
        ("sub", "core.fsmonitor", "git -C sub status"),
        ("sub", "core.fsmonitor", "cd sub/deep; git status"),
        ("sub", "core.fsmonitor", "git status"),
        ("sub", "core.fsmonitor", "git submodule foreach git status"),
        ("sub", "alias.st", "cd sub && git st"),
        ("tree", "core.fsmonitor", "git -C tree status"),
        ("bare", "alias.st", "git -C bare.git st"),
        ("bare", "alias.st", "cd bare.git/refs && git st"),
        ("bare", "alias.st", "git --git-dir bare.git st"),
    ],
)
def test_what_real_git_runs_is_judged(work: Path, repository: str, setting: str, line: str) -> None:
    config, ran = work / CONFIGS[repository], work.parent / "ran"
    before = judged(work, line).reach
    shell(work, f"git config -f '{config}' {setting} '{bang(setting)}touch {ran}'")
    assert judged(work, line).reach is not Reach.NONE
    shell(work, line)
    assert ran.exists(), "real git runs it"
    shell(work, f"git config -f '{config}' {setting} '{bang(setting)}git push'")
    found = judged(work, line)
    assert found.reach is Reach.IRREVERSIBLE
    assert found.main and found.main.where.startswith(f"{CONFIGS[repository]}:")
    assert before is not Reach.IRREVERSIBLE


def bang(setting: str) -> str:
    return "!" if setting.startswith("alias.") else ""


@pytest.mark.parametrize(
    "folder, line",
    [
        ("lib/.git/hooks", "cd lib && git commit --allow-empty -m x"),
        ("lib/.git/hooks", "git -C lib/deep commit --allow-empty -m x"),
        (".git/modules/sub/hooks", "git -C sub commit --allow-empty -m x"),
        (".git/hooks", "git -C tree commit --allow-empty -m x"),
        ("lib/own", "git -C lib -c x.y=z commit --allow-empty -m x"),
    ],
)
def test_hooks_that_real_git_runs_are_judged(work: Path, folder: str, line: str) -> None:
    hook, ran = work / folder / "pre-commit", work.parent / "ran"
    hook.parent.mkdir(exist_ok=True)
    if folder == "lib/own":
        shell(work, "git -C lib config core.hooksPath own")
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    shell(work, line)
    assert ran.exists(), "real git runs it"
    hook.write_text("#!/bin/sh\ngit push\n")
    found = judged(work, line)
    assert found.reach is Reach.IRREVERSIBLE
    assert found.main and found.main.where == f"{folder}/pre-commit:2"


@pytest.mark.parametrize(
    "line", ["git status", "cd tree; git status", "cd sub && git log", "git -C bare.git log"]
)
def test_what_git_does_not_go_into_does_not_count(work: Path, line: str) -> None:
    ran = work.parent / "ran"
    shell(work, f"git -C lib config core.fsmonitor 'touch {ran}'")
    shell(work, line)
    assert not ran.exists()
    assert judged(work, line).reach is Reach.NONE


@pytest.mark.parametrize(
    "line",
    [
        "cat a >> lib/.git/config",
        "cp a lib/.git/hooks/pre-commit",
        "tee .git/modules/sub/config < a",
        "cd lib && echo x > .git/config",
        "echo 'gitdir: x' > lib/.git",
        "cp a bare.git/config",
        "cp a bare.git/hooks/post-update",
        "cp a .git/config.worktree",
    ],
)
def test_whoever_writes_what_git_runs_there_makes_other_commands_of_it(work: Path, line: str) -> None:
    assert judged(work, line).reach is Reach.UNKNOWN
    assert judged(work, "echo x > lib/config; cp a hooks/x; rm -r lib/.git/hooks").reach is Reach.RESTORABLE


def test_a_config_that_the_line_itself_writes_counts(work: Path) -> None:
    line = "printf '[core]\\nfsmonitor = git push\\n' > lib/.git/config; cd lib; git status"
    assert judged(work, line).reach is Reach.IRREVERSIBLE


def test_many_submodules_are_read_up_to_a_bound(work: Path) -> None:
    for number in range(200):
        nested = work / f"m{number}"
        (nested / ".git").mkdir(parents=True)
        (nested / ".git/config").write_text("[core]\nbare = false\n")
    names = "".join(f'[submodule "m{n}"]\npath = m{n}\n' for n in range(60))
    (work / ".gitmodules").write_text(names)
    assert judged(work, "git status").reach is Reach.NONE
    names = "".join(f'[submodule "m{n}"]\npath = m{n}\n' for n in range(200))
    (work / ".gitmodules").write_text(names)
    found = judged(work, "git status")
    assert found.reach is Reach.UNKNOWN
    assert found.limit is None, "it does not ask for that"


def test_repositories_that_name_each_other_end(work: Path) -> None:
    (work / ".gitmodules").write_text(
        '[submodule "x"]\npath = .\n[submodule "y"]\npath = ../..\n[submodule]\npath\n'
    )
    (work / "lib/.git/config").write_text("[include]\npath = config\n")
    assert judged(work, "git status; git -C lib status").reach is Reach.NONE


@pytest.mark.parametrize("line", ["cd $x && git status", "git -C $x log", 'git -C "$(cat where)" diff'])
def test_git_in_a_folder_that_is_not_known_may_run_something(work: Path, line: str) -> None:
    assert judged(work, line).reach is Reach.UNKNOWN
