"""The built-in senders against real receivers on loopback."""

from __future__ import annotations

import base64
import hmac
import sys
import time
from pathlib import Path

import pytest

from takeback.core.intents import IntentAttempted, IntentDied, IntentState, Queued
from takeback.errors import RollbackIncomplete, UsageError
from tests.outbox import tools
from tests.outbox.conftest import Place
from tests.outbox.sink import Sink, effects, requests
from tests.outbox.smtp import MailServer


def one(place: Place) -> Queued:
    (queued,) = place.intents()
    return queued


def last(place: Place) -> IntentAttempted | IntentDied:
    event = place.tb.outbox.attempts(one(place).id)[-1].event
    assert isinstance(event, IntentAttempted | IntentDied)
    return event


def test_an_http_request_has_the_key(place: Place, sink: Sink) -> None:
    with place.tb.run("post", deliver=True) as run:
        run.defer("http", "post", sink.url(), json={"n": 1}, headers={"X-Mine": "yes"})
    (effect,) = effects(sink.folder)
    assert (effect["key"], effect["body"]) == (one(place).deferred.delivery_key, {"n": 1})
    assert one(place).result["status"] == 201
    assert '"X-Mine": "yes"' in one(place).result["body"]
    assert one(place).deferred.about == f"POST {sink.url()}"


def test_it_is_taken_back_by_another_request(place: Place, sink: Sink) -> None:
    with place.tb.run("post", deliver=True) as run:
        undo = {"method": "POST", "url": sink.url(), "json": "cancel 1"}
        run.defer("http", "POST", sink.url(), json="order 1", undo=undo)
    with pytest.raises(RollbackIncomplete, match="compensated POST"):
        place.tb.undo(run.id)
    assert sink.bodies() == ["order 1", "cancel 1"]


@pytest.mark.parametrize("cancels", [True, False])
def test_and_by_a_check_it_is_known_whether_it_was(place: Place, sink: Sink, *, cancels: bool) -> None:
    undo = {"method": "POST", "url": sink.url(), "json": "cancel 1" if cancels else "something else"}
    check = {"method": "GET", "url": sink.url("orders/1")}
    with place.tb.run("post", deliver=True) as run:
        run.defer("http", "POST", sink.url(), json="order 1", undo=undo, check=check)
    if cancels:
        assert [(i.did, i.verified) for i in place.tb.undo(run.id).items] == [("compensated", True)]
        return
    with pytest.raises(RollbackIncomplete, match="failed POST") as caught:
        place.tb.undo(run.id)
    assert "still finds it" in caught.value.report.items[0].why


def test_a_check_finds_what_came_through_without_an_answer(place: Place, sink: Sink) -> None:
    check = {"method": "GET", "url": sink.url("orders/1")}
    with place.tb.run("post", deliver=True) as run:
        run.defer("http", "POST", sink.url("broken-after"), json="order 1", check=check)
    while one(place).state is not IntentState.DELIVERED:
        time.sleep(0.01)
        place.deliver()
    assert requests(sink.folder).total() == 1


def test_a_check_that_cannot_tell_is_no_proof(place: Place, sink: Sink) -> None:
    undo = {"method": "POST", "url": sink.url(), "json": "cancel 1"}
    with place.tb.run("post", deliver=True) as run:
        check = {"method": "POST", "url": sink.url("broken")}
        run.defer("http", "POST", sink.url(), json="order 1", undo=undo, check=check)
    with pytest.raises(RollbackIncomplete, match="unverifiable POST"):
        place.tb.undo(run.id)


def test_what_is_missing_is_named_without_names_of_ours(place: Place, sink: Sink) -> None:
    with place.tb.run("post") as run:
        with pytest.raises(UsageError, match=r"sent like this: missing .* 'subject'; nothing was deferred"):
            run.defer("email", to="ann@example.org")
        with pytest.raises(UsageError, match="check has to be a request with a method and a url"):
            run.defer("http", "POST", sink.url(), check={"url": sink.url()})


@pytest.mark.parametrize(
    "path, state, unsure, said",
    [
        ("gone", IntentState.DEAD, False, "answered 410 Gone"),
        ("broken", IntentState.DUE, True, "answered 500"),
        ("busy", IntentState.DUE, False, "answered 429"),
        ("mute", IntentState.DUE, True, "did not answer"),
        ("slow", IntentState.DUE, True, "did not answer: ReadTimeout"),
    ],
)
def test_what_an_answer_means(
    place: Place, sink: Sink, path: str, state: IntentState, unsure: bool, said: str
) -> None:
    (place.root / "takeback.toml").write_text("[outbox]\nfirst-pause-s = 60\n")
    before_us = time.time_ns() // 1000
    with place.tb.run("post", deliver=True) as run:
        run.defer("http", "POST", sink.url(path), json=1, timeout_s=0.3 if path == "slow" else 30)
    queued = one(place)
    assert (queued.state, queued.unsure, queued.attempts) == (state, unsure, 1)
    assert said in last(place).why
    if path == "busy":
        assert 120 <= (queued.due_us - before_us) / 1e6 < 180
    assert sink.bodies() == []


