"""Questions to a human, runs that are handed over, and runs that were killed: each agent is a real process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import service
from tests.world.cli import Result, Workspace, environment
from tests.world.cli import run as run_command

from .processes import wait_for
from .test_log import offered


@pytest.fixture(autouse=True)
def _service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "service").mkdir()
    monkeypatch.setenv("SERVICE", str(tmp_path / "service"))


def start(world: Workspace, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cli.agent", name],
        cwd=world.root,
        env=environment(world.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def act(world: Workspace, name: str) -> Result:
    process = start(world, name)
    out, err = process.communicate(timeout=100)
    return Result(process.returncode, out, err)


def asked(world: Workspace) -> dict[str, Any]:
    """The question that an agent waits with."""
    wait_for(lambda: world.run("approvals", "--json").json.get("approvals"))
    (found,) = world.do("approvals", "--json").json["approvals"]
    return dict(found)


def run_of(world: Workspace, name: str) -> str:
    entries = world.do("log", "--json", "-n", "0").json["entries"]
    return next(str(e["id"]) for e in entries if e["kind"] == "run" and e["name"] == name)


# Questions


def test_what_cannot_be_taken_back_waits_for_approve(world: Workspace) -> None:
    world.save()
    agent = start(world, "wire")
    question = asked(world)
    assert (question["name"], question["effect"], question["state"]) == ("wire", "irreversible", "open")
    assert "hunter2" not in json.dumps(question) and question["arguments"]["args"] == [5]
    assert not service.bookings()
    listed = world.do("approvals").stdout
    assert f"takeback approve {question['id']}" in listed and "wire(5" in listed and "hunter2" not in listed
    status = world.do("status")
    assert (
        "1 request waits for your approval" in status.stdout
        and f"takeback deny {question['id']}" in status.stdout
    )
    other = world.do("approve", question["id"], "--payload", "b3:0000", code=3)
    assert "another payload" in other.stderr
    said = world.do("approve", question["id"], "--payload", question["payload"])
    assert said.stdout.startswith(f"Allowed {question['id']}: wire(5")
    _, err = agent.communicate(timeout=100)
    assert agent.returncode == 0, err
    assert service.bookings() == [{"amount": 5}] and world.read("plan.md") == "paid\n"
    shown = world.do("show", question["id"])
    assert "answer    used" in shown.stdout
    assert world.do("approvals").stdout == "Nothing waits for your approval.\n"
    assert "already" in world.do("approve", question["id"], code=2).stderr


def test_what_is_denied_does_not_begin_and_the_agent_hears_why(world: Workspace) -> None:
    world.save()
    agent = start(world, "wire")
    question = asked(world)
    denied = world.do("deny", question["id"], "--why", "not on a Friday", "--json").json
    assert (denied["state"], denied["answer"]) == ("denied", "not on a Friday")
    _, err = agent.communicate(timeout=100)
    assert agent.returncode == 1 and "not on a Friday" in err and "It was not started" in err
    assert not service.bookings() and world.read("plan.md") == "old\n"
    shown = world.do("show", run_of(world, "pay")).stdout
    assert "failed" in shown and "denied" in shown


def test_what_asks_cannot_answer(world: Workspace) -> None:
    world.save()
    said = act(world, "sly")
    assert said.code == 0, said
    assert "an agent cannot approve its own request" in said.stderr
    assert not service.bookings()


def test_inside_a_command_under_takeback_nothing_is_allowed_either(world: Workspace) -> None:
    world.save()
    agent = start(world, "wire")
    question = asked(world)
    inner = f"{sys.executable} -m takeback approve {question['id']}"
    world.agent(f"{inner}; test $? = 3")
    world.do("deny", question["id"])
    agent.communicate(timeout=100)
    assert not service.bookings()


@pytest.mark.parametrize(
    "words", [("approve", "p999"), ("deny", "p999"), ("approve", "a1"), ("approve", "x")]
)
def test_an_answer_to_no_question(world: Workspace, words: tuple[str, ...]) -> None:
    world.save()
    assert world.do(*words, code=2).stderr.startswith("takeback: ")


def test_a_question_of_a_run_that_is_over_waits_no_more(world: Workspace) -> None:
    world.save()
    agent = start(world, "wire")
    question = asked(world)
    agent.kill()
    agent.communicate(timeout=100)
    assert world.do("approvals").stdout == "Nothing waits for your approval.\n"
    assert world.do("status", "--json").json["approvals"] == []
    assert "is over" in world.do("approve", question["id"], code=3).stderr
    assert not service.bookings()


# Handovers


def test_a_run_is_handed_over_taken_and_given_back(world: Workspace) -> None:
    assert world.save() and world.do("handover", "list").stdout == "No run waits for a human.\n"
    said = act(world, "hand")
    assert said.code == 1 and "a human's choice" in said.stderr
    run = run_of(world, "migrate")
    assert len(service.bookings()) == 1, "what was done stays"
    listed = world.do("handover", "list").stdout
    assert f"{run}  migrate: handed over" in listed and "a human's choice" in listed
    assert "1 step done, stopped in ask" in listed and f"takeback handover take {run}" in listed
    assert f"takeback handover take {run}" in world.do("status").stdout
    assert f"{run}" in world.do("log").stdout and "handed over" in world.do("log").stdout
    assert "waits for a human" in world.do("resume", run, "--exec", code=3).stderr

    assert offered(world, "takeback handover return ") == [run]
    assert offered(world, f"takeback -C {world.root} resume ") == [run]
    step = world.do("show", run, "--json").json["steps"][0]["id"]
    assert step in offered(world, "takeback show s")

    taken = world.do("handover", "take", run, "--json").json
    assert taken["taken_by"] == "you" and "a human's choice" in taken["why"]
    world.human("answer", "users\n")
    back = world.do("handover", "return", run, "--note", "named them", "--json").json
    assert back["state"] == "interrupted" and back["can_be_executed"]
    assert "not handed over" in world.do("handover", "return", run, code=2).stderr

    done = world.do("resume", run, "--exec")
    assert f"{run} is done" in done.stderr
    assert world.read("plan.md") == "users\n" and len(service.bookings()) == 1
    world.undo(run)
    assert world.read("answer") == "users\n", "what the human wrote is theirs"
    assert world.read("plan.md") == "old\n" and not service.bookings()


@pytest.mark.parametrize("word, bookings", [("--happened", 1), ("--did-not", 2), ("--never", 2)])
def test_a_humans_word_on_a_call_in_doubt(world: Workspace, word: str, bookings: int) -> None:
    world.save()
    assert act(world, "doubt").code == -9
    world.do("resume")
    run = run_of(world, "doubt")
    assert act(world, "doubt").code == 1, "nobody can tell, so it is handed over"
    (waiting,) = world.do("handover", "list", "--json").json["runs"]
    (call,) = waiting["in_doubt"]
    assert waiting["id"] == run
    listed = world.do("handover", "list").stdout
    assert (
        f"in doubt: {call} charge" in listed
        and f"--happened {call}" in listed
        and f"--did-not {call}" in listed
    )
    assert "not JSON" in world.do("handover", "return", run, "--happened", f"{call}={{", code=2).stderr
    told = f'{call}={{"paid": 7}}' if word == "--happened" else call
    world.do("handover", "return", run, word, told)
    said = world.do("resume", run, "--exec")
    assert f"{run} is done" in said.stderr
    assert len(service.bookings()) == bookings
    if word == "--happened":
        assert world.do("show", call, "--json").json["result"] == {"paid": 7}
        moments = world.do("replay", run, "--json").json["moments"]
        assert {"paid": 7} in [m["result"] for m in moments if m["type"] == "action-told"]


# Runs that were killed


def test_a_killed_run_is_resumed_by_its_command_line(world: Workspace) -> None:
    world.save()
    assert world.do("resume").stdout.startswith("Nothing to resume")
    assert act(world, "crash").code == -9
    told = world.do("resume")
    run = run_of(world, "nightly")
    assert f"{run}  nightly: interrupted" in told.stdout and "1 step done, stopped in book" in told.stdout
    assert f"takeback resume {run} --exec" in told.stdout
    assert f"takeback undo {run}" in told.stdout
    assert f"takeback resume {run} --exec" in world.do("status").stdout
    assert "1 run waits for you" in world.do("log").stdout
    (one,) = world.do("resume", "--json").json["runs"]
    assert one["id"] == run and one["steps_done"] and one["in_doubt"] == [] and one["can_be_executed"]
    done = world.do("resume", "--exec")
    assert f"{run} is done" in done.stderr
    assert len(service.bookings()) == 1 and world.read("plan.md") == "new\n"
    assert world.do("resume").stdout.startswith("Nothing to resume")
    assert "nothing to resume" in world.do("resume", run, code=2).stderr
    world.undo(run)
    assert world.read("plan.md") == "old\n" and not service.bookings()


def test_a_killed_run_can_be_taken_back_instead(world: Workspace) -> None:
    world.save()
    assert act(world, "crash").code == -9
    world.do("resume")
    run = run_of(world, "nightly")
    world.undo(run)
    assert world.read("plan.md") == "old\n" and not service.bookings()
    assert world.do("resume").stdout.startswith("Nothing to resume")
    assert "for you" not in world.do("status").stdout


def test_a_run_without_a_key_cannot_be_executed_again(world: Workspace) -> None:
    world.save()
    assert act(world, "keyless").code == -9
    world.do("resume")
    run = run_of(world, "keyless")
    said = world.do("resume", run, "--exec", code=2)
    assert "has no key" in said.stderr and f"takeback undo {run}" in said.stderr
    assert "nothing was started" in world.do("resume", "--exec", code=2).stderr


def test_a_program_that_is_gone(world: Workspace, tmp_path: Path) -> None:
    world.save()
    script = tmp_path / "agent.py"
    script.write_text(Path(__file__).with_name("agent.py").read_text())
    subprocess.run([sys.executable, str(script), "crash"], cwd=world.root, env=environment(world.home))
    world.do("resume")
    script.unlink()
    said = world.run("resume", "--exec", "--json")
    assert said.code == 2 and "can't open file" in said.stderr
    assert json.loads(said.stderr.splitlines()[-1])["exit_code"] == 2


def test_a_program_that_dies_once_more(world: Workspace) -> None:
    world.save()
    assert act(world, "crash").code == -9
    Path(service.folder() / "dead").unlink()
    said = world.do("resume", "--exec", code=128 + 9)
    assert "nightly: interrupted" in said.stderr and "--exec" in said.stderr
    assert "is done" in world.do("resume", "--exec").stderr
    assert len(service.bookings()) == 1


def test_a_plan_that_was_killed_is_resumed(world: Workspace) -> None:
    tool = (
        "from pathlib import Path\nimport os\n\ndef die():\n    mark = Path(os.environ['SERVICE'], 'dead')\n"
    )
    tool += "    if not mark.exists():\n        mark.touch()\n        os.kill(os.getpid(), 9)\n"
    world.human("tools.py", tool + "\ndef write():\n    Path('plan.md').write_text('planned\\n')\n")
    steps = [{"id": "write", "tool": "tools:write"}, {"id": "die", "tool": "tools:die", "after": ["write"]}]
    world.human("plan.json", json.dumps({"name": "plan", "steps": steps}))
    world.save()
    # Its command line means a folder: the one in which it was given.
    words = ["-C", world.root.name, "plan", "run", "plan.json"]
    assert run_command(words, cwd=world.root.parent, home=world.home).code == -9
    told = world.do("resume").stdout
    assert "plan: interrupted" in told and "1 step done, stopped in die" in told
    assert "is done" in world.do("resume", "--exec").stderr
    assert world.read("plan.md") == "planned\n"


# Replay and past moments


def test_a_run_is_replayed_with_its_results_and_nothing_happens(world: Workspace) -> None:
    world.save()
    act(world, "crash")
    world.do("resume", "--exec")
    run = run_of(world, "nightly")
    world.undo(run)
    before, events = world.look(), world.do("status", "--json").json["events"]
    told = world.do("replay", run).stdout
    for text in (
        "the run 'nightly' began",
        "add(1, 2) done  → 3",
        "was interrupted",
        "was resumed",
        "committed",
    ):
        assert text in told
    assert f"undo of {run} began" in told.splitlines()[-2]
    moments = world.do("replay", run, "--json").json["moments"]
    assert [m["event"] for m in moments] == sorted(m["event"] for m in moments)
    remembered = [m["memory"] for m in moments]
    assert remembered[0] == {} and {"goal": "tidy"} in remembered and remembered[-1] == {}
    step = next(m["id"] for m in moments if m["what"] == "step edit began")
    part = world.do("replay", run, "--to", step, "--json").json["moments"]
    assert part[-1]["what"] == "step edit done" and part == moments[: len(part)]
    last = str(part[-1]["event"])
    assert world.do("replay", run, "--to", last, "--json").json["moments"] == part
    assert not service.bookings() and world.changes_since(before) == []
    assert world.do("status", "--json").json["events"] == events


@pytest.mark.parametrize("words", [("replay", "a1"), ("replay", "r999"), ("replay", "r3", "--to", "r999")])
def test_a_replay_of_nothing(world: Workspace, words: tuple[str, ...]) -> None:
    world.save()
    world.agent("true")
    assert world.do(*words, code=2).stderr.startswith("takeback: ")
    assert world.do("replay", "r3", "--to", "1", code=2).stderr.startswith("takeback: r3 had not begun")
    assert "numbered from 1 to" in world.do("replay", "r3", "--to", "999", code=2).stderr


def test_show_tells_how_things_stood(world: Workspace) -> None:
    world.save()
    act(world, "crash")
    world.do("resume", "--exec")
    run = run_of(world, "nightly")
    data = world.do("show", run, "--json").json
    edit, *books = [step["id"] for step in data["steps"]]
    calls = {call["name"]: call for call in data["then"][0]["calls"]}
    assert calls["add"]["result"] == 3 and calls["book"]["result"] == {"room": "room"}
    assert data["then"][0]["memory"] == {"goal": "tidy"}
    world.undo(run)
    (then,) = world.do("show", edit, "--json").json["then"]
    assert then["memory"] == {} and [step["state"] for step in then["steps"]] == ["done"]
    assert [call["name"] for call in then["calls"]] == ["add"]
    (then,) = world.do("show", books[-1], "--json").json["then"]
    assert then["memory"] == {"goal": "tidy"} and not any(step["taken_back"] for step in then["steps"])
    shown = world.do("show", edit).stdout
    assert shown.startswith(f"{edit}  step edit  taken back") and "returned 3" in shown
    assert "goal = " not in world.do("show", run).stdout
    assert 'goal = "tidy"' in world.do("show", books[-1]).stdout
    assert "there is no step s999" in world.do("show", "s999", code=2).stderr
