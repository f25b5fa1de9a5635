"""Bisect: which of the agent's calls broke it, found in views and never in the folder itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import takeback
from takeback.core.bisection import BisectTrial
from takeback.core.codec import value_digest
from takeback.errors import RunBusy
from takeback.workspace.past.bisect import FILE, KnownTrial, KnownTrials
from takeback.workspace.workspace import Workspace
from tests.cli.inside import Inside

SUITE = (sys.executable, "-m", "unittest", "-q", "tests")
TESTS = """
import unittest, shop

class Prices(unittest.TestCase):
    def test_sum(self): self.assertEqual(shop.total([1, 2]), 3)
    def test_nothing(self): self.assertEqual(shop.total([]), 0)
    def test_parts(self): self.assertTrue(shop.parts())
"""
GOOD = "def total(prices):\n    return sum(prices)\n\n\ndef parts():\n    return [PARTS]\n"
BAD = GOOD.replace("sum(prices)", "sum(prices) or 1")


def project(root: Path) -> Path:
    root.mkdir()
    (root / "shop.py").write_text(GOOD.replace("PARTS", "0"))
    (root / "tests.py").write_text(TESTS)
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    return root


def work(tb: Workspace, texts: Sequence[str], *, each: int = 20) -> list[str]:
    """An agent writes shop.py again and again, with a prompt for every so many calls. Return its calls."""
    within = session = tb.session("shop", key="s", actor="claude-code")
    found = []
    for number, text in enumerate(texts):
        if number % each == 0:
            within = session.step(f"prompt {number // each}", ref=f"p{number}")
        action = within.begin("Edit", {"file_path": "shop.py"}, call_id=f"t{number}", effect="restorable")
        assert isinstance(action, takeback.Action)
        (tb.root / "shop.py").write_text(text.replace("PARTS", str(number + 1)))
        action.end("ok")
        found.append(action.id)
    session.end()
    return found


def witness(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return inode, time of the last change and content of everything in a folder, by an independent look."""
    found = {}
    for path in sorted([root, *root.rglob("*")]):
        seen = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (seen.st_ino, seen.st_ctime_ns, content)
    return found


def test_two_hundred_calls_take_at_most_nine_runs_of_a_real_test_suite(tmp_path: Path) -> None:
    root = project(tmp_path / "shop")
    with takeback.open(root) as tb:
        tb.save("start")
        calls = work(tb, [GOOD] * 136 + [BAD] * 64)
        assert len(calls) == 200
        before = witness(root)
        search = tb.past.bisection(SUITE)
        found = search.run()
        assert witness(root) == before, "the folder itself was not touched"
        assert found.first_bad is not None and found.first_bad.id == calls[136]
        assert found.runs <= 9 and len(found.states) == 201
        assert tb.past.prompt(found.first_bad) == "prompt 6"
        assert tb.stages.names() == [] and not list(tb.state.glob("bisect.[!j]*"))
        tb.undo(calls[136], on_conflict="keep")


@pytest.fixture
def shop(tmp_path: Path) -> Inside:
    root = project(tmp_path / "work")
    made = Inside(root, tmp_path / "state")
    with takeback.open(root, home=made.home) as tb:
        tb.save("start")
        work(tb, [GOOD, GOOD, GOOD, BAD, BAD], each=2)
    return made


def calls_of(shop: Inside) -> list[str]:
    entries = shop.do("log", "-n", "0", "--json").json["entries"]
    return [entry["id"] for entry in reversed(entries) if entry["kind"] == "action"]


def test_what_a_person_sees(shop: Inside) -> None:
    broke = calls_of(shop)[3]
    said = shop.do("bisect", "--", *SUITE).stdout.splitlines()
    assert said[0].startswith("5 calls between c2 and now; testing in private views …")
    assert said[0].endswith("  5: fails  2: ok  3: ok  4: fails")
    assert said[1].startswith(f"{broke} broke it: Edit(shop.py)")
    assert 'claude-code, prompt "prompt 1"' in said[1]
    assert "    +    return sum(prices) or 1" in said
    assert said[-1].endswith(
        f"see it   takeback diff {broke}        take back just that   takeback undo {broke}"
    )


def test_what_a_machine_gets(shop: Inside) -> None:
    calls = calls_of(shop)
    data = shop.do("bisect", "--json", "--good", f"after {calls[0]}", "--", *SUITE).json
    assert data["first_bad"] == calls[3] and data["suspects"] == [calls[3]]
    assert data["calls"] == 4 and data["runs"] == len(data["trials"]) == 4
    assert data["good"] == f"after {calls[0]}" and data["bad"] == "now"
    assert (data["actor"], data["prompt"], data["name"]) == ("claude-code", "prompt 1", "Edit(shop.py)")
    assert [change["target"] for change in data["changed"]] == ["shop.py"]
    assert {trial["moment"]: trial["result"] for trial in data["trials"]} == {
        f"after {calls[4]}": "fails",
        f"after {calls[1]}": "ok",
        f"after {calls[2]}": "ok",
        f"after {calls[3]}": "fails",
    }


def test_your_own_edit_is_told_apart_from_the_agents(shop: Inside) -> None:
    shop.do("undo", "--to", f"before {calls_of(shop)[3]}")
    shop.human("shop.py", BAD.replace("PARTS", "0"))
    said = shop.do("bisect", "--good", "c2", "--", *SUITE).stdout
    drift = next(e["id"] for e in shop.do("log", "--json").json["entries"] if e["kind"] == "outside")
    assert f"You broke it, {drift}: changed shop.py (you," in said
    assert f'takeback restore "before {drift}" --path shop.py' in said


