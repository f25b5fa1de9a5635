"""Compaction by `takeback gc` as a user meets it: announced, done, and told of wherever it matters."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest

from takeback.settings.environment import witness_folder
from takeback.testing import crash
from tests.cli.processes import on_terminal
from tests.world.aging import age, forget_witness
from tests.world.cli import Workspace

LATER = {"told_us": 1, "format": 1}
"""Announced long ago."""


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    """An old history of 13 actions, one of them taken back, and one recent action."""
    made = Workspace.at(tmp_path)
    made.human("a", "mine")
    made.do("init")
    made.do("save", "once")
    for n in range(12):
        made.agent(f"echo {n} > f{n}; echo {n} > a", name=f"old{n}")
    made.agent("echo gone > g", name="back")
    made.do("undo")
    grow_old(made)
    made.agent("echo new > new", name="new")
    return made


def state(world: Workspace) -> Path:
    (found,) = (world.home / "workspaces").iterdir()
    return found


def grow_old(world: Workspace) -> None:
    age(state(world), 45)
    forget_witness(witness_folder())


def told_before(world: Workspace) -> None:
    (state(world) / "compaction.json").write_text(json.dumps(LATER))


def test_the_first_time_it_is_announced_and_done_a_day_later(world: Workspace) -> None:
    before = world.do("export").stdout
    du = world.do("du", "--json").json
    assert du["compactable_records"] > 20 and du["compactable_bytes"] > 1000
    assert "older than the limits" in world.do("du").stdout
    said = world.do("gc").stdout
    assert (
        "can be compacted" in said
        and "Nothing was compacted yet" in said
        and 'keep-journal = "forever"' in said
    )
    said = world.do("gc").stdout  # the same day: still nothing
    assert "Nothing was compacted yet" in said
    assert world.do("export").stdout.startswith(before)
    told_before(world)
    done = world.do("gc").stdout
    assert done.startswith("Compacted ") and "to what an audit needs" in done
    assert "can be compacted" not in world.do("gc").stdout
    said = world.do("verify", "--all").stdout
    assert "complete, in order and unaltered" in said and "were compacted by gc on" in said
    world.do("verify")
    world.do("verify", "--deep")


def test_what_was_compacted_is_shown_as_such_and_the_rest_as_ever(world: Workspace) -> None:
    old, back, new = world.action("old3"), world.action("back"), world.action("new")
    listed = [
        (entry["id"], entry["name"], entry["at"])
        for entry in world.do("log", "-n", "0", "--json").json["entries"]
    ]
    assert world.do("gc", "--yes", "--json").json["compacted"]["done"]
    entries = {entry["id"]: entry for entry in world.do("log", "-n", "0", "--json").json["entries"]}
    assert [(id, entries[id]["name"], entries[id]["at"]) for id, _, _ in listed] == listed
    assert entries[old]["compacted"] and not entries[old]["taken_back"] and entries[new]["compacted"] is None
    assert entries[back]["compacted"] and entries[back]["taken_back"]
    log = world.do("log", "-n", "0").stdout
    (line,) = [line for line in log.splitlines() if old in line.split()[:3]]
    assert "old3" in line and line.rstrip().endswith("compacted")
    shown = world.do("show", old).stdout
    assert "its details were removed from the history by gc on" in shown
    for words in (["undo", old], ["diff", old], ["undo", "--preview", old]):
        refused = world.do(*words, code=3)
        assert "was compacted" in refused.stderr and "nothing was changed" in refused.stderr
    assert world.do("undo", back).stdout.startswith("Nothing")
    checkpoint = next(
        id for id, entry in entries.items() if entry["kind"] == "checkpoint" and entry["name"] == "once"
    )
    refused = world.do("restore", checkpoint, code=3)
    assert "was compacted" in refused.stderr
    assert "was compacted" in world.do("undo", "--to", checkpoint, code=3).stderr
    world.do("show", checkpoint)
    world.do("replay", entries[old]["run"])
    exported = [json.loads(line) for line in world.do("export").stdout.splitlines()]
    assert any("compacted" in line for line in exported)
    world.undo()
    assert not world.has("new")
    assert world.do("undo").stdout.startswith("Nothing to take back")
    world.do("redo")
    assert world.read("new") == "new\n"
    world.do("status")
    world.do("verify", "--all")


@pytest.mark.parametrize("setting", ['keep-journal = "forever"', 'keep-journal = "60d"', "keep-days = 0"])
def test_the_settings_turn_it_off(world: Workspace, setting: str) -> None:
    world.configure(f"[store]\n{setting}\n")
    assert world.do("gc", "--yes", "--json").json["compacted"] is None
    assert world.do("du", "--json").json["compactable_records"] == 0


@pytest.mark.parametrize(
    "text, why",
    [
        ('keep-journal = "soon"', "keep-journal"),
        ('keep-journal = "0d"', "keep-journal"),
        ('keep-journal = "10d"', "shorter than keep-days"),
        ('keep-days = 0\nkeep-journal = "90d"', "without a limit"),
        ("keep-journal = 90", "keep-journal"),
    ],
)
def test_a_wrong_setting_is_refused(world: Workspace, text: str, why: str) -> None:
    world.human("takeback.toml", f"[store]\n{text}\n")
    refused = world.do("gc", code=2)
    assert why in refused.stderr and "is not valid" in refused.stderr


def test_a_gc_by_itself_never_comes_first(world: Workspace) -> None:
    world.configure("[store]\nquota-bytes = 1\n")
    (state(world) / "generation").unlink(missing_ok=True)
    world.do("save", "over the quota")
    assert not (state(world) / "compaction.json").exists()
    assert "compacted" not in world.do("log", "-n", "0").stdout


def test_tampering_with_what_is_left_is_found(world: Workspace) -> None:
    world.do("gc", "--yes")
    path = state(world) / "journal.db"
    db = sqlite3.connect(path)
    (seq, body) = db.execute(
        "SELECT seq, body FROM events WHERE substr(body, 1, 1) = x'02' AND instr(body, CAST('old4' AS BLOB)) > 0"
    ).fetchone()
    db.execute("UPDATE events SET body = ? WHERE seq = ?", (body.replace(b"old4", b"new4"), seq))
    db.commit()
    db.close()
    said = world.do("verify", "--all", code=5).stderr
    assert f"event {seq}: " in said and "changed after it was compacted" in said


def kill_at(world: Workspace, point: str, nth: int = 1) -> None:
    done = crash.run(point, nth, ["takeback", "-C", str(world.root), "gc", "--yes"], cwd=world.root)
    assert done.returncode == crash.KILLED, done.stderr


@pytest.mark.parametrize(
    "point",
    ["compaction-began", "compaction-replaced", "compaction-ending", "compaction-ended", "compaction-shrunk"],
)
def test_killed_anywhere_it_goes_on(world: Workspace, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_HOME", str(world.home))
    old = world.action("old3")
    kill_at(world, point)
    world.do("verify", "--all")
    is_over = point in ("compaction-ended", "compaction-shrunk")
    said = world.do("status").said
    assert ("finished the interrupted compaction" in said) == (not is_over)
    world.do("verify", "--all")
    assert "was compacted" in world.do("undo", old, code=3).stderr
    world.undo()
    assert not world.has("new")
    world.do("verify", "--all")


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_it_asks(world: Workspace, answer: str) -> None:
    code, shown = on_terminal(world, "gc", answer=answer)
    assert code == 0
    assert "Compact them?" in shown and 'keep-journal = "forever"' in shown
    if answer == "y":
        assert "to what an audit needs, which freed" in shown
        return
    assert "You declined that" in shown
    told = json.loads((state(world) / "compaction.json").read_text())
    (state(world) / "compaction.json").write_text(json.dumps(told | {"told_us": 1}))
    assert "You declined that" in world.do("gc").stdout  # a year later, and nobody is asked behind their back
    assert world.do("gc", "--yes", "--json").json["compacted"]["done"]


def test_an_agent_cannot_compact(world: Workspace) -> None:
    refused = world.run("run", "--", sys.executable, "-m", "takeback", "gc", "--yes")
    assert refused.code == 3 and "an agent cannot remove details" in refused.stderr
    world.agent(f"{sys.executable} -m takeback gc")
    assert not (state(world) / "compaction.json").exists()


def test_a_compacted_moment_is_refused_and_a_file_of_it_too(world: Workspace) -> None:
    old, new = world.action("old3"), world.action("new")
    assert world.do("gc", "--yes", "--json").json["compacted"]["done"]
    before = world.look()
    for words in (("restore", f"before {old}"), ("diff", f"after {old}"), ("show", f"{old}:a")):
        said = world.do(*words, code=3).stderr
        assert f"{old} was compacted: its details were removed from the history by gc on" in said, words
        assert "keep-journal" in said
    assert world.look() == before
    assert world.do("show", f"{new}:a").stdout == "11\n", "what came later is known"
    assert [line["why"] for line in world.do("blame", "a", "--json").json["lines"]] == ["first"]
