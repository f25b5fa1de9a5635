"""`takeback run` stands in nobody's way: exit code, signals, terminal, input and output are the command's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.world.cli import Result, Workspace

from .processes import PYTHON, ended, on_terminal, start, wait_for_file


def sh(world: Workspace, script: str, *options: str) -> Result:
    return world.run("run", *options, "--", "sh", "-c", script)


# How it ends


@pytest.mark.parametrize("code", [0, 42])
def test_the_exit_code_is_the_commands(code: int, world: Workspace) -> None:
    assert sh(world, f"exit {code}").code == code


def test_a_command_that_is_not_there(world: Workspace) -> None:
    done = world.run("run", "--", "no-such-command")
    assert (done.code, done.stdout) == (127, "")
    assert "no-such-command: command not found" in done.stderr


def test_a_file_that_cannot_be_run(world: Workspace) -> None:
    done = world.run("run", "--", "./plan.md")
    assert (done.code, done.stdout) == (126, "")
    assert "plan.md" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_a_signal_ended(number: signal.Signals, world: Workspace) -> None:
    done = sh(world, f"echo new > plan.md; kill -{int(number)} $$")
    assert done.code == 128 + number
    assert number.name in done.stderr
    world.undo()
    assert world.read("plan.md") == "old\n"


def test_a_signal_without_a_name(world: Workspace) -> None:
    number = signal.SIGRTMIN + 1
    done = world.run("run", "--", PYTHON, "-c", f"import os; os.kill(os.getpid(), {number})")
    assert done.code == 128 + number, done
    assert world.do("status", "--json").json["open_actions"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_passed_on(number: signal.Signals, world: Workspace) -> None:
    script = (
        f"trap 'echo caught > caught.md; exit 7' {number.name[3:]}; touch ready; while :; do sleep 0.01; done"
    )
    process = start(world, "run", "--", "bash", "-c", script)
    wait_for_file(world.root / "ready")
    process.send_signal(number)
    assert ended(process).code == 7
    assert world.has("caught.md")
    world.undo()
    assert not world.has("caught.md")


def test_ctrl_c_on_a_terminal_reaches_the_command_once(world: Workspace, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, time\n"
        "def note(*_):\n"
        "    with open('caught.md', 'a') as f: f.write('x')\n"
        "signal.signal(signal.SIGINT, note)\n"
        "os.killpg(0, signal.SIGINT)\n"  # what a terminal does: all in the foreground get it
        "time.sleep(0.3)\n"
        "sys.exit(9)\n"
    )
    code, _ = on_terminal(world, "run", "--", PYTHON, "-c", program)
    assert code == 9
    assert world.read("caught.md") == "x"


# What it sees


def test_input_and_output_are_the_commands(world: Workspace) -> None:
    world.save()
    process = start(world, "run", "--", "sh", "-c", "cat; echo aside >&2", stdin=subprocess.PIPE)
    out, err = process.communicate(b"a\0b\n", timeout=60)
    assert (process.returncode, out) == (0, b"a\0b\n")
    assert err == b"aside\n"


def test_the_command_has_the_terminal(world: Workspace) -> None:
    program = "import os, sys; print([os.isatty(n) for n in (0, 1, 2)], os.ttyname(0) == os.ttyname(1))"
    code, shown = on_terminal(world, "run", "--", PYTHON, "-c", program)
    assert code == 0
    assert "[True, True, True] True" in shown


def test_the_command_knows_its_action(world: Workspace) -> None:
    done = sh(world, 'echo "$TAKEBACK_ACTION" > action.md; echo "$TAKEBACK_ACTION"')
    action = world.do("log", "--json").json["entries"][0]["id"]
    assert done.stdout.strip().endswith(f":{action}")
    assert world.read("action.md") == done.stdout


def test_the_command_runs_in_the_named_folder(world: Workspace) -> None:
    (world.root / "deep").mkdir()
    assert sh(world, "pwd", "-C", "deep").stdout.strip() == str(world.root / "deep")


def test_options_after_the_command_are_the_commands(world: Workspace) -> None:
    done = world.run("run", "--", "echo", "--json", "--name", "-C", "x")
    assert (done.code, done.stdout) == (0, "--json --name -C x\n")
    done = world.run("run", "echo", "--json")
    assert (done.code, done.stdout) == (0, "--json\n")


def test_many_and_long_arguments(world: Workspace) -> None:
    words = [f"{n:04}" * 20 for n in range(500)]
    done = world.run("run", "--", "echo", *words)
    assert done.stdout == " ".join(words) + "\n"
    assert all(len(line) < 400 for line in world.do("log").stdout.splitlines())


# What it says


def test_at_the_end_one_line_says_what_changed_and_how_to_take_it_back(world: Workspace) -> None:
    world.human("gone.md", "x")
    world.save()
    done = sh(world, "echo new > plan.md; rm gone.md; echo a > b; exit 3", "--name", "agent")
    assert done.stdout == ""
    first, *rest = done.stderr.splitlines()
    assert first.startswith("agent failed with exit code 3 after ")
    assert first.endswith("It changed 1 file, deleted 1, created 1.")
    names, rest = rest[:3], rest[3:]
    assert names == ["  deleted    gone.md", "  changed    plan.md", "  created    b"]
    assert any("takeback undo" in line for line in rest) and any("takeback diff" in line for line in rest)


def test_a_command_that_changed_nothing_says_nothing(world: Workspace) -> None:
    world.save()
    assert sh(world, "true").said == ""


def test_json_goes_to_stderr_and_stdout_stays_the_commands(world: Workspace) -> None:
    done = sh(world, "echo out; echo new > plan.md; exit 5", "--json")
    assert (done.code, done.stdout) == (5, "out\n")
    told = json.loads(done.stderr)
    assert (told["exit_code"], told["changes"], told["background"]) == (5, 1, [])
    assert told["action"] == world.do("log", "--json").json["entries"][0]["id"]


@pytest.mark.parametrize("words", [("no-such-command",), ("./plan.md",)])
def test_json_of_a_command_that_never_began(words: tuple[str, ...], world: Workspace) -> None:
    done = world.run("run", "--json", "--", *words)
    assert done.stdout == ""
    assert json.loads(done.stderr)["exit_code"] == done.code


def test_an_error_with_json_goes_to_stderr_too(world: Workspace) -> None:
    """The stdout of `run` belongs to the command, even where there is none."""
    world.human("takeback.toml", "[files\n")
    done = world.run("run", "--json", "--", "true")
    assert (done.code, done.stdout) == (125, "")
    assert json.loads(done.stderr)["error"]["code"] == "usage"


# Taking it back at once


def test_undo_on_failure_takes_back_and_keeps_the_exit_code(world: Workspace) -> None:
    before = world.look()
    done = sh(world, "echo new > plan.md; mkdir d; echo x > d/y; echo out; exit 42", "--undo-on-failure")
    assert (done.code, done.stdout) == (42, "out\n")
    assert "Took back" in done.stderr and "Verified" in done.stderr
    assert world.changes_since(before) == []


def test_undo_on_failure_leaves_success_alone(world: Workspace) -> None:
    done = sh(world, "echo new > plan.md", "--undo-on-failure")
    assert done.code == 0
    assert world.read("plan.md") == "new\n"


def test_undo_on_failure_of_a_signal(world: Workspace) -> None:
    done = sh(world, "echo new > plan.md; kill -TERM $$", "--undo-on-failure")
    assert done.code == 128 + signal.SIGTERM
    assert world.read("plan.md") == "old\n"


def test_undo_on_failure_with_json_is_one_object(world: Workspace) -> None:
    done = sh(world, "echo new > plan.md; exit 3", "--undo-on-failure", "--json")
    assert (done.code, done.stdout) == (3, "")
    json.loads(done.stderr)
    assert world.read("plan.md") == "old\n"


# Where Takeback fails


def test_takeback_fails_before_the_command_begins(world: Workspace) -> None:
    world.home.write_text("a file where the state folder should be")
    done = sh(world, "touch made.md")
    assert (done.code, done.stdout) == (125, "")
    assert "state" in done.stderr and "bug in Takeback" not in done.stderr
    assert not world.has("made.md")


def test_a_root_that_the_command_removed(world: Workspace) -> None:
    """What is left is a sentence; the history stays, and the tree comes back once the folder does."""
    world.save()
    done = sh(world, f"cd /; rm -r {world.root}; exit 4")
    assert done.code in (4, 125) or done.code == 2, done
    assert "bug in Takeback" not in done.stderr, done.stderr
    os.mkdir(world.root)
    world.do("restore", world.do("log", "--json").json["entries"][-1]["id"])
    assert world.read("plan.md") == "old\n"


# What cannot be recorded, and what is no text


@pytest.mark.parametrize("code, expected", [(0, 6), (3, 3)])
def test_an_end_that_could_not_be_recorded_is_not_success(code: int, expected: int, world: Workspace) -> None:
    done = sh(world, f'rm -rf "$TAKEBACK_HOME"; exit {code}')
    assert done.code == expected
    assert "is not recorded yet" in done.stderr


def test_bytes_that_are_no_text_are_run_and_recorded(world: Workspace, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    done = world.run("run", "--", "sh", "-c", f'echo x > "{name}"; echo x > "../{name}"', name)
    assert done.code == 0, done
    assert (world.root / name).exists() and (tmp_path / name).exists()
    (logged,) = [one for one in world.do("log", "--json").json["entries"] if one["id"].startswith("a")]
    assert r"caf\xe9" in logged["name"]
    world.undo()
    assert not (world.root / name).exists() and not (tmp_path / name).exists()
    assert world.run("run", "--name", name, "--", "true").code == 0
    lost = world.run("run", "--", name)
    assert (
        lost.code == 127
        and r"caf\xe9: command not found" in lost.stderr
        and "not recorded" not in lost.stderr
    )
    assert "interrupted" not in world.do("status").said


def test_words_of_a_human_that_are_no_text_are_recorded(world: Workspace) -> None:
    odd = os.fsdecode(b"caf\xe9")
    assert world.run("save", odd, env={"TAKEBACK_ACTOR": odd}).code == 0
    saved = world.do("log", "--json").json["entries"][0]
    assert (saved["name"], saved["actor"]) == (r"caf\xe9", r"caf\xe9")
