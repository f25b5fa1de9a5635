"""What the commands say of runs: which part was taken back, what helps, and what is waited for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import takeback
from takeback.errors import InvalidOutput
from tests.cli.test_taking_back_calls import env, python
from tests.cli.test_taking_back_calls import takeback as command

OPEN = "import takeback, tools\nwith takeback.open('.', watching=False) as tb, tb.run('party', key='k') as run:\n"
TOOLS = """
import os, pathlib, signal, takeback
BESIDE = pathlib.Path(__file__).parent.parent
BOOK, LOCKED = BESIDE / "book.txt", BESIDE / "locked"
def cancel(call): BOOK.unlink(missing_ok=True)
def find(call): return BOOK.read_text() if BOOK.exists() else takeback.ABSENT
def fail(call):
    if LOCKED.exists(): raise RuntimeError("the shop is closed")
@takeback.action(undo=cancel, check=find)
def book(room):
    BOOK.write_text(room)
    return room
@takeback.action(undo=fail)
def order(what): return what
@takeback.action(undo=cancel, check=find)
def book_and_die(room):
    BOOK.write_text(room)
    os.kill(os.getpid(), signal.SIGKILL)
@takeback.action(undo=cancel)
def blindly(room): book_and_die(room)
"""


def project(tmp_path: Path) -> Path:
    """A folder with tools whose world is beside it."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "tools.py").write_text(TOOLS)
    return root


def test_the_last_action_is_said_to_be_a_part_of_its_run(tmp_path: Path) -> None:
    root = project(tmp_path)
    python(root, f"{OPEN}  run.memory['goal'] = 1\n  run.call(tools.book, 'blue')")
    previewed = command(root, "undo", "--preview")
    assert "That would be one action of run r2 (party).\n  all of r2 " in previewed.stdout
    assert " takeback undo r2\n" in previewed.stdout
    undone = command(root, "undo", "--json")
    assert '"part_of":"r2"' in undone.stdout.replace(" ", ""), undone.stderr
    rest = command(root, "undo")
    assert "goal of r2" in rest.stdout and "That was one action" not in rest.stdout
    assert "r2:/" not in rest.stdout


def test_what_was_named_is_not_called_a_part(tmp_path: Path) -> None:
    root = project(tmp_path)
    python(root, f"{OPEN}  run.memory['goal'] = 1\n  run.call(tools.book, 'blue')")
    undone = command(root, "undo", "r2")
    assert undone.returncode == 0 and "That was" not in undone.stdout


def test_a_failed_undo_is_tried_again_by_its_id(tmp_path: Path) -> None:
    root = project(tmp_path)
    python(root, f"{OPEN}  run.call(tools.order, 'cake')")
    (tmp_path / "locked").touch()
    undone = command(root, "undo", "r2")
    assert undone.returncode == 6 and "Incomplete: 1 thing is not as before." in undone.stderr
    said = command(root, "status").stdout
    (call,) = [word for word in said.split() if word.startswith("a") and word[1:].isdigit()][-1:]
    assert f"try again   takeback undo {call}" in said
    (tmp_path / "locked").unlink()
    again = command(root, "undo", call)
    assert again.returncode == 6 and "the shop is closed" not in again.stderr
    assert "this cannot be checked automatically; please verify by hand" in command(root, "status").stdout


def test_the_next_command_can_be_run_as_it_stands(tmp_path: Path) -> None:
    root = project(tmp_path)
    code = f"{OPEN}  run.call(tools.book_and_die, 'blue')"
    script = root / "agent.py"
    script.write_text(code)
    subprocess.run([sys.executable, str(script)], cwd=root, env=env(root), capture_output=True)
    (run,) = json.loads(command(root, "resume", "--json").stdout)["runs"]
    ways = {way["does"]: way for way in run["next"]}
    assert ways["continue"]["command"] == f"takeback resume {run['id']} --exec"
    assert sys.executable in ways["continue"]["remark"]
    assert all("(" not in (way["command"] or "") for way in run["next"])


def test_a_return_without_a_word_says_what_will_happen(tmp_path: Path) -> None:
    root = project(tmp_path)
    for _ in range(2):
        python(root, f"{OPEN}  run.call(tools.blindly, 'blue')")
    told = command(root, "handover", "list").stdout
    assert "--happened a" in told and "--did-not a" in told
    given = command(root, "handover", "return", "r2")
    assert "is still in doubt" in given.stdout and "handed over again" in given.stdout, given.stderr


def test_an_undo_that_waits_says_for_what(tmp_path: Path) -> None:
    root = project(tmp_path)
    python(root, f"{OPEN}  run.call(tools.book, 'blue')")
    code = "import takeback, sys\nwith takeback.open('.', watching=False).recording('build'):\n"
    busy = started(root, "-c", f"{code}  print('up', flush=True); sys.stdin.read()")
    assert busy.stdout and busy.stdin and busy.stdout.readline() == "up\n"
    undoing = started(root, "-m", "takeback", "undo", "r2")
    assert undoing.stderr
    said = undoing.stderr.readline()
    busy.communicate("")
    undoing.communicate()
    assert "waiting for" in said and "(build) to end" in said
    assert undoing.returncode == 0 and busy.returncode == 0


def started(root: Path, *words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *words], cwd=root, env=env(root), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def test_a_handler_of_the_script_itself_is_warned_about(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = root / "agent.py"
    script.write_text(
        "import takeback\n"
        "def cancel(call): pass\n"
        "@takeback.action(undo=cancel)\n"
        "def book(room): return room\n"
        "with takeback.open('.', watching=False) as tb, tb.run('party') as run:\n"
        "    run.call(book, 'blue'); run.call(book, 'red')\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=root, env=env(root), capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr.count("only this script can call it") == 1


@pytest.mark.parametrize("name", ["replanning", "research_report_email", "multi_step_migration"])
def test_an_example_makes_its_folder_and_refuses_a_used_one(tmp_path: Path, name: str) -> None:
    example = Path(__file__).parents[2] / f"examples/{name}.py"
    said = ""
    for code in (0, 1):
        done = subprocess.run(
            [sys.executable, str(example), str(tmp_path / "new/folder")],
            cwd=tmp_path,
            env=env(tmp_path),
            capture_output=True,
            text=True,
        )
        said = done.stderr
        assert done.returncode == code and "Traceback" not in said, said
    assert "already exists" in said


def test_text_around_a_fence_is_named(tmp_path: Path) -> None:
    with takeback.open(tmp_path, home=tmp_path.parent / "state", watching=False) as tb, tb.run("t") as run:
        with (
            pytest.raises(InvalidOutput, match="text around a Markdown fence"),
            run.buffered(list[int]) as out,
        ):
            out.feed("Here it is:\n```json\n[1]\n```")
        with pytest.raises(InvalidOutput) as wrong, run.buffered(list[int]) as out:
            out.feed("nonsense")
        assert "fence" not in wrong.value.message
