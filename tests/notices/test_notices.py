"""What waits for a human is told once, to everybody who is to be told, whatever happens to the processes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from takeback.daemon import control, knock
from takeback.errors import UsageError
from takeback.testing import crash
from takeback.workspace.notices import TOLD, folder_of, notifier
from takeback.workspace.workspace import Workspace
from tests.agents.driving import Agent, refusal
from tests.cli.processes import wait_for
from tests.notices import tools
from tests.notices.conftest import Desk

PUSH = "git push origin main"


def ask(tb: Workspace) -> str:
    """Let a run ask for an approval that nobody gives. Return its id."""
    run = tb.run("pay", approval_wait_s=0.2)
    with pytest.raises(Exception, match="no answer in time"), run:
        run.call(tools.wire, 5)
    return next(iter(tb.history.approvals))


def asked_by_an_agent(desk: Desk, **env: str) -> str:
    """Let an agent ask that has nobody at its terminal. Return the id of the request."""
    client = Agent("codex", desk.root, **env)
    client.prompt("go", "p1")
    assert "takeback approve" in refusal(client.shell(PUSH, "c1"))
    with desk.open() as tb:
        (approval,) = tb.approvals()
    return approval.id


def test_an_approval_is_told_once_with_the_reason_and_the_command(desk: Desk) -> None:
    desk.configure()
    with desk.open():
        pass
    id = asked_by_an_agent(desk)
    (told,) = desk.wait(1)
    assert told["text"].splitlines()[0] == f"{desk.root}: something waits for you"
    (found,) = told["findings"]
    assert (found["kind"], found["id"], found["about"]) == ("approval", id, f"codex asks for: {PUSH}")
    assert "irreversible" in found["why"]
    assert found["answers"] == [
        f"takeback -C {desk.root} approve {id}",
        f"takeback -C {desk.root} deny {id}",
    ]
    assert all(answer in told["text"] for answer in found["answers"])
    for _ in range(2):
        desk.takeback("notify", "send")
        desk.takeback("monitor", "run")
    assert len(desk.messages()) == 1
    desk.takeback("-C", "/", *found["answers"][0].split()[1:])  # from anywhere, exactly as it was told
    assert desk.takeback("approvals").stdout == "Nothing waits for your approval.\n"


def test_everything_that_waits_is_told_by_whoever_it_arises_in(desk: Desk) -> None:
    desk.configure()
    with desk.open() as tb:
        with pytest.raises(Exception, match="too many rows"), tb.run("clean up") as run:
            run.hand_over("too many rows to delete")
        handed = desk.wait(1)[0]["findings"][0]
        assert (handed["kind"], handed["id"], handed["why"]) == (
            "handover",
            run.id,
            "too many rows to delete",
        )
        assert handed["answers"] == [f"takeback -C {desk.root} handover take {run.id}"]
        with tb.run("mail", deliver=True) as mail:
            dead = mail.defer(tools.refuse, "spam")
        letter = desk.wait(2)[1]["findings"][0]
        assert (letter["kind"], letter["id"], letter["why"]) == ("dead letter", dead, "nobody wants spam")
        # The same letter, dead once more, is another matter.
        tb.outbox.revive(dead)
        tb.courier().run(once=True)
        assert desk.wait(3)[2]["findings"][0]["id"] == dead
        tb.courier().run(once=True)
    crashed = crash.run("none", 1, ["tests.notices.tools:die", desk.root])
    assert crashed.returncode == crash.KILLED, crashed.stderr
    desk.takeback("monitor", "run")
    found = desk.wait(4)[3]["findings"][0]
    assert (found["kind"], found["about"]) == ("interrupted run", "nightly job")
    assert found["answers"][1] == f"takeback -C {desk.root} undo {found['id']}"
    desk.takeback("monitor", "run")
    desk.takeback("status")
    assert len(desk.messages()) == 4


def test_many_processes_at_once_tell_it_once(desk: Desk) -> None:
    with desk.open() as tb:  # nobody is told yet
        tb.run("one").__enter__().__exit__(None, None, None)
        with pytest.raises(Exception, match="help"), tb.run("clean up") as run:
            run.hand_over("help")
    desk.configure(desk.command("time.sleep(0.3); "))
    desk.takeback("init", "--accept-config")
    words = [sys.executable, "-m", "takeback", "notify", "send"]
    senders = [subprocess.Popen(words, cwd=desk.root, env=os.environ) for _ in range(6)]
    assert [sender.wait() for sender in senders] == [0] * 6
    assert len(desk.messages()) == 1


@pytest.mark.parametrize("point", [notifier.CLAIMED, notifier.SENT])
def test_only_what_a_killed_process_was_sending_is_told_again_and_says_so(desk: Desk, point: str) -> None:
    with desk.open() as tb, pytest.raises(Exception, match="help"), tb.run("clean up") as run:
        run.hand_over("help")
    desk.configure()
    desk.takeback("init", "--accept-config")
    killed = crash.run(point, 1, ["takeback", "notify", "send"], cwd=desk.root)
    assert killed.returncode == crash.KILLED, killed.stderr
    first = desk.messages()
    assert len(first) == (point == notifier.SENT)
    desk.takeback("notify", "send")
    desk.takeback("notify", "send")
    again = desk.messages()[len(first) :]
    assert [message["again"] for message in again] == [True]
    assert "this may be a repetition" in again[0]["text"]
    assert {message["id"] for message in desk.messages()} == {again[0]["id"]}, "a receiver can tell"


def test_a_notifier_that_hangs_or_fails_neither_blocks_nor_fails_an_agent(desk: Desk) -> None:
    desk.configure(desk.command("time.sleep(20); "), "command:/nowhere/at-all")
    with desk.open():
        pass
    began = time.monotonic()
    asked_by_an_agent(desk)
    assert time.monotonic() - began < 10
    log = folder_of(next((desk.home / "workspaces").iterdir())) / notifier.LOG
    wait_for(log.exists)


def test_settings_that_came_with_a_repository_tell_nobody_until_accepted(desk: Desk) -> None:
    desk.configure()
    with desk.open(accept=False) as tb:
        assert tb.notifier.to == []
        ask(tb)
        assert any("[notify] to" in notice for notice in tb.notices)
    desk.takeback("monitor", "run")
    refused = desk.takeback("notify", "test", code=2)
    assert "was not accepted yet" in refused.said and "--accept-config" in refused.said
    assert desk.messages() == []
    with desk.open(accept=False) as tb, pytest.raises(Exception, match="help"), tb.run("more") as run:
        run.hand_over("help")
    desk.takeback("init", "--accept-config")
    desk.takeback("notify", "send")
    assert [found["kind"] for found in desk.wait(1)[0]["findings"]] == ["handover"]


@pytest.mark.parametrize(
    "text",
    [
        "apprise:tgram://123456:token/789",
        "webhook:https://user:hush@example.org/x",
        "webhook:https://hooks.slack.com/services/T012/B345/hush",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(desk: Desk, text: str) -> None:
    desk.configure(text)
    with pytest.raises(UsageError) as caught:
        desk.open()
    assert "contains a secret" in str(caught.value) and "$TAKEBACK_NOTIFY_URL" in str(caught.value.hint)
    assert "hush" not in str(caught.value) and "token" not in str(caught.value)


class Receiver(BaseHTTPRequestHandler):
    heard: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.heard.append((self.headers["webhook-id"], json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a receiver, with a secret in it."""
    Receiver.heard.clear()
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hush"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_address_of_a_webhook_comes_from_the_environment(desk: Desk, url: str) -> None:
    desk.configure("webhook:$TAKEBACK_NOTIFY_URL")
    with desk.open() as tb, pytest.raises(Exception, match="help"), tb.run("clean up") as run:
        run.hand_over("help")  # here the variable is not set
    folder = folder_of(next((desk.home / "workspaces").iterdir()))
    told = notifier.Notifier(folder, desk.root, [], list)
    wait_for(lambda: told.read().unreached)
    (missed,) = told.read().unreached.values()
    assert "needs the variable TAKEBACK_NOTIFY_URL, which is not set" in missed.why
    assert "webhook:$TAKEBACK_NOTIFY_URL was not told what waits for you" in desk.takeback("status").stderr
    desk.takeback("notify", "send", TAKEBACK_NOTIFY_URL=url)
    ((id, body),) = Receiver.heard
    assert id == body["id"] and body["findings"][0]["kind"] == "handover"
    assert not told.read().unreached
    tested = desk.takeback("notify", "test", "--json", TAKEBACK_NOTIFY_URL=url)
    assert tested.json == {"notifiers": [{"to": "webhook:$TAKEBACK_NOTIFY_URL", "reached": True, "why": ""}]}
    kept = [path for path in desk.home.rglob("*") if path.is_file() and b"hush" in path.read_bytes()]
    assert kept == []
    assert stat.S_IMODE((folder / TOLD).stat().st_mode) == 0o600


