"""The words that the command line knows: versions, help, options, completion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import takeback
from takeback.cli.app import COMMANDS
from tests.world.cli import Workspace, environment

from .conftest import Call


def test_version(call: Call) -> None:
    said = call("--version")
    assert (said.code, said.stdout) == (0, f"takeback {takeback.__version__}\n")


def test_help_lists_every_command_and_every_exit_code(call: Call) -> None:
    said = call("--help")
    assert said.code == 0
    for name in COMMANDS:
        assert f"  {name} " in said.stdout
    for code in (0, 2, 3, 4, 5, 6):
        assert f"\n    {code}  " in said.stdout


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_that_fits_a_terminal(name: str, flag: str, call: Call) -> None:
    said = call(name, flag)
    assert (said.code, said.stderr) == (0, "")
    assert said.stdout.startswith(f"Usage: takeback {name} ")
    assert "--json" in said.stdout and "-C DIR" in said.stdout
    assert max(map(len, said.stdout.splitlines())) <= 80
    # The list of commands and the command itself say the same.
    assert COMMANDS[name].removeprefix("\b") in " ".join(said.stdout.split())


@pytest.mark.parametrize(
    "words",
    [
        ("frobnicate",),
        ("status", "--frobnicate"),
        ("--frobnicate",),
        ("show",),
        ("undo", "--on-conflict", "hope"),
        ("log", "-n", "many"),
        ("save", "one", "two"),
        ("run",),
        ("run", "--"),
        ("completion", "csh"),
    ],
)
def test_wrong_words_exit_with_2_and_say_where_help_is(words: tuple[str, ...], call: Call) -> None:
    said = call(*words)
    assert (said.code, said.stdout) == (2, "")
    assert said.stderr.startswith("takeback: ")
    assert "--help` shows the usage" in said.stderr


def test_the_folder_is_named_before_or_after_the_command(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("save")
    monkeypatch.chdir("/")
    work = str(tmp_path / "work")
    for words in (("-C", work, "status"), ("status", "-C", work), ("-C", "/", "status", "-C", work)):
        assert f"{work} is protected" in call(*words).stdout


def test_paths_are_relative_to_the_named_folder(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-C says "work in this folder instead of the current one"."""
    call("save")
    (folder / "plan.md").write_text("new")
    (folder / "other.md").write_text("new")
    monkeypatch.chdir("/")
    said = call("-C", str(folder), "diff", "--json", "plan.md")
    assert said.code == 0, said
    assert [change["target"] for change in said.json["changes"]] == ["plan.md"]


def test_a_command_in_a_subfolder_belongs_to_the_workspace_above(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    call("save")
    monkeypatch.chdir(folder / "deep" / "er")
    assert f"{folder} is protected" in call("status").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: str, call: Call) -> None:
    said = call("completion", shell)
    assert said.code == 0
    assert "_TAKEBACK_COMPLETE" in said.stdout and f"{shell}_complete" in said.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=said.stdout, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes_commands_and_options(world: Workspace) -> None:
    def complete(line: str) -> list[str]:
        words = line.split(" ")
        asked = {"_TAKEBACK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        done = subprocess.run(
            [sys.executable, "-m", "takeback"],
            env=environment(world.home) | asked,
            cwd=world.root,
            capture_output=True,
            text=True,
        )
        assert done.stderr == ""
        return [found.split(",")[1] for found in done.stdout.split()]

    assert complete("takeback re") == ["redo", "restore", "rehearse", "replay", "resume"]
    assert complete("takeback undo --on") == ["--on-conflict"]
    assert "merge" in complete("takeback undo --on-conflict m")
