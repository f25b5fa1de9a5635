"""`takeback export`: every event, in order, without secrets; and what is to be undone, read backwards."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.core.export import as_line, undo_list
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.world import cli

SECRET = "sk-live-abcdefghijklmnop0123456789"


@pytest.fixture
def tb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    with open_workspace(root, watching=False) as tb:
        with tb.run("edit") as run:
            run.memory["api_token"] = "nobody's business"
            run.memory["goal"] = f"use {SECRET}"
            (root / "a.txt").write_text("two\n")
            (root / "b.txt").write_text("new\n")
            run.call(print, SECRET, "hello")
        yield tb


def exported(tb: Workspace, *words: str) -> list[Any]:
    done = cli.run(["export", *words], cwd=tb.root, home=tb.state.parent.parent)
    assert done.code == 0, done.said
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_event_in_order_without_a_gap(tb: Workspace) -> None:
    lines = exported(tb)
    assert [line["seq"] for line in lines] == list(range(1, tb.journal.head().count + 1))
    assert [line["digest"] for line in lines] == [record.digest for record in tb.journal.read()]
    assert lines == json.loads(json.dumps([as_line(record) for record in tb.journal.read()]))
    assert exported(tb, "--after", "3") == lines[3:]
    only = exported(tb, "--type", "run-began", "--type", "run-ended")
    assert [line["type"] for line in only] == ["run-began", "run-ended"]


def test_an_unknown_type_is_refused(tb: Workspace) -> None:
    done = cli.run(["export", "--type", "nonsense"], cwd=tb.root, home=tb.state.parent.parent)
    assert done.code == 2
    assert "run-began" in done.stderr


def test_secrets_are_hidden(tb: Workspace) -> None:
    text = json.dumps(exported(tb))
    assert "goal" in text and "hello" in text
    assert SECRET not in text
    assert "nobody's business" not in text


def test_cloud_events(tb: Workspace) -> None:
    found = exported(tb, "--format", "cloudevents")
    assert {event["specversion"] for event in found} == {"1.0"}
    assert len({(event["source"], event["id"]) for event in found}) == len(found)
    assert [event["sequence"] for event in found] == sorted(event["sequence"] for event in found)
    assert all(event["type"] == f"io.takeback.{event['data']['type']}" for event in found)
    assert all(event["time"].endswith("Z") and event["subject"] for event in found)


def test_follow(tb: Workspace) -> None:
    command = [sys.executable, "-m", "takeback", "export", "--follow", "--type", "checkpoint-taken"]
    home = tb.state.parent.parent
    with subprocess.Popen(
        command, cwd=tb.root, env=cli.environment(home), stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        try:
            for message in ("first", "second"):
                tb.save(message)
                assert json.loads(child.stdout.readline())["event"]["message"] == message
        finally:
            child.send_signal(signal.SIGINT)


def undone(tb: Workspace, run: str) -> list[tuple[str, str]]:
    found = undo_list(map(as_line, tb.journal.read()), run)
    return [(one.target, one.before[:2]) for one in found if one.resource == "files"]


def test_what_is_to_be_undone_is_the_log_read_backwards(tb: Workspace) -> None:
    (run,) = tb.history.runs
    assert undone(tb, run) == [("b.txt", ""), ("a.txt", "f:")]
    (done,) = exported(tb, "--undo-list", run, "--json")
    assert {one["target"] for one in done["undo"] if one["resource"] == "files"} == {"a.txt", "b.txt"}
    assert any(one["resource"] == "memory" for one in done["undo"])
    tb.undo(run, paths=[str(tb.root / "b.txt")])
    assert undone(tb, run) == [("a.txt", "f:")]
    tb.undo(run)
    assert undone(tb, run) == []
    tb.redo()
    assert undone(tb, run) == [("a.txt", "f:")]
    tb.redo()
    assert undone(tb, run) == [("b.txt", ""), ("a.txt", "f:")]
