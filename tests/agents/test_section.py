"""The start-up section: written once, and removed without a trace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from takeback.agents.agents_md import BEGIN, END, remove_section, write_section
from takeback.errors import BackendError

TEXTS = [
    b"# Rules\n\nBe kind.\n",
    b"no newline at the end",
    b"",
    b"\n",
    b"blank lines\n\n\n",
    b"windows\r\nlines\r\n",
    b"\xff\xfe not utf-8\n",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
def test_all_other_text_stays_byte_for_byte(name: str, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    path.chmod(0o640)
    assert name in write_section(tmp_path)
    written = path.read_bytes()
    assert written.startswith(text) and written.count(BEGIN) == written.count(END) == 1
    assert (b"\r\n" in text) == (b"\r\n" in written)
    assert write_section(tmp_path) == [] and path.read_bytes() == written, "a second time changes nothing"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert name in remove_section(tmp_path)
    assert path.read_bytes() == text
    assert remove_section(tmp_path) == []


def test_agents_md_is_made_and_claude_md_is_not(tmp_path: Path) -> None:
    assert write_section(tmp_path) == ["AGENTS.md"]
    assert [path.name for path in tmp_path.iterdir()] == ["AGENTS.md"]
    assert remove_section(tmp_path) == ["AGENTS.md"]
    assert list(tmp_path.iterdir()) == []


def test_it_begins_with_the_rule_to_the_letter(tmp_path: Path) -> None:
    write_section(tmp_path)
    assert (tmp_path / "AGENTS.md").read_text().splitlines()[1] == (
        "Restart-safe workflow rule: On startup, check `memory/checkpoints/*.json` for unfinished workflows. "
        "If found, acquire the resume lock, validate checkpoint schema/hash, and continue from the last completed "
        "idempotent step."
    )


def test_an_older_section_is_replaced_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_bytes(b"before\n\n" + BEGIN + b"\nold words\n" + END + b"\nafter\n")
    write_section(tmp_path)
    text = path.read_bytes()
    assert (
        text.startswith(b"before\n\n" + BEGIN)
        and text.endswith(END + b"\nafter\n")
        and b"old words" not in text
    )
    remove_section(tmp_path)
    assert path.read_bytes() == b"before\nafter\n"


def test_one_file_under_two_names_gets_one_section(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("rules\n")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert write_section(tmp_path) == ["AGENTS.md"]
    assert (tmp_path / "CLAUDE.md").is_symlink()
    assert (tmp_path / "AGENTS.md").read_bytes().count(BEGIN) == 1


def test_a_link_out_of_the_workspace_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "global.md").write_text("mine\n")
    (root / "CLAUDE.md").symlink_to(tmp_path / "global.md")
    (root / "AGENTS.md").symlink_to("../global.md")
    assert write_section(root) == []
    assert (tmp_path / "global.md").read_text() == "mine\n"


def test_a_folder_of_that_name_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").mkdir()
    with pytest.raises(BackendError, match="cannot be written"):
        write_section(tmp_path)
    assert os.listdir(tmp_path) == ["AGENTS.md"]


def test_what_it_tells_to_do_can_be_done(tmp_path: Path) -> None:
    """Each command of the section is one that exists, with options that exist."""
    import re

    from takeback.agents.agents_md import TEXT
    from takeback.cli.commands.workflow import command

    named = re.findall(r"`takeback workflow (\w+)((?:[^`]|\n)*)`", TEXT)
    assert {name for name, _ in named} == {"start", "resume", "update", "complete"}
    for name, words in named:
        known = {option for parameter in command.commands[name].params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", words)) <= known
