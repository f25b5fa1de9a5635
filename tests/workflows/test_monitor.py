"""The monitor: each stale state is told once to each, failures are tried again, and the log stays small."""

from __future__ import annotations

import json
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import UsageError
from takeback.senders.notifiers import NoticeMessage, check_notifier, send, shown
from takeback.workflows import lines
from takeback.workflows.checkpoints import Checkpoints
from takeback.workspace.notices.monitor import Monitor
from takeback.workspace.notices.notifier import LOG


class World:
    """A workspace with one workflow, a monitor, and a clock that both read."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_800_000_000.0
        self.root = folder / "work"
        self.root.mkdir()
        self.heard = folder / "heard"
        self.state = folder / "state/monitor/x"
        self.monitor = Monitor(self.root, self.state, clock=lambda: self.now)
        with self.checkpoints() as checkpoints:
            checkpoints.start("w", agent="a", step="one", key="k", remaining=["two"], ttl_days=100)

    def checkpoints(self) -> Checkpoints:
        return Checkpoints(str(self.root), clock=lambda: self.now)

    def update(self, **changes: Any) -> None:
        with self.checkpoints() as checkpoints:
            checkpoints.update("w", **changes)

    def configure(self, *notify: str) -> None:
        self.monitor.configure(
            {"scheduler": "cron", "everyMin": 10, "staleMin": 10.0, "notify": list(notify)}
        )

    def command(self) -> str:
        """A notifier that writes down what it is told."""
        code = f"import sys; open({str(self.heard)!r}, 'a').write(sys.stdin.read() + chr(10))"
        return f'command:{sys.executable} -c "{code}"'

    def told(self) -> list[dict[str, Any]]:
        return (
            [json.loads(line) for line in self.heard.read_text().splitlines()] if self.heard.exists() else []
        )

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.state / LOG).read_text().splitlines()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_each_stale_state_is_told_once(world: World) -> None:
    world.configure(world.command())
    assert world.monitor.run() == ([], [])
    world.now += 9.9 * 60
    world.monitor.run()
    assert world.told() == [], "not before the threshold"
    world.now += 0.2 * 60
    for _ in range(3):
        findings, failures = world.monitor.run()
        assert len(findings) == 1 and failures == []
        world.now += 600
    assert len(world.told()) == 1
    told = world.told()[0]
    assert "stale workflow" in told["text"] and "10 min without an update" in told["text"]
    assert f"takeback -C {world.root} workflow resume --workflow w" in told["text"]
    world.update(complete="one")
    world.monitor.run()
    world.now += 601
    world.monitor.run()
    assert len(world.told()) == 2, "it moved and is stale again: another state"
    assert [line["what"] for line in world.log()].count("alert") == 2
    world.update(status="done")
    world.now += 10_000
    assert world.monitor.run() == ([], [])


def test_who_could_not_be_reached_is_tried_again_and_others_are_left_in_peace(world: World) -> None:
    world.configure("command:false", world.command())
    world.now += 601
    for _ in range(2):
        assert world.monitor.run()[1] == ["command:false … failed with exit code 1"]
    assert len(world.told()) == 1
    world.configure("command:true", world.command())
    assert world.monitor.run()[1] == []
    assert len(world.told()) == 1


def test_the_log_is_private_and_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LOG_BYTES_MAX", 300)
    for _ in range(60):
        world.monitor.run()
    logs = sorted(path.name for path in world.state.glob(f"{LOG}*"))
    assert logs == [LOG, *(f"{LOG}.{number}" for number in range(1, 6))]
    for path in world.state.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert path.stat().st_size <= 300
    assert world.monitor.last_look() == world.log()[-1]


class Hook(BaseHTTPRequestHandler):
    heard: list[dict[str, Any]]
    answer = 200

    def do_POST(self) -> None:
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.answer)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def hook() -> Iterator[tuple[str, type[Hook]]]:
    kind = type("OwnHook", (Hook,), {"heard": []})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}/secret-path", kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook(hook: tuple[str, type[Hook]], world: World) -> None:
    address, kind = hook
    world.configure(f"webhook:http://{address}")
    world.now += 601
    kind.answer = 500
    (failure,) = world.monitor.run()[1]
    assert "was not reached" in failure and "secret-path" not in failure
    kind.answer = 200
    assert world.monitor.run()[1] == []
    assert [message["findings"][0]["workflowId"] for message in kind.heard] == ["w", "w"]
    world.monitor.run()
    assert len(kind.heard) == 2
    assert "secret-path" not in (world.state / LOG).read_text()


def test_a_webhook_that_answers_nonsense_keeps_it_from_no_other(world: World) -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for _ in range(2):
            connection, _address = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"nonsense\r\n\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    world.configure(f"webhook:http://127.0.0.1:{server.getsockname()[1]}/secret-path", world.command())
    world.now += 601
    for _ in range(2):
        findings, failures = world.monitor.run()
        assert len(findings) == 1 and len(world.told()) == 1
        assert failures == ["webhook:http://127.0.0.1/… was not reached: BadStatusLine"]
    thread.join()
    server.close()


def test_a_notifier_of_older_settings_that_is_none_keeps_it_from_no_other(world: World) -> None:
    world.configure("webhook:http://[x", "pigeon:home", world.command())
    world.now += 601
    assert len(world.monitor.run()[1]) == 2
    assert len(world.told()) == 1


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise's own
def test_whatever_apprise_reaches(hook: tuple[str, type[Hook]]) -> None:
    address, kind = hook
    send(f"apprise:json://{address}", NoticeMessage("id", "hello"))
    (message,) = kind.heard
    assert message["message"] == "hello"


def test_the_desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """notify-send needs a desktop; what it is called with does not."""
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/shown\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(sys, "platform", "linux")
    send("desktop", NoticeMessage("id", "a text\nof two lines"))
    assert (tmp_path / "shown").read_text() == "--app-name=Takeback\n--\nTakeback\na text\nof two lines\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pigeon:home",
        "command:",
        "webhook:",
        "webhook:file:///etc/passwd",
        "desktop:x",
        "x",
        "webhook:http://[x",
        "webhook:https://",
        "webhook:https://h:port/",
        "https://hooks.example/T0/hush",
    ],
)
def test_what_is_no_notifier(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_notifier(text)
    assert "hush" not in str(caught.value)


def test_a_notifier_is_shown_without_its_secret() -> None:
    assert shown("webhook:https://u:p@example.org/T/B/abc") == "webhook:https://example.org/…"
    assert shown("apprise:tgram://123:abc/456") == "apprise:tgram://…"
    assert shown("command:send --token abc") == "command:send …"
    assert shown("desktop") == "desktop"
    assert shown("https://hooks.example/T/B/abc") == "https:…"
    assert shown("apprise:abc") == "apprise:…"
    assert shown("webhook:http://[x") == shown("webhook:abc") == "webhook:…"
