"""The picture of a day: two agents with real hooks, a human between them, and what became of all of it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from takeback.cli.app import COMMANDS, GROUPS
from takeback.cli.text import cells
from takeback.core import events as e
from takeback.workspace.opening import open_workspace
from takeback.workspace.results import Action
from tests.world.cli import Result
from tools.pictures import scene as scenes
from tools.pictures.scene import AgentAtWork, Scene

from .conftest import Call
from .inside import Inside

WIDTHS = (60, 80, 120, 200)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Scene]:
    made = scenes.begin(tmp_path / "day")
    with made.going_on():
        yield made


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    made = scenes.begin(tmp_path_factory.mktemp("lived") / "day")
    with made.going_on():
        scenes.morning(made)
    return made


@pytest.fixture
def seen(lived: Scene) -> Iterator[Scene]:
    """A day that is only looked at, so that several tests may share it."""
    with lived.going_on():
        yield lived


@pytest.fixture
def day(empty: Scene) -> Scene:
    scenes.morning(empty)
    return empty


def lines(scene: Scene, *words: str, columns: int = 200) -> list[str]:
    return scene.takeback("log", *words, columns=columns).splitlines()


def line(scene: Scene, text: str, *words: str) -> str:
    (found,) = [line for line in lines(scene, *words) if text in line]
    return found


def test_a_day_is_a_tree_newest_at_the_bottom(seen: Scene) -> None:
    shown = lines(seen)
    order = [
        "checkpoint",
        "claude-code",
        'prompt "add rate limiting to the login endpoint"',
        "2 calls changed nothing",
        "Edit limits.py",
        "Bash sh run-tests.sh > report.txt",
        'prompt "now clean up and commit"',
        "Bash git commit",
        "outside any action",
        "before lunch",
        "codex",
        'prompt "speed up the tests"',
        "apply_patch",
    ]
    places = [next(n for n, line in enumerate(shown) if text in line) for text in order]
    assert places == sorted(places), shown
    depth = {
        text: len(shown[place]) - len(shown[place][5:].lstrip())
        for text, place in zip(order, places, strict=True)
    }
    assert depth["claude-code"] < depth['prompt "now clean up and commit"'] < depth["Bash git commit"]


def test_each_entry_says_what_it_changed_by_name_and_what_became_of_it(seen: Scene) -> None:
    assert line(seen, "Edit limits.py").split()[-1] == "changed"
    assert "failed" in line(seen, "run-tests.sh") and line(seen, "run-tests.sh").endswith("report.txt")
    assert line(seen, "mkdir -p build").endswith("build: 9 files")
    assert line(seen, "rm -f").endswith("report.txt, .env")
    assert "main → " in line(seen, "git commit")
    assert "asked, allowed by you, cannot be taken back" in line(seen, "git push")
    assert line(seen, "outside any action").split()[1] == "you"
    assert line(seen, "outside any action").endswith("README.md")
    assert "9 calls" in line(seen, "session", "-n", "15", "--agent", "claude-code")


def test_what_is_taken_back_is_said_with_the_call_its_prompt_and_its_session(day: Scene) -> None:
    day.takeback("undo")
    assert "taken back" in line(day, "apply_patch tests") and "partly" not in line(day, "apply_patch tests")
    assert "partly taken back" in line(day, "codex")
    assert "partly taken back" in line(day, "speed up the tests")
    assert "you" in line(day, "undo a") and line(day, "undo a").endswith("tests/conftest.py")
    day.takeback("undo")
    assert "partly" not in line(day, "codex") and "taken back" in line(day, "codex")


def test_no_line_is_wider_than_the_screen_and_no_state_is_lost(day: Scene) -> None:
    day.takeback("undo")
    for columns, words in product(WIDTHS, ((), ("--flat",))):
        shown = lines(day, *words, columns=columns)
        assert max(map(len, shown)) <= columns, shown
        said = " ".join("\n".join(shown).split())
        for state in ("failed", "asked, allowed by you, cannot be taken back", "taken back"):
            assert state in said, (words, state)


def test_what_else_is_shown_of_a_day_fits_the_screen(seen: Scene) -> None:
    entries = json.loads(seen.takeback("log", "--json", "-n", "0"))["entries"]
    ids = {id for entry in entries for id in (entry["id"], entry.get("run"), entry.get("step")) if id}
    looks: list[tuple[str, ...]] = [("show", id) for id in sorted(ids)]
    looks += [("log", "--path", "app.py"), ("log", "--path", "."), ("stage", "list")]
    for words in looks:
        shown = seen.takeback(*words, columns=60)
        assert max(map(cells, shown.splitlines())) <= 60, shown


def test_the_names_in_the_log_are_in_the_order_of_all_lists(empty: Scene) -> None:
    empty.build()
    agent = AgentAtWork(empty, "claude-code", "one")
    agent.prompt("make a mess")
    agent.bash(
        "mkdir node_modules && for n in 1 2 3 4 5; do echo $n > node_modules/$n.js; done; "
        "echo x > build.log; echo x > zebra.txt; rm .env; git branch other"
    )
    (entry, *_) = json.loads(empty.takeback("log", "--json", "--changed"))["entries"]
    branch, *files = entry["names"]
    assert branch.startswith("other → ")
    assert files == ["zebra.txt", ".env", "build.log", "node_modules: 5 files"]


def test_a_call_is_shown_with_its_prompt_and_the_rest_of_its_session_is_counted(seen: Scene) -> None:
    (id,) = [e["id"] for e in json.loads(seen.takeback("log", "--json", "--grep", "git push"))["entries"]]
    said = seen.takeback("show", id)
    assert said.startswith(f"{id}  Bash git push origin main\n")
    assert 'prompt s18 "now clean up and commit", session r3' in said
    assert "By then session r3 had 2 prompts and 9 calls; --all lists them" in said
    assert "Edit limits.py" not in said and "Edit limits.py" in seen.takeback("show", id, "--all")


def test_the_life_of_a_file_offers_only_what_works(day: Scene) -> None:
    day.takeback("save", "now")
    for path in (".", "app.py", ".env", "build"):
        offered = [
            line.split("takeback ", 1)[1] for line in lines(day, "--path", path) if "  takeback " in line
        ]
        assert any(way.startswith("show ") for way in offered)
        for way in offered:
            words = shlex.split(way)
            day.takeback(*words, *{"undo": ["--preview"], "show": ["--json"]}.get(words[0], []))


def test_wide_letters_take_two_columns(empty: Scene) -> None:
    empty.build()
    agent = AgentAtWork(empty, "claude-code", "one")
    agent.prompt("レート制限をログインに追加してください、それからテストも書いてください")
    agent.edit("日本語のとても長いファイルの名前です、本当に長い.txt", "x\n")
    for shown in lines(empty, columns=60):
        assert cells(shown) <= 60, shown


def test_filters(seen: Scene) -> None:
    assert not [line for line in lines(seen, "--agent", "codex") if "claude-code" in line]
    assert any("apply_patch" in line for line in lines(seen, "--agent", "codex"))
    changed = "\n".join(lines(seen, "--changed"))
    assert "changed nothing" not in changed and "checkpoint" not in changed and "Edit limits.py" in changed
    assert [line.split()[-2:] for line in lines(seen, "--grep", "GREP -RN") if "Bash" in line] == [
        ["login", "."]
    ]
    late = "\n".join(lines(seen, "--since", "10 min"))
    assert "codex" in late and "claude-code" not in late
    early = "\n".join(lines(seen, "--until", "10 min"))
    assert "claude-code" in early and "codex" not in early and "before lunch" not in early
    run = line(seen, "codex").split()[2]
    assert "claude-code" not in "\n".join(lines(seen, "--run", run)) and "codex" in "\n".join(
        lines(seen, "--run", run)
    )
    both = "\n".join(lines(seen, "--agent", "codex", "--path", "app.py"))
    assert "apply_patch" in both and "conftest" not in both
    assert lines(seen, "--grep", "nothing has these words") == ["Nothing matches."]
    assert any("there is more" in line for line in lines(seen, "-n", "3"))


def test_what_must_be_seen_is_not_folded(empty: Scene) -> None:
    empty.build()
    agent = AgentAtWork(empty, "claude-code", "one")
    agent.prompt("look around and publish")
    agent.bash("ls")
    agent.bash("false", failed=True)
    agent.bash("git push origin main", runs=False)
    agent.bash("ls tests")
    agent.tell("PreToolUse", tool_name="Bash", tool_input={"command": "sleep 9"}, tool_use_id="open")
    folded, pushed, quiet, at_work = (" ".join(line.split()) for line in lines(empty)[-4:])
    assert folded.endswith("2 calls changed nothing 1 failed")
    assert "git push origin main" in pushed and "cannot be taken back" in pushed
    assert quiet.endswith("1 call changed nothing") and at_work.endswith("Bash sleep 9 unfinished")


def test_what_a_human_allowed_by_its_id_is_said_to_be_asked(empty: Scene) -> None:
    """Codex cannot ask its human, so the human answers on the command line, and the agent tries again."""
    empty.build()
    empty.human("takeback.toml", '[rules.tools]\nask = ["apply_patch"]\n')
    empty.takeback("init", "--accept-config")
    codex = AgentAtWork(empty, "codex", "one")
    codex.prompt("fix it")
    given = {"command": "*** Begin Patch\n*** Update File: app.py\n+x\n*** End Patch\n"}
    codex.tell("PreToolUse", tool_name="apply_patch", tool_input=given, tool_use_id="first")
    assert "1 request waits for your approval" in lines(empty)[-1]
    (request,) = json.loads(empty.takeback("approvals", "--json"))["approvals"]
    empty.takeback("approve", request["id"])
    codex.tell("PreToolUse", tool_name="apply_patch", tool_input=given, tool_use_id="second")
    empty.human("app.py", "x\n")
    codex.tell("PostToolUse", tool_name="apply_patch", tool_input=given, tool_use_id="second")
    assert "asked, allowed by you" in line(empty, "apply_patch app.py")
    codex.bash("echo y > y.txt")
    assert "asked" not in line(empty, "echo y")
    (entry, *_) = json.loads(empty.takeback("log", "--json", "--grep", "apply_patch", "--changed"))["entries"]
    assert entry["asked"] == "asked, allowed by you"
    (agent,) = json.loads(empty.takeback("stats", "--json"))["agents"]
    assert agent["asked"] == 1


def test_runs_of_programs_and_threads_are_in_the_same_tree(inside: Inside) -> None:
    with open_workspace(inside.root, home=inside.home, watching=False) as tb:
        with tb.run("publish", key="p", actor="planner") as run:
            with run.step("edit"):
                inside.human("page.html", "new\n")
            with run.step("send"):
                run.call(print_nothing, "room 4")
        with tb.thread("support", key="chat", actor="helper") as thread, thread.turn("where is my order?"):
            begun = thread.begin("answer", {"path": "reply.txt"}, effect="restorable")
            assert isinstance(begun, Action)
            with begun:
                inside.human("reply.txt", "on its way\n")
    shown = [" ".join(line.split()[1:]) for line in lines_of(inside)]
    assert any(line.startswith("planner r") and "run publish" in line for line in shown)
    assert any(line.startswith("helper r") and "thread support" in line for line in shown)
    words = "\n".join(lines_of(inside))
    assert "step edit" in words and 'turn "where is my order?"' in words
    assert next(line for line in lines_of(inside) if "step edit" in line).endswith("page.html")
    assert next(line for line in lines_of(inside) if "answer reply.txt" in line).endswith("created")


def lines_of(inside: Inside) -> list[str]:
    return inside.run("log", env={"COLUMNS": "120"}).stdout.splitlines()


def print_nothing(_text: str) -> None:
    """Do nothing, as far as anybody knows."""


def test_what_did_that_agent_do_to_that_file_and_take_it_back(day: Scene) -> None:
    """Three commands."""
    (found,) = [
        line for line in lines(day, "--agent", "codex", "--path", "app.py", "--since", "2h") if "a3" in line
    ]
    id = next(word for word in found.split() if word.startswith("a3"))
    assert "+    return True" in day.takeback("diff", id)
    day.takeback("undo", id, "--path", "app.py")
    assert (day.root / "app.py").read_text() == scenes.FILES["app.py"]
    assert (day.root / "tests/conftest.py").exists()


def test_gits_own_upkeep_is_no_noise(day: Scene) -> None:
    before = lines(day)
    day.git("update-index", "--index-version", "4")  # as `git status` does: other bytes, the same entries
    day.takeback("save", "after status")
    shown = lines(day)
    assert [line for line in shown if line not in before] == [shown[-1]] and "after status" in shown[-1]
    agent = AgentAtWork(day, "claude-code", "three")
    agent.prompt("what is the state?")
    agent.bash("git update-index --index-version 2")
    assert "git update-index" not in "\n".join(lines(day))
    assert "1 call changed nothing" in lines(day)[-1]


def test_your_edit_before_the_first_call_does_not_part_a_session(day: Scene) -> None:
    agent = AgentAtWork(day, "claude-code", "five")
    day.human("README.md", "# Other\n")
    agent.prompt("write a file")
    agent.edit("one.txt", "1\n")
    *_, edit, session, _prompt, call = lines(day)
    assert edit.endswith("README.md") and "session" in session and "continued" not in session
    assert "one.txt" in call
    entries = json.loads(day.takeback("log", "--json"))["entries"]
    assert next(entry for entry in entries if entry["kind"] == "outside")["beside_session"]


def test_a_day_that_is_over_has_its_date(day: Scene) -> None:
    day.later(24 * 60)
    shown = lines(day)
    assert shown[0] == "Thu 12 March 2026" and not any("2026" in line for line in shown[1:])
    day.takeback("save", "today")
    assert lines(day)[-2:] == ["Fri 13 March 2026", lines(day)[-1]] and "today" in lines(day)[-1]


def test_a_session_goes_on_below_what_you_did(day: Scene) -> None:
    agent = AgentAtWork(day, "claude-code", "four")
    agent.prompt("write two files")
    agent.edit("one.txt", "1\n")
    day.takeback("save", "in between")
    agent.edit("two.txt", "2\n")
    *_, first, between, again, last = lines(day)
    assert "one.txt" in first and "in between" in between
    assert "session, continued" in again and "two.txt" in last


# For machines


def test_json_has_everything_that_the_text_shows(inside: Inside) -> None:
    inside.agent("echo new > plan.md", name="first")
    inside.agent("exit 3", name="second", code=3)
    said = inside.do("log", "--json").json
    assert said["total"] == len(said["entries"]) and said["more"] is False
    times = [entry["at"] for entry in said["entries"]]
    assert times == sorted(times, reverse=True)
    second, first = [entry for entry in said["entries"] if entry["kind"] == "action"]
    assert (first["what"], first["names"], first["notes"]) == ("first", ["plan.md"], [])
    assert (second["names"], second["notes"][0], second["asked"]) == ([], "failed", None)
    few = inside.do("log", "--json", "-n", "1").json
    assert few["entries"] == said["entries"][:1] and few["more"] and few["total"] == said["total"]
    only = inside.do("log", "--json", "--changed").json["entries"]
    assert [entry["name"] for entry in only] == ["first"]


def test_bad_filters_are_told(inside: Inside) -> None:
    inside.agent("echo new > plan.md")
    for words, said in {
        ("--since", "gestern"): "'gestern' is not a time",
        ("--agent", "nobody"): "no agent 'nobody' has done anything here",
        ("--run", "r999"): "there is no run or step r999",
        ("--run", "c2"): "c2 is not a run or step",
        ("--path", "missing.txt"): "there is no missing.txt",
    }.items():
        done = inside.run("log", *words)
        assert done.code == 2 and said in done.stderr, done


# Numbers


def test_stats_count_by_agent_and_tool(day: Scene) -> None:
    day.takeback("undo")
    shown = day.takeback("stats", "--since", "1d").splitlines()
    claude = next(n for n, line in enumerate(shown) if line.startswith("claude-code"))
    assert "9 actions, 1 failed, 1 asked" in shown[claude]
    assert shown[claude + 1].startswith("  Bash") and "7 actions" in shown[claude + 1]
    codex = next(line for line in shown if line.startswith("codex"))
    assert "3 actions, 1 taken back, 1 undo in" in codex and "kept" in codex
    assert max(map(len, day.takeback("stats", "--since", "1d", columns=60).splitlines())) <= 60


def test_stats_of_a_period(inside: Inside) -> None:
    inside.agent("echo new > plan.md")
    (agent,) = inside.do("stats", "--json").json["agents"]
    assert (agent["agent"], agent["actions"], agent["failed"], agent["undos"]) == ("sh", 1, 0, 0)
    assert agent["bytes_kept"] == 4 and [tool["tool"] for tool in agent["tools"]] == ["takeback run"]
    inside.do("undo")
    (agent,) = inside.do("stats", "--json").json["agents"]
    assert (agent["taken_back"], agent["undos"]) == (1, 1) and agent["undo_s"] > 0
    inside.do("redo")
    (agent,) = inside.do("stats", "--json").json["agents"]
    assert agent["taken_back"] == 0
    assert inside.do("stats", "--json", "--since", "2999-01-01").json["agents"] == []
    assert "No agent has done anything since" in inside.do("stats", "--since", "2999-01-01").stdout


def test_stats_count_what_came_to_a_human(inside: Inside) -> None:
    inside.save()
    with open_workspace(inside.root, home=inside.home, watching=False) as tb:
        refused = e.ActionRefused("deploy", e.Effect.IRREVERSIBLE, "a rule denies it")
        tb.parts.ledger.append(
            [e.RunBegan("nightly", actor="planner"), refused, e.RunHandedOver("stuck")], ""
        )
    (agent,) = inside.do("stats", "--json").json["agents"]
    assert (agent["agent"], agent["handed_over"], agent["refused"], agent["actions"]) == ("planner", 1, 1, 0)
    assert "1 refused, 1 handed over" in inside.do("stats").stdout


# Help


def test_help_is_in_groups_and_each_command_is_in_one(call: Call) -> None:
    shown = call("--help").stdout
    titles = [f"{title}:" for title in GROUPS]
    places = [shown.index(title) for title in titles]
    assert places == sorted(places) and sum(map(len, GROUPS.values())) == len(COMMANDS)
    for title, group in GROUPS.items():
        section = shown[shown.index(f"{title}:") :].split("\n\n")[0]
        assert all(f"  {name} " in section for name in group), title


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_fits_the_screen(columns: int, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (("--help",), ("log", "--help"), ("stats", "--help"), ("undo", "--help")):
        assert max(map(len, call(*words).stdout.splitlines())) <= columns, words


def meant(said: Result) -> str:
    assert said.code == 2
    return said.stderr


def test_what_was_meant(inside: Inside) -> None:
    inside.agent("echo new > plan.md")
    assert "did you mean undo" in meant(inside.run("und"))
    assert "did you mean status" in meant(inside.run("staus"))
    assert "did you mean list" in meant(inside.run("outbox", "lst"))
    assert "did you mean" not in meant(inside.run("qwertz"))
    assert "--preview" in meant(inside.run("undo", "--previw"))
    action = inside.action("agent")
    number = action[1:]
    for words in (("show", f"c{number}"), ("show", f"r{number}"), ("undo", f"r{number}"), ("show", number)):
        assert f"did you mean {action}?" in meant(inside.run(*words)), words
    assert "did you mean" not in meant(inside.run("show", "a999"))


def test_run_accepts_what_its_hint_names(tmp_path: Path, inside: Inside) -> None:
    refused = inside.run("run", "--", "true", env={"HOME": str(inside.root)})
    assert refused.code == 125 and "--allow-home" in refused.stderr
    done = inside.run("run", "--allow-home", "--", "true", env={"HOME": str(inside.root)})
    assert done.code == 0, done


def test_the_scene_can_fail(empty: Scene) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        empty.git("no-such-command")
    with pytest.raises(RuntimeError, match="there is no command"):
        empty.takeback("no-such-command")