def test_what_is_wrong_with_the_question(shop: Inside) -> None:
    calls, before = calls_of(shop), witness(shop.root)
    wrong = {
        ("--", "true"): "the command passes now, so there is nothing to find",
        ("--", "false"): "the command fails at the moment c2 already (exit code 1)",
        ("--", "no-such-program"): "the command cannot be tried now: no-such-program: command not found",
        ("--", "sh", "-c", "exit 125"): "the command cannot be tried now: it says that it cannot be tried",
        (
            "--good",
            f"after {calls[4]}",
            "--",
            *SUITE,
        ): f"nothing was changed between after {calls[4]} and now",
        ("--bad", f"after {calls[1]}", "--", *SUITE): f"the command passes at the moment after {calls[1]}",
        ("--good", "tomorrow", "--", "false"): "'tomorrow' is not a moment",
    }
    for words, message in wrong.items():
        done = shop.do("bisect", *words, code=2)
        assert f"takeback: {message}" in done.stderr, (words, done)
    assert witness(shop.root) == before
    assert shop.do("bisect", "--json", "--", "true", code=2).json["error"]["code"] == "usage"


def test_what_cannot_be_tried_is_passed_over(shop: Inside) -> None:
    calls = calls_of(shop)
    script = f"grep -q '\\[[34]\\]' shop.py && exit 125; exec {' '.join(SUITE)}"
    said = shop.do("bisect", "--", "sh", "-c", script).stdout.splitlines()
    assert said[0].endswith("5: fails  2: ok  3: skipped  4: skipped")
    assert said[1].startswith("One of these broke it")
    assert [line.split()[0] for line in said[2:]] == calls[2:5]


def test_what_the_command_writes_stays_in_its_view(shop: Inside) -> None:
    before = witness(shop.root)
    script = f"echo junk > junk; rm -rf .git; echo loud; {' '.join(SUITE)}"
    done = shop.do("bisect", "--", "sh", "-c", script)
    assert "broke it" in done.stdout and "loud" not in done.said
    assert witness(shop.root) == before


def test_it_works_without_namespaces(shop: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", "off")
    before = witness(shop.root)
    data = shop.do("bisect", "--json", "--", *SUITE).json
    assert data["first_bad"] == calls_of(shop)[3] and witness(shop.root) == before


def test_after_a_kill_it_goes_on_where_it_stopped(shop: Inside, tmp_path: Path) -> None:
    """The third trial never ends; the search is killed in it, and then tried again without the hindrance."""
    calls, trap = calls_of(shop), tmp_path / "trap"
    trap.write_text("")
    nap = f"600.{os.getpid()}{time.monotonic_ns()}"
    script = f"[ -e {trap} ] && grep -q '\\[3\\]' shop.py && exec sleep {nap}; exec {' '.join(SUITE)}"
    env = os.environ | {"TAKEBACK_HOME": str(shop.home)}
    words = [sys.executable, "-m", "takeback", "bisect", "--json", "--", "sh", "-c", script]
    killed = subprocess.Popen(
        words, cwd=shop.root, env=env, stdout=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (napping := processes_with(nap)) and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    with takeback.open(shop.root, home=shop.home) as tb:
        assert len(json.loads((tb.state / FILE).read_text())["trials"]) == 2
        with pytest.raises(RunBusy, match="another bisect is at work"):
            tb.past.bisection(["true"]).run()
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    for pid in napping:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    trap.unlink()
    data: dict[str, Any] = shop.do("bisect", "--json", "--", "sh", "-c", script).json
    assert data["first_bad"] == calls[3] and data["runs"] == 4, "what was known was not tried again"
    assert shop.do("stage", "list", "--json").json["stages"] == [], "the view of the killed one is gone"


def processes_with(word: str) -> list[int]:
    """Return the processes that sleep for exactly this long."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().split(b"\0")[:2] == [b"sleep", word.encode()]:
                found.append(int(path.parent.name))
    return found


def test_what_an_interrupted_search_knew_counts_for_the_same_command_alone(shop: Inside) -> None:
    with takeback.open(shop.root, home=shop.home) as tb:
        actions = [tb.history.actions[id] for id in calls_of(shop)]
        known = {a.ended: KnownTrial(BisectTrial.FAILS, 1) for a in actions[1:]}
        known |= {actions[0].ended: KnownTrial(BisectTrial.PASSES, 0)}

        def bisect(command: tuple[str, ...], *, again: bool = False) -> str:
            kept = KnownTrials(1, value_digest(list(SUITE)), os.getcwd(), dict(known))
            (tb.state / FILE).write_bytes(msgspec.json.encode(kept))
            found = tb.past.bisection(command).run(again=again).first_bad
            return found.id if found else ""

        assert bisect(SUITE) == actions[1].id, "nothing is tried again"
        assert bisect((*SUITE, "tests")) == actions[3].id
        assert bisect(SUITE, again=True) == actions[3].id


def test_a_view_shows_the_workspace_as_it_was(shop: Inside) -> None:
    calls = calls_of(shop)
    with takeback.open(shop.root, home=shop.home) as tb:
        for text, parts in ((f"before {calls[0]}", "0"), (f"after {calls[2]}", "3"), ("0s ago", "5")):
            moment = tb.past.moment(text)
            way = tb.past.changes_to(moment)
            assert len(way) == (0 if parts == "5" else len({change.target for change in way}) or 1)
            stage = tb.stages.new("then", at=moment.name, way=way)
            done = stage.run(["grep", "-q", f"\\[{parts}\\]", "shop.py"])
            assert done.code == 0, text
            assert [c for c in stage.changes() if c.before != c.after] == [], "this is where the view begins"
            stage.drop()