def test_the_daemon_tells_what_arises_in_it_and_what_others_left(desk: Desk, url: str) -> None:
    with desk.open() as tb, pytest.raises(Exception, match="help"), tb.run("clean up") as run:
        run.hand_over("help")  # nobody is to be told yet
    desk.configure("webhook:$TAKEBACK_NOTIFY_URL")
    desk.takeback("init", "--accept-config")
    env = os.environ | {"TAKEBACK_NOTIFY_URL": url}

    def hook(name: str, **more: Any) -> str:
        given = {"hook_event_name": name, "session_id": "s", "cwd": str(desk.root), **more}
        words = [sys.executable, "-I", "-S", knock.__file__, "codex"]
        return subprocess.run(
            words, input=json.dumps(given).encode(), env=env, capture_output=True
        ).stdout.decode()

    try:
        hook("UserPromptSubmit", prompt="go", turn_id="t")
        wait_for(lambda: len(Receiver.heard) == 1)
        call = {"tool_name": "Bash", "tool_use_id": "c", "tool_input": {"command": PUSH}, "turn_id": "t"}
        assert "takeback approve" in hook("PreToolUse", **call)
        wait_for(lambda: len(Receiver.heard) == 2)
    finally:
        control.stop(desk.home)
    assert [body["findings"][0]["kind"] for _, body in Receiver.heard] == ["handover", "approval"]


def test_test(desk: Desk) -> None:
    with desk.open():
        pass
    nobody = desk.takeback("notify", "test", code=2)
    assert "no notifier is configured" in nobody.said and 'to = ["desktop"]' in nobody.said
    desk.configure(desk.command(), "command:false --token hush")
    bad = desk.takeback("notify", "test", code=2)
    assert "contains a secret" in bad.said and "hush" not in bad.said
    desk.configure(desk.command(), "command:false")
    desk.takeback("init", "--accept-config")
    said = desk.takeback("notify", "test", code=4).stdout
    assert (
        said
        == f"command:{sys.executable} …: reached\ncommand:false …: command:false … failed with exit code 1\n"
    )
    assert "this is a test" in desk.messages()[0]["text"]


def test_older_records_of_the_monitor_are_understood(desk: Desk) -> None:
    folder = desk.home / "monitor/x"
    folder.mkdir(parents=True)
    (folder / TOLD).write_text('{"memory/checkpoints/w.json abc": ["log", "desktop"]}\n')
    (known,) = notifier.Notifier(folder, desk.root, [], list).read().told.items()
    assert known[0] == "stale workflow\nmemory/checkpoints/w.json\nabc"
    assert all(one.sent for one in known[1].values()) and len(known[1]) == 2
