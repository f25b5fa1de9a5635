"""--json: exactly one object on stdout, for success and for every error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from takeback.cli.app import COMMANDS
from tests.world.cli import Result

from .conftest import Call

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def one_object(said: Result) -> dict[str, Any]:
    """The one object, on one line, and nothing else."""
    assert said.stdout.count("\n") == 1 and said.stdout.endswith("\n")
    found: dict[str, Any] = msgspec.json.decode(said.stdout, type=dict[str, Any])
    return found


def error_of(said: Result) -> dict[str, str]:
    found = one_object(said)
    assert found.keys() == {"error"}
    assert found["error"].keys() == {"code", "message", "hint"}
    assert said.stderr == ""
    return dict(found["error"])


@pytest.fixture
def used(call: Call, folder: Path) -> Call:
    """A workspace in which something happened: c2 saved, a4 made, c7 saved."""
    (folder / "plan.md").write_text("old\n")
    call("save", "first")
    call("run", "--name", "agent", "--", "sh", "-c", "echo new > plan.md; echo x > made.md")
    call("save")
    return call


WORDS = {
    "init": (),
    "undo": (),
    "redo": (),
    "save": ("a message",),
    "restore": ("c2",),
    "status": (),
    "log": (),
    "stats": (),
    "show": ("a4",),
    "diff": ("c2",),
    "blame": ("plan.md",),
    "bisect": ("--good", "c2", "--", "grep", "-q", "old", "plan.md"),
    "verify": ("--deep",),
    "gc": (),
    "du": (),
    "completion": ("bash",),
    "replay": ("r3",),
    "resume": (),
    "approvals": (),
    "handover list": (),
}
KEYS = {
    "init": {"root", "checkpoint", "files", "bytes"},
    "undo": {"rollback", "verdict", "items"},
    "redo": {"rollback", "verdict", "items"},
    "save": {"checkpoint", "at", "evidence", "not_covered"},
    "restore": {"rollback", "verdict", "items"},
    "status": {"protected", "root", "open_actions", "runs", "checkpoint"},
    "log": {"entries", "total", "more"},
    "stats": {"since", "agents"},
    "show": {"id", "kind", "name", "actor", "at", "changed", "exit_code", "taken_back"},
    "diff": {"changes"},
    "blame": {"path", "lines"},
    "bisect": {"first_bad", "runs", "calls", "good", "bad", "suspects", "trials"},
    "verify": {"clean", "findings", "events", "drift", "compactions", "covered"},
    "gc": {"marks_kept", "marks_pruned", "bytes_before", "bytes_after", "compacted"},
    "du": {"content_bytes", "journal_bytes", "compactable_bytes", "index_bytes", "quota_bytes"},
    "completion": {"shell", "script"},
    "replay": {"run", "moments"},
    "resume": {"runs"},
    "approvals": {"approvals"},
    "handover list": {"runs"},
}


def test_every_command_is_here() -> None:
    # `run` writes its object to stderr: its stdout is the command's own. See test_run.py. Other groups have tests of
    # their own: tests/workflows/test_commands.py, test_plan.py. An answer needs a question: see test_questions.py.
    # And `guard` a server: see test_guard.py. `outbox` and `dead`: tests/outbox/test_commands.py. Agents and their
    # daemon: tests/agents/test_install.py, test_doctor.py, tests/daemon/test_control.py. And
    # tests/leases, tests/export; `store`: tests/cli/test_store.py; `settle`: tests/agents/test_unsettled.py;
    # `forget`: tests/cli/test_forget.py; `notify`: tests/notices; `compare`: tests/cli/test_compare.py; `promote`,
    # `rehearse`: tests/shadow.
    elsewhere = {
        "run",
        "try",
        "stage",
        "plan",
        "workflow",
        "monitor",
        "approve",
        "deny",
        "guard",
        "outbox",
        "dead",
    }
    elsewhere |= {"install", "uninstall", "doctor", "daemon", "locks", "export", "store", "settle", "forget"}
    elsewhere |= {"notify", "compare", "promote", "rehearse"}
    assert WORDS.keys() == KEYS.keys()
    assert {name.split()[0] for name in WORDS} == COMMANDS.keys() - elsewhere


@pytest.mark.parametrize("name", WORDS)
def test_one_object(name: str, used: Call) -> None:
    said = used(*name.split(), "--json", *WORDS[name])
    assert said.code == 0
    assert one_object(said).keys() >= KEYS[name]


@pytest.mark.parametrize(
    "name", [name for name in WORDS if name not in ("init", "save", "completion", "status")]
)
def test_an_error_is_one_object_too(name: str, call: Call) -> None:
    """The folder is not protected yet, so nearly every command has nothing to work on."""
    said = call(*name.split(), "--json", *WORDS[name])
    assert said.code == 2
    error = error_of(said)
    assert (
        error["code"] == "usage" and "not protected" in error["message"] and "takeback init" in error["hint"]
    )


@pytest.mark.parametrize(
    "words", [("frobnicate", "--json"), ("--json", "undo", "--on-conflict", "hope"), ("show", "--json")]
)
def test_wrong_words_are_an_error_object(words: tuple[str, ...], call: Call) -> None:
    said = call(*words)
    assert said.code == 2
    assert error_of(said)["code"] == "usage"


def test_status_of_an_unprotected_folder_is_no_error(call: Call, folder: Path) -> None:
    said = call("status", "--json")
    assert said.code == 0
    found = one_object(said)
    assert found == {
        "protected": False,
        "root": str(folder),
        "hooks": [],
        "settings": {"changed_by": None, "not_accepted": []},
        "lost": None,
    }


def test_undo_says_what_was_done_to_each_target(used: Call) -> None:
    report = one_object(used("undo", "--json"))
    assert report["verdict"] == "clean" and report["rollback"].startswith("a")
    did = {}
    for item in report["items"]:
        assert item.keys() == {"resource", "target", "did", "verified", "why"}
        assert (item["resource"], item["verified"]) == ("files", True)
        did[item["target"]] = item["did"]
    assert did == {"plan.md": "restored", "made.md": "removed", ".": "restored"}


def test_nothing_to_undo(call: Call) -> None:
    call("save")
    said = call("undo", "--json")
    assert (said.code, one_object(said)["verdict"]) == (0, "nothing")
    assert one_object(said)["rollback"] is None


def test_a_conflict_is_the_report_and_exit_code_3(used: Call, folder: Path) -> None:
    (folder / "plan.md").write_text("human")
    said = used("undo", "--json")
    report = one_object(said)
    assert (said.code, report["verdict"], report["rollback"]) == (3, "conflict", None)
    assert [item["did"] for item in report["items"] if item["target"] == "plan.md"] == ["conflict"]
    assert (folder / "plan.md").read_text() == "human" and (folder / "made.md").exists()


def test_a_preview_changes_nothing(used: Call, folder: Path) -> None:
    said = used("undo", "--preview", "--json")
    report = one_object(said)
    assert (said.code, report["rollback"], report["preview"]) == (0, None, True)
    assert not any(item["verified"] for item in report["items"])
    assert (folder / "plan.md").read_text() == "new\n"
    assert all(entry["kind"] != "undo" for entry in one_object(used("log", "--json"))["entries"])


def test_times_are_iso(used: Call) -> None:
    entries = one_object(used("log", "--json"))["entries"]
    assert len(entries) >= 3
    for entry in entries:
        assert ISO.fullmatch(entry["at"])
        assert entry.get("ended") is None or ISO.fullmatch(entry["ended"])


def test_each_checkpoint_names_its_evidence(used: Call) -> None:
    assert one_object(used("save", "--json"))["evidence"]["files"] == "scan"
    marks = one_object(used("show", "c2", "--json"))["marks"]
    assert marks[0]["evidence"] == "every file read"