def test_nobody_there_is_no_doubt(place: Place, sink: Sink) -> None:
    sink.kill()
    with place.tb.run("post", deliver=True) as run:
        run.defer("http", "POST", sink.url(), json=1)
    assert (one(place).state, one(place).unsure) == (IntentState.DUE, False)
    assert "was not reached" in last(place).why
    sink.start()
    place.tb.courier().run(once=True)
    while one(place).state is not IntentState.DELIVERED:
        time.sleep(0.01)
        place.deliver()
    assert len(effects(sink.folder)) == 1


def test_an_answer_that_is_lost_makes_no_second_effect(place: Place, sink: Sink) -> None:
    with place.tb.run("post", deliver=True) as run:
        run.defer("http", "POST", sink.url("broken-after"), json=1, tries=3)
    while one(place).state is not IntentState.DEAD:
        time.sleep(0.01)
        place.deliver()
    assert [requests(sink.folder).total(), len(effects(sink.folder))] == [3, 1]
    assert last(place).unsure


def test_a_webhook_is_signed(place: Place, sink: Sink) -> None:
    secret = "whsec_" + base64.b64encode(b"a secret of some length").decode()
    with place.tb.run("post", deliver=True) as run:
        run.defer("webhook", sink.url(), {"type": "done"}, secret=secret)
    queued = one(place)
    headers = {name.lower(): text for name, text in _headers(queued).items()}
    key = queued.deferred.delivery_key
    assert (headers["webhook-id"], headers["idempotency-key"]) == (key, key)
    signed = f"{key}.{headers['webhook-timestamp']}.".encode() + b'{"type":"done"}'
    expected = base64.b64encode(hmac.digest(b"a secret of some length", signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert secret not in "".join(map(repr, place.tb.journal.read()))


def _headers(queued: Queued) -> dict[str, str]:
    import json

    found: dict[str, str] = json.loads(queued.result["body"])["headers"]
    return found


def test_mail_has_the_key_as_its_message_id(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with MailServer() as server:
        monkeypatch.setenv("TAKEBACK_SMTP", server.url)
        with place.tb.run("mail", deliver=True) as run:
            run.defer(
                "email",
                to=["ann@example.org", "bob@example.org"],
                subject="done",
                body="It is done.\n.\n",
                html="<p>done</p>",
                sender="me@example.net",
            )
    key = one(place).deferred.delivery_key
    assert one(place).state is IntentState.DELIVERED
    ((recipients, text),) = server.mails
    assert recipients == ["ann@example.org", "bob@example.org"]
    assert f"Message-ID: <{key}@example.net>" in text
    assert "It is done." in text
    assert one(place).deferred.about == "email to ann@example.org and 1 more"


@pytest.mark.parametrize(
    "trouble, state, unsure",
    [
        ({"RCPT": "550 no such user"}, IntentState.DEAD, False),
        ({"RCPT": "450 try later"}, IntentState.DUE, False),
        ({"DATA": "554 no"}, IntentState.DEAD, False),
        ({"DATA": ""}, IntentState.DUE, True),
        ({"EHLO": "", "HELO": ""}, IntentState.DUE, False),
    ],
)
def test_what_a_mail_server_means(
    place: Place, monkeypatch: pytest.MonkeyPatch, trouble: dict[str, str], state: IntentState, unsure: bool
) -> None:
    with MailServer(trouble) as server:
        monkeypatch.setenv("TAKEBACK_SMTP", server.url)
        with place.tb.run("mail", deliver=True) as run:
            run.defer("email", to="ann@example.org", subject="x", sender="me@example.net")
    assert (one(place).state, one(place).unsure) == (state, unsure)
    assert server.mails == []


def test_mail_without_a_server_is_a_dead_letter(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        run.defer("email", to="ann@example.org", subject="x")
    assert one(place).state is IntentState.DEAD
    assert "no mail server" in last(place).why


def test_a_command_is_given_the_key(place: Place, tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['TAKEBACK_KEY'], sys.stdin.read(), os.getcwd())"
    with place.tb.run("command", deliver=True) as run:
        run.defer("command", [sys.executable, "-c", code], input="hello")
    key = one(place).deferred.delivery_key
    assert one(place).result == {"exit_code": 0, "output": f"{key} hello {place.root}\n"}


@pytest.mark.parametrize(
    "words, timeout_s, state",
    [
        ([sys.executable, "-c", "raise SystemExit(65)"], 60, IntentState.DEAD),
        ([sys.executable, "-c", "raise SystemExit(75)"], 60, IntentState.DUE),
        ([sys.executable, "-c", "import time; time.sleep(60)"], 0.5, IntentState.DUE),
        (["/no/such/program"], 60, IntentState.DEAD),
    ],
)
def test_what_the_end_of_a_command_means(
    place: Place, words: list[str], timeout_s: float, state: IntentState
) -> None:
    with place.tb.run("command", deliver=True) as run:
        run.defer("command", words, timeout_s=timeout_s)
    assert one(place).state is state


def test_a_function_that_hangs_is_given_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("takeback.engine.outbox.worker.LATE_S", 0.1)
    with place.tb.run("hang", deliver=True) as run:
        run.defer(tools.hang, "a", timeout_s=0.1)
        run.defer(tools.note, "b")
    hung, sent = place.intents()
    assert (hung.state, hung.unsure, sent.state) == (IntentState.DUE, True, IntentState.DELIVERED)
