"""What becomes of the calls of a session, without the SDK: lost results, answers of humans, and the ends of turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.frameworks.calling import HumanAnswer, Threads, Told
from takeback.frameworks.claude_agent_sdk.sessions import AnnouncedCall, ClaudeSession, ClaudeSessions

ID = "session"
BEGIN_AND_DIE = """
import os, signal, sys
import takeback
from takeback.frameworks.calling import Threads
from takeback.frameworks.claude_agent_sdk.sessions import AnnouncedCall, ClaudeSessions
call = AnnouncedCall("a", "pay", {"amount": 7}, {"effect": "irreversible"})
session = ClaudeSessions(Threads(takeback.open(sys.argv[1]), "claude_agent_sdk")).of("session")
begun = session.begin(call)
begun.ask.grant(by="ann")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def tb(tmp_path: Path) -> Iterator[takeback.Workspace]:
    root = tmp_path / "work"
    root.mkdir()
    with takeback.open(root) as opened:
        yield opened


def opened(tb: takeback.Workspace) -> ClaudeSession:
    """The session as a process sees it that has not seen it yet."""
    return ClaudeSessions(Threads(tb, "claude_agent_sdk")).of(ID)


def call(id: str, room: str = "attic", **options: Any) -> AnnouncedCall:
    return AnnouncedCall(id, "book", {"room": room}, options or {"effect": "restorable"})


def made(session: ClaudeSession, one: AnnouncedCall, result: Any = "booked") -> takeback.Action:
    action = session.begin(one)
    assert isinstance(action, takeback.Action) and action.outcome == "open"
    session.end(one.id, result, None)
    return action


def test_a_lost_result_is_told_once(tb: takeback.Workspace) -> None:
    made(opened(tb), call("a"))
    session = opened(tb)
    [lost] = session.resume(set(), "1")
    assert (lost.id, lost.content, lost.is_error) == ("a", "booked", False)
    assert "Do not make it again. Its result: booked" in session.turn("prompt", "go on")
    again = session.begin(call("b"))
    assert isinstance(again, Told) and again.is_done and again.value == "booked"
    # A further call is another one, and so is one with other arguments.
    assert isinstance(session.begin(call("c")), takeback.Action)
    assert isinstance(session.begin(call("d", "barn")), takeback.Action)
    session.stored({"b"}, "2")
    assert "a" not in [one.call_id for one in opened(tb).thread.undelivered()]


def test_a_result_that_the_transcript_has_is_not_lost(tb: takeback.Workspace) -> None:
    made(opened(tb), call("a"))
    session = opened(tb)
    assert session.resume({"a"}, "1") == [] and session.turn("prompt", "go on") == ""
    assert isinstance(session.begin(call("b")), takeback.Action)


def test_a_lost_result_that_was_added_to_the_transcript_is_told(tb: takeback.Workspace) -> None:
    made(opened(tb), call("a"))
    session = opened(tb)
    session.resume(set(), "1")
    session.told({"a"}, "2")
    assert session.turn("prompt", "go on") == ""
    assert opened(tb).resume(set(), "2") == []


def test_equal_calls_of_one_message_are_both_made(tb: takeback.Workspace) -> None:
    session = opened(tb)
    first = made(session, call("a"))
    second = made(session, call("b"))
    assert first.id != second.id


def test_a_call_in_doubt_is_not_made_under_another_id(tb: takeback.Workspace) -> None:
    done = subprocess.run([sys.executable, "-c", BEGIN_AND_DIE, str(tb.root)], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    session = opened(tb)
    [lost] = session.resume(set(), "1")
    assert lost.is_error and "may have been made" in lost.content
    again = session.begin(AnnouncedCall("b", "pay", {"amount": 7}, {"effect": "irreversible"}))
    assert isinstance(again, Told) and "in doubt, and was not made again" in again.why


def test_a_call_of_a_program_that_is_gone_is_cut_short(tb: takeback.Workspace) -> None:
    session = opened(tb)
    action = session.begin(call("a"))
    assert isinstance(action, takeback.Action)
    [lost] = session.resume(set(), "1")
    assert action.outcome == "cut-short" and lost.is_error and "was cut short" in lost.content
    assert isinstance(session.begin(call("b")), takeback.Action)  # it did not happen, so it may be made


def test_a_command_is_judged_in_the_folder_of_the_agent(
    tb: takeback.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the host is elsewhere
    command = AnnouncedCall("a", "Bash", {"command": "touch f.txt"}, {"effect": "restorable"}, str(tb.root))
    action = opened(tb).begin(command)
    assert isinstance(action, takeback.Action)
    assert "outside" not in takeback_show(tb, action.id)


def takeback_show(tb: takeback.Workspace, id: str) -> str:
    shown = [sys.executable, "-m", "takeback", "show", id]
    return subprocess.run(shown, cwd=tb.root, capture_output=True, text=True, check=True).stdout


def test_a_human_changes_the_arguments(tb: takeback.Workspace) -> None:
    session = opened(tb)
    asked = session.begin(AnnouncedCall("a", "pay", {"amount": 7}, {"effect": "irreversible"}))
    assert isinstance(asked, Told) and asked.ask
    assert session.answered("a", "pay", HumanAnswer(True), {"amount": 5}) == ""
    session.end("a", "paid 5", None)
    [action] = session.thread.actions()
    assert action.arguments == {"amount": 5} and action.result == "paid 5"


def test_a_human_refuses(tb: takeback.Workspace) -> None:
    session = opened(tb)
    session.begin(AnnouncedCall("a", "pay", {"amount": 7}, {"effect": "irreversible"}))
    assert "too much" in session.answered("a", "pay", HumanAnswer(False, why="too much"), None)
    assert session.thread.actions() == []
    session.begin(call("b"))
    session.answered("b", "book", HumanAnswer(False, why="not now"), None)
    assert [one.outcome for one in session.thread.actions()] == ["failed"]


def test_a_call_that_the_program_did_not_allow_is_dropped(tb: takeback.Workspace) -> None:
    session = opened(tb)
    action = session.begin(call("a"))
    assert isinstance(action, takeback.Action)
    session.stored({"a"}, "1")
    assert action.outcome == "failed" and "not allowed to run" in action.error


def test_the_end_of_a_turn_commits_it(tb: takeback.Workspace) -> None:
    session = opened(tb)
    session.turn("prompt", "book the attic")
    made(session, call("a"))
    waited = [session.waits_for_transcript]
    session.stored({"a"}, "1")
    assert [*waited, session.waits_for_transcript] == [True, False]
    session.begin(call("b"))  # its end is never reported
    session.finish(quiet=False)
    assert [one.outcome for one in session.thread.actions()] == ["done", "open"]
    session.finish(quiet=True)
    assert [one.outcome for one in session.thread.actions()] == ["done", "failed"]
    assert opened(tb).thread.undelivered() == []


def test_going_back_takes_what_the_transcript_never_had(tb: takeback.Workspace) -> None:
    session = opened(tb)
    session.begin(call("a"))
    (Path(tb.root) / "a.txt").write_text("a")
    session.end("a", "done", None)
    session.stored({"a"}, "1")
    session.begin(call("b", "barn"))
    (Path(tb.root) / "b.txt").write_text("b")
    session.end("b", "done", None)
    report = opened(tb).take_back("2", {"a"}, set())
    assert report.verdict == "clean" and [one.name for one in Path(tb.root).iterdir()] == ["a.txt"]
