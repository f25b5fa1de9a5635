"""Audit webhooks: every event once for each message id, in order, signed, over failures and kills."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import UsageError
from takeback.testing import forks as kill
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.crash.points import declared
from tests.outbox import tools, workers
from tests.world import cli
from tests.world.settings import write

KEY = b"0123456789abcdef0123456789abcdef"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
POINTS = sorted(point for point in declared() if point.startswith("audit-"))


class Ear:
    """A receiver that keeps what it hears; the first `deaf` requests fail."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.deaf = 0
        self.awake = threading.Event()
        """Until it is set, no request is answered."""
        self.awake.set()
        ear = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                ear.awake.wait()
                if ear.deaf:
                    ear.deaf -= 1
                    self.send_response(503)
                else:
                    ear.heard.append(({k.lower(): v for k, v in self.headers.items()}, body))
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Nobody wants to read it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/audit"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def messages(self) -> list[Any]:
        """What was heard, each message once."""
        once = {headers["webhook-id"]: body for headers, body in self.heard}
        return [json.loads(body)["data"] for body in once.values()]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def ear() -> Iterator[Ear]:
    made = Ear()
    yield made
    made.close()


@pytest.fixture
def root(tmp_path: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    (tmp_path / "work").mkdir()
    configure(tmp_path / "work", ear.url)
    return tmp_path / "work"


def configure(root: Path, url: str, more: str = "") -> None:
    hook = f'{{url = "{url}", secret = "$HOOK_SECRET"{more}}}'
    settings = f"[outbox]\nfirst-pause-s = 0\n[audit]\nwebhooks = [{hook}]\n"
    write(root, settings)


@pytest.fixture
def tb(root: Path) -> Iterator[Workspace]:
    with open_workspace(root, watching=False) as tb:
        yield tb


def whole(messages: list[Any], last: int) -> list[int]:
    """The numbers of all events that were heard; each message begins where the one before it ended."""
    assert [message["after"] for message in messages] == [0, *(m["through"] for m in messages[:-1])]
    assert messages[-1]["through"] == last
    return [event["seq"] for message in messages for event in message["events"]]


def test_every_event_is_told_signed_and_in_order(tb: Workspace, ear: Ear) -> None:
    for number in range(120):
        tb.save(f"number {number}")
    assert tb.parts.audit.pump() == []
    last = tb.journal.head().count
    assert whole(ear.messages(), last) == list(range(1, last + 1))
    assert len(ear.heard) == 2
    for headers, body in ear.heard:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        mac = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{mac}"
    assert tb.parts.audit.pump() == []
    assert len(ear.heard) == 2  # telling is no event, and so has no end
    tb.save("one more")
    tb.parts.audit.pump()
    assert len(ear.messages()[-1]["events"]) == 1


def test_what_does_not_get_through_is_tried_again_as_it_was(tb: Workspace, ear: Ear) -> None:
    tb.save("first")
    ear.deaf = 2
    (failed,) = tb.parts.audit.pump()
    assert "webhook to 127.0.0.1" in failed and "did not accept events 1 to 3" in failed
    tb.save("second")
    tb.parts.audit.pump()
    tb.parts.audit.pump()
    first, second = ear.messages()
    assert (first["after"], first["through"], second["after"], second["through"]) == (0, 3, 3, 4)


def test_only_some_types(root: Path, ear: Ear) -> None:
    configure(root, ear.url, ', types = ["checkpoint-taken"]')
    with open_workspace(root, watching=False) as tb:
        with tb.run("quiet"):
            tb.save("loud")
        tb.parts.audit.pump()
        (message,) = ear.messages()
        assert [event["type"] for event in message["events"]] == ["checkpoint-taken"]
        assert (message["after"], message["through"]) == (0, tb.journal.head().count)


def test_a_secret_is_named_and_not_given(tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK_SECRET")
    with pytest.raises(UsageError, match="HOOK_SECRET is not set"):
        tb.parts.audit.pump()
    text = (root / "takeback.toml").read_text()
    write(root, text.replace("$HOOK_SECRET", SECRET))
    with (
        open_workspace(root, watching=False) as again,
        pytest.raises(UsageError, match="contains the secret itself"),
    ):
        again.parts.audit.pump()


def test_a_secret_of_a_wrong_form_ends_the_worker_at_its_start(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hunter2!")
    done = cli.run(["outbox", "worker", "--once"], cwd=root, home=tb.state.parent.parent)
    assert (done.code, "hunter2" in done.said) == (2, False)
    assert "the variable HOOK_SECRET does not contain whsec_ and base64; nothing was sent" in done.stderr


def test_the_worker_tells(tb: Workspace, root: Path, ear: Ear) -> None:
    tb.save("one")
    done = cli.run(["outbox", "worker", "--once"], cwd=root, home=tb.state.parent.parent)
    assert done.code == 0, done.said
    assert whole(ear.messages(), 3) == [1, 2, 3]


def test_one_that_hangs_holds_up_no_delivery(
    tb: Workspace, root: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(tools.WORLD, str(tmp_path / "world"))
    ear.awake.clear()
    with tb.run("mail") as run:
        run.defer(tools.note, "hello")
    worker = workers.start(root, "--once", "--json")
    while not tools.sent():
        time.sleep(0.02)
        assert worker.poll() is None
    ear.awake.set()
    said, wrong = worker.communicate()
    assert worker.returncode == 0, wrong
    # It was not given up before: the very first message was received.
    assert json.loads(said)["not_told"] == []
    last = tb.journal.head().count
    assert whole(ear.messages(), last) == list(range(1, last + 1))


def test_a_worker_in_python_tells(tb: Workspace, ear: Ear) -> None:
    tb.save("one")
    service = tb.courier()
    service.run(once=True)
    assert (whole(ear.messages(), 3), service.failures) == ([1, 2, 3], [])


def test_a_run_that_delivers_by_itself_tells(
    tb: Workspace, ear: Ear, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(tools.WORLD, str(tmp_path / "world"))
    with tb.run("mail", deliver=True) as run:
        sent = run.defer(tools.note, "hello")
    last = tb.journal.head().count
    assert whole(ear.messages(), last) == list(range(1, last + 1))
    delivered = [event for message in ear.messages() for event in message["events"]][-1]
    assert (delivered["type"], delivered["event"]["intent"]) == ("intent-delivered", sent)


def test_a_run_that_delivers_by_itself_says_what_it_could_not_tell(
    tb: Workspace, ear: Ear, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(tools.WORLD, str(tmp_path / "world"))
    monkeypatch.delenv("HOOK_SECRET")
    with tb.run("mail", deliver=True) as run:
        run.defer(tools.note, "hello")
    assert len(tools.sent()) == 1
    assert [note for note in tb.notices if "HOOK_SECRET is not set" in note] == tb.notices[-1:]
    assert ear.heard == []


def tell(root: Path, home: Path) -> None:
    with open_workspace(root, home=home, watching=False) as tb:
        tb.save("more")
        tb.parts.audit.pump()


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_place(root: Path, ear: Ear, tmp_path: Path, point: str) -> None:
    errors, home = tmp_path / "errors", Path(os.environ["TAKEBACK_HOME"])
    assert kill.killed_at(point, tell, root, home, errors=errors)
    for _ in range(2):
        assert kill.run(tell, root, home, errors=errors) == 0, errors.read_text()
    with open_workspace(root, home=home, watching=False) as tb:
        last = tb.journal.head().count
    assert whole(ear.messages(), last) == list(range(1, last + 1))
    bodies = {(headers["webhook-id"], body) for headers, body in ear.heard}
    assert len(bodies) == len({id for id, _ in bodies})  # a message that came twice was the same
