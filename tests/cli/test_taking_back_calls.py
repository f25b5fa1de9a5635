"""Calls of a project's own code, looked at and taken back from the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = """
import pathlib, takeback
BOOK = pathlib.Path(__file__).with_name("book.txt")
def cancel(call): BOOK.unlink(missing_ok=True)
def find(call): return BOOK.read_text() if BOOK.exists() else takeback.ABSENT
@takeback.action(undo=cancel, check=find)
def book(room):
    BOOK.write_text(room)
    return room
@takeback.action(undo=cancel, check=find)
def book_and_die(room):
    import os, signal
    BOOK.write_text(room)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def python(root: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=env(root), capture_output=True, text=True
    )


def takeback(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "takeback", *words]
    return subprocess.run(command, cwd=root, env=env(root), capture_output=True, text=True)


def env(root: Path) -> dict[str, str]:
    return {**os.environ, "TAKEBACK_HOME": str(root.parent / "state"), "NO_COLOR": "1"}


def project(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "tools.py").write_text(TOOLS)
    return root


def test_what_was_compensated_is_told_in_words(tmp_path: Path) -> None:
    root = project(tmp_path)
    code = "import takeback, tools\nwith takeback.open('.') as tb, tb.run('t') as run: run.call(tools.book, 'blue')"
    assert python(root, code).returncode == 0
    undone = takeback(root, "undo", "r2")
    assert 'compensated book("blue")\n' in undone.stdout, undone.stdout + undone.stderr
    assert "Verified 2 of 2.  Changed your mind?" in undone.stdout, "it was not only the disk that was read"
    assert not (root / "book.txt").exists()


def test_a_handler_that_is_not_found_says_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path)
    code = "import takeback, tools\nwith takeback.open('.') as tb, tb.run('t') as run: run.call(tools.book, 'blue')"
    assert python(root, code).returncode == 0
    (root / "tools.py").rename(tmp_path / "tools.py")
    undone = takeback(root, "undo", "r2")
    assert undone.returncode == 6 and "PYTHONPATH" in undone.stdout, undone.stdout + undone.stderr
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    elsewhere = takeback(root, "undo", "r2")
    assert elsewhere.returncode == 0 and "Verified 1 of 1" in elsewhere.stdout, (
        elsewhere.stdout + elsewhere.stderr
    )


def test_answers_of_a_model_are_not_counted_as_calls(tmp_path: Path) -> None:
    root = project(tmp_path)
    code = """
import takeback
with takeback.open('.') as tb, tb.thread(key='k') as thread, thread.turn('1'):
    for n in range(3):
        thread.answer([n], lambda: {'text': 'yes'})
    with thread.begin('look', call_id='1', effect='none') as action:
        action.keep(1)
"""
    assert python(root, code).returncode == 0
    said = takeback(root, "status")
    assert ": 1 call, 3 answers" in said.stdout, said.stdout + said.stderr


def test_status_finds_the_check_of_a_call_in_doubt(tmp_path: Path) -> None:
    root = project(tmp_path)
    opening = "import takeback, tools\nwith takeback.open('.') as tb, tb.run('t', key='k') as run: "
    code = opening + "run.call(tools.book_and_die, 'blue')"
    assert python(root, code).returncode == -9
    said = takeback(root, "status")
    assert "cannot be imported" not in said.stdout + said.stderr
    shown = takeback(root, "show", "r2")
    assert "its check finds it" in shown.stdout + said.stdout, shown.stdout
