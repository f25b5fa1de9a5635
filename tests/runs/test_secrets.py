"""Secrets reach the tools, and not the journal: neither as arguments, nor in names, nor in what errors say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import takeback
from takeback.core.events import ActionBegan
from takeback.errors import HandedOver, RefusedError
from tests.runs.scene import Scene

SECRET = "hunter2zz"
URL = f"postgres://bob:{SECRET}@db/x"


def login(user: str, password: str, *more_tokens: str) -> str:
    assert password.startswith(SECRET)
    return "ok"


@takeback.action(effect="none")
def look(password: str) -> str:
    return login("me", password)


@takeback.action(effect="irreversible")
def wire(amount: int, password: str) -> str:
    return login("me", password)


def keywords(**options: Any) -> str:
    return "ok"


def fails(n: int) -> None:
    raise ConnectionError(f"{URL} refused, Authorization: Bearer {SECRET}")


def journal(scene: Scene) -> str:
    return b"\n".join(msgspec.json.encode(record.event) for record in scene.tb.journal.read()).decode()


def test_no_record_has_a_secret_in_it(scene: Scene) -> None:
    with scene.tb.run(
        f"first --password {SECRET}", approve=lambda question: question.asked.name == "wire"
    ) as run:
        with run.step(f"log in with password={SECRET}"):
            run.call(login, "bob", SECRET, SECRET)
            run.call(login, user="bob", password=SECRET)
            run.call(look, SECRET)
            run.call(wire, 5, SECRET)
        for given in (
            {"accessToken": SECRET},
            {"password": [SECRET]},
            {"headers": {"Authorization": f"Bearer {SECRET}", "x-api-key": {"v": SECRET}}},
            {"env": {"PGPASSWORD": SECRET}},
        ):
            run.call(keywords, **given)
        with pytest.raises(ConnectionError):
            run.call(fails, 1)
    with pytest.raises(ConnectionError), scene.tb.run("second") as run, run.step("one"):
        fails(1)
    with pytest.raises(HandedOver), scene.tb.run("third", key="K") as run:
        run.hand_over(f"is {URL} right?")
    scene.tb.give_back(run.id, f"yes: {URL}")
    with pytest.raises(RefusedError), scene.tb.run("fourth", autopilot=True) as run:
        run.call(wire, 5, SECRET)
    scene.tb.save(f"before {URL}")
    written = journal(scene)
    assert "bob" in written and "[hidden]" in written
    assert SECRET not in written


def test_what_is_hidden_is_kept_for_the_handlers(scene: Scene) -> None:
    with scene.tb.run("secrets") as run:
        run.call(login, "bob", SECRET)
    (action,) = [a for a in scene.tb.history.actions.values() if a.name == "login"]
    assert isinstance(action.began, ActionBegan)
    assert action.began.arguments == {"args": ["bob", "[hidden]"], "kwargs": {}}
    assert scene.tb.parts.calls.known(action).call.args == ["bob", SECRET]


def test_names_that_differ_only_in_a_secret_are_two_steps(scene: Scene) -> None:
    done: list[str] = []
    with scene.tb.run("steps") as run:
        for word in ("one", "two"):
            with run.step(f"use --token {word}") as step:
                assert not step.done
                done.append(step.path)
    assert done == ["use --token [hidden]", "use --token [hidden]#2"]
