"""Whatever is typed, or stands in takeback.toml: a sentence and a way out, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.world.cli import Result

from .conftest import Call


def refused(said: Result, *words: str) -> None:
    """Wrong use: exit code 2, nothing on stdout, one sentence that has these words."""
    assert (said.code, said.stdout) == (2, ""), said
    assert "bug in Takeback" not in said.stderr
    assert "Traceback" not in said.stderr
    for word in words:
        assert word in said.stderr, said.stderr


@pytest.fixture
def used(call: Call, folder: Path) -> Call:
    """Checkpoint c2, and one action."""
    (folder / "plan.md").write_text("old\n")
    call("save")
    call("run", "--name", "agent", "--", "sh", "-c", "echo new > plan.md")
    return call


@pytest.mark.parametrize("command", ["show", "undo", "restore", "diff"])
def test_an_id_that_is_not_there(command: str, used: Call) -> None:
    id = "c999" if command == "restore" else "a999"
    refused(
        used(command, id),
        f"there is no {'checkpoint' if command == 'restore' else 'action'} {id}",
        "takeback log",
    )


@pytest.mark.parametrize("text", ["nonsense", "a", "7", "a-1", "a0", "A7", "a7 ", "", "\x1b[31m", "é"])
def test_what_is_no_id(text: str, used: Call) -> None:
    refused(used("show", text), "is not an id", "takeback log")
    refused(used("undo", "--", text), "is not an id")


def test_a_checkpoint_is_nothing_that_was_done(used: Call, folder: Path) -> None:
    refused(used("undo", "c2"), "c2 is a checkpoint", "undo --to c2")
    assert (folder / "plan.md").read_text() == "new\n"


def test_a_run_is_taken_back_by_its_id(used: Call, folder: Path) -> None:
    run = used("log", "--json").json["entries"][0]["run"]
    assert run.startswith("r")
    assert used("show", run).code == 0
    assert used("undo", run).code == 0
    assert (folder / "plan.md").read_text() == "old\n"


def test_what_the_human_did_is_not_undone_by_id(used: Call, folder: Path) -> None:
    (folder / "own.md").write_text("mine")
    used("save")
    outside = next(e["id"] for e in used("log", "--json").json["entries"] if e["kind"] == "outside")
    refused(used("undo", outside), "yours and stays", "takeback restore")
    assert (folder / "own.md").exists()


def test_ids_and_to_exclude_each_other(used: Call) -> None:
    refused(used("undo", "a4", "--to", "c2"), "exclude each other")


def test_restore_and_to_want_a_moment(used: Call) -> None:
    action = used("log", "--json").json["entries"][0]["id"]
    refused(used("restore", action), f"{action} is an action", f'"before {action}"')
    refused(used("undo", "--to", action), f"{action} is an action", f'"after {action}"')
    refused(used("undo", "--to", "c999"), "no checkpoint c999")


def test_a_path_outside_the_workspace(used: Call) -> None:
    refused(used("undo", "--path", "../elsewhere"), "outside the workspace")
    refused(used("restore", "c2", "--path", "/etc/passwd"), "outside the workspace")


def test_a_negative_number_of_entries(used: Call) -> None:
    refused(used("log", "-n", "-1"))


@pytest.mark.parametrize("command", ["init", "save", "status", "undo", "log", "verify", "gc"])
def test_a_folder_that_is_not_there(command: str, call: Call, tmp_path: Path) -> None:
    refused(call(command, "-C", str(tmp_path / "missing")), "missing is not a folder")


def test_a_folder_that_is_a_file(call: Call, folder: Path) -> None:
    (folder / "plan.md").touch()
    refused(call("save", "-C", "plan.md"), "plan.md is not a folder")


def test_run_in_a_folder_that_is_not_there_never_begins(call: Call) -> None:
    assert call("run", "-C", "missing", "--", "true").code == 125


def test_names_with_odd_bytes(call: Call, folder: Path) -> None:
    os.mkdir(b"odd\xff\n\x1b[31m")
    for name in (b"odd\xff\n\x1b[31m/x\xfe", b"line\nbreak"):
        Path(os.fsdecode(name)).write_text("old")
    call("save")
    call("run", "--", "sh", "-c", "rm -r odd* line*")
    for words in (("diff",), ("diff", "--stat"), ("show", "a4"), ("log",), ("undo", "--preview"), ("undo",)):
        said = call(*words)
        assert said.code == 0, said
        assert "\x1b" not in said.stdout, "a name in the workspace must not paint the terminal"
    assert sorted(os.listdir(os.fsencode(folder))) == [b"line\nbreak", b"odd\xff\n\x1b[31m"]


def test_a_command_of_several_lines_takes_one_line_of_the_log(call: Call) -> None:
    call("run", "--", "sh", "-c", "echo 1\necho 2 > made.md")
    said = call("log").stdout.splitlines()
    assert len(said) == 2 and said[1].endswith("made.md"), said


# takeback.toml


@pytest.mark.parametrize(
    "text, word",
    [
        ("[files\n", "line 1"),
        ('[files]\nexclude = ["a"\nx = 1\n', "line 3"),
        ("[files]\nexclude = 7\n", "exclude"),
        ("[files]\nexclude = [7]\n", "exclude"),
        ("[flies]\n", "flies"),
        ("[store]\nkeep-dayz = 7\n", "keep-dayz"),
        ("[store]\nkeep-days = 'long'\n", "keep-days"),
        ("[store]\nkeep-days = -1\n", "keep-days"),
        ("[store]\nkeep-checkpoints = -5\n", "keep-checkpoints"),
        ("[store]\nquota-bytes = -5\n", "quota-bytes"),
    ],
)
def test_a_bad_setting_is_named_with_its_place(text: str, word: str, call: Call, folder: Path) -> None:
    (folder / "takeback.toml").write_text(text)
    refused(call("save"), "takeback.toml is not valid", word, "nothing was done")


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_bytes(b"\xff\xfe")])
def test_settings_that_cannot_be_read(make: object, call: Call, folder: Path) -> None:
    assert callable(make)
    make(folder / "takeback.toml")
    refused(call("save"), "takeback.toml cannot be read", "nothing was done")


def test_a_bad_setting_keeps_a_command_from_running(call: Call, folder: Path) -> None:
    (folder / "takeback.toml").write_text("[files\n")
    assert call("run", "--", "touch", "made.md").code == 125
    assert not (folder / "made.md").exists()


def test_a_bad_setting_hides_neither_status_nor_log(call: Call, folder: Path) -> None:
    call("save")
    (folder / "takeback.toml").write_text("[files\n")
    assert call("status").code == call("log").code == call("show", "c2").code == 0
