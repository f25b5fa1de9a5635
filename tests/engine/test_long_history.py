"""A command reads what it touches of a long history: the records that its process decodes are counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

import takeback
from benchmarks._long_history import LongHistory
from takeback.core import events as e
from takeback.storage.journal.sqlite.journal import SqliteJournal

EVENTS = 6_000
"""Some 3,000 actions."""
SHOWN_MAX = 60
RECORDS_MAX = {"status": 40, "undo": 30, "undo --path": 80, "hook": 40}
FLAT_MAX, TREE_MAX = 150, 1_200
"""A tree says what whole sessions changed, so it reads the few sessions that its entries belong to."""

COUNTING = """
import sys
from takeback.storage.journal import batch
unseal, read = batch.unseal, []
def counting(body, name):
    read.append(name)
    return unseal(body, name)
batch.unseal = counting
place = sys.argv.pop(1)
try:
    if sys.argv[1] == "hook":
        from takeback.agents.once import tell
        code = tell("claude-code", sys.stdin.buffer.read())
    else:
        from takeback.cli import main
        code = main()
finally:
    with open(place, "w") as file:
        file.write(str(len(read)))
sys.exit(code)
"""


@dataclass
class LongWorkspace:
    """A workspace whose first action changed old.txt, with thousands of actions since."""

    root: Path
    home: Path

    def decoded(self, *words: str, event: object = None) -> int:
        """Run a command; return how many records it decoded."""
        place = self.home / "decoded"
        command = [sys.executable, "-c", COUNTING, str(place), *words]
        env = os.environ | {"TAKEBACK_HOME": str(self.home), "CLAUDE_PROJECT_DIR": str(self.root)}
        done = subprocess.run(
            command,
            cwd=self.root,
            env=env,
            input=json.dumps(event).encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return int(place.read_text())


@pytest.fixture
def long(tmp_path: Path) -> LongWorkspace:
    found = LongWorkspace(tmp_path / "work", tmp_path / "state")
    found.root.mkdir()
    for name in ("old.txt", "new.txt"):
        (found.root / name).write_text("first\n")
    found.decoded("save", "first")
    found.decoded("run", "--", "sh", "-c", "echo more >> old.txt")
    (state,) = (found.home / "workspaces").iterdir()
    journal = SqliteJournal(state / "journal.db")
    marks = [mark for record in journal.read() for mark in getattr(record.event, "marks", ())]
    LongHistory(journal, tuple({mark.resource: mark for mark in marks}.values())).grow(EVENTS)
    journal.close()
    assert found.decoded("status") > EVENTS  # the index is made
    return found


def test_the_records_that_commands_read(long: LongWorkspace) -> None:
    long.decoded("run", "--", "sh", "-c", "echo more >> new.txt")
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(long.root), "tool_name": "Bash"}
    event |= {"tool_use_id": "t1", "tool_input": {"command": "true"}}  # type: ignore[dict-item]
    read = {
        "status": long.decoded("status"),
        "undo": long.decoded("undo"),
        "undo --path": long.decoded("undo", "--path", "old.txt"),
        "hook": long.decoded("hook", event=event),
    }
    assert (long.root / "old.txt").read_text() == (long.root / "new.txt").read_text() == "first\n"
    assert not {name: count for name, count in read.items() if count > RECORDS_MAX[name]}, read


def test_a_run_is_shown_and_an_undo_without_reading_all_that_was_before(long: LongWorkspace) -> None:
    long.decoded("run", "--", "sh", "-c", "echo more >> new.txt")
    long.decoded("undo")
    (state,) = (long.home / "workspaces").iterdir()
    journal = SqliteJournal(state / "journal.db")
    later = list(journal.read(after=EVENTS))
    journal.close()
    run = next(record.id for record in reversed(later) if isinstance(record.event, e.RunBegan))
    undo = next(record.id for record in reversed(later) if isinstance(record.event, e.RollbackBegan))
    read = {id: long.decoded("show", id) for id in (run, undo)}
    with takeback.open(long.root, home=long.home, watching=False) as tb, tb.run("open") as run_now:
        with run_now.step("one") as step:
            action = run_now.call(len, [1, 2], key="call")
        checkpoint = run_now.checkpoint("here")
        run_now.memory["n"] = action
        (call,) = tb.history.calls_of(run_now.id, "call")
    read |= {id: long.decoded("show", id) for id in (checkpoint.id, step.id, call)}
    assert max(read.values()) <= SHOWN_MAX, read


def test_the_log_reads_what_it_shows(long: LongWorkspace) -> None:
    long.decoded("run", "--", "sh", "-c", "echo more >> new.txt")
    first = LongHistoryTimes(long)
    filters = [
        ("-n", "20"),
        ("-n", "20", "--json"),
        ("-n", "20", "--flat"),
        ("-n", "20", "--changed"),
        ("-n", "20", "--agent", "Explore"),
        ("-n", "20", "--grep", "sed -i"),
        ("-n", "20", "--run", first.last_run),
        ("-n", "20", "--since", "1h"),
        ("-n", "20", "--until", "30d"),
    ]
    read = {words: long.decoded("log", *words) for words in filters}
    is_flat = {words: bool({"--flat", "--json"} & {*words}) for words in filters}
    too_much = {words: n for words, n in read.items() if n > (FLAT_MAX if is_flat[words] else TREE_MAX)}
    assert not too_much, read


def test_numbers_of_a_period_cost_that_period(long: LongWorkspace) -> None:
    long.decoded("run", "--", "sh", "-c", "echo more >> new.txt")
    at = LongHistoryTimes(long).last_at
    assert long.decoded("stats", "--since", at) <= 120
    assert long.decoded("stats", "--since", "2020-01-01") > EVENTS


class LongHistoryTimes:
    """What the journal of a long history says of its last run."""

    def __init__(self, long: LongWorkspace) -> None:
        (state,) = (long.home / "workspaces").iterdir()
        journal = SqliteJournal(state / "journal.db")
        runs = [record for record in journal.read() if isinstance(record.event, e.RunBegan)]
        journal.close()
        self.last_at = datetime.fromtimestamp(runs[-1].at_us / 1e6, UTC).isoformat()
        self.last_run = runs[-2].id


LIFE_MAX = {
    "log --path": 40,
    "blame": 40,
    "show ID:F": 40,
    "diff moment -- F": 40,
    "restore": 60,
    "last-clean": 40,
}


def test_the_life_of_a_file_is_read_from_its_own_records(long: LongWorkspace) -> None:
    """The file was changed before thousands of actions, and again after them."""
    long.decoded("run", "--", "sh", "-c", "echo last >> old.txt")
    (state,) = (long.home / "workspaces").iterdir()
    journal = SqliteJournal(state / "journal.db")
    first = next(record for record in journal.read() if isinstance(record.event, e.ActionBegan))
    between = journal.get(EVENTS // 2)
    journal.close()
    assert between is not None
    then = datetime.fromtimestamp(between.at_us / 1e6, UTC).isoformat()
    read = {
        "log --path": long.decoded("log", "--path", "old.txt"),
        "blame": long.decoded("blame", "old.txt"),
        "show ID:F": long.decoded("show", f"{first.id}:old.txt"),
        "diff moment -- F": long.decoded("diff", then, "--", "old.txt"),
        "restore": long.decoded("restore", f"before {first.id}", "--path", "old.txt", "--preview"),
        "last-clean": long.decoded("show", "last-clean"),
    }
    assert not {name: count for name, count in read.items() if count > LIFE_MAX[name]}, read
