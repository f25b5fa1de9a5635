"""The commands, as a user or a script calls them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from takeback.core.intents import IntentState
from tests.outbox import tools, workers
from tests.outbox.conftest import Place
from tests.world import cli


def takeback(place: Place, *words: str, code: int = 0) -> str:
    done = cli.run(words, cwd=place.root, home=place.tb.state.parent.parent)
    assert done.code == code, done.said
    return done.stdout or done.stderr


def data(place: Place, *words: str) -> Any:
    return json.loads(takeback(place, *words, "--json"))


def test_from_the_intent_to_the_dead_letter(place: Place, tmp_path: Path) -> None:
    with place.tb.run("mail") as run:
        sent = run.defer(tools.note, "hello", order="o")
        dead = run.defer(tools.refuse, "spam")
    listed = data(place, "outbox", "list")
    assert [(one["id"], one["state"]) for one in listed["intents"]] == [(sent, "due"), (dead, "due")]
    told = tmp_path / "told"
    notifier = f"command:{sys.executable} -c \"open('{told}', 'w').write(input())\""
    assert "Delivered 1, 1 dead letter" in takeback(place, "outbox", "worker", "--once", "--notify", notifier)
    assert "nobody wants spam" in json.loads(told.read_text())["text"]
    (letter,) = data(place, "dead", "list")["dead"]
    assert (letter["id"], letter["last"]["why"]) == (dead, "nobody wants spam")
    assert "1 dead letter waits for you" in takeback(place, "status")
    shown = takeback(place, "show", dead)
    assert "attempt 1" in shown and '"spam"' in shown
    assert data(place, "dead", "retry", dead) == {"retried": [dead]}
    assert data(place, "outbox", "worker", "--once")["dead"] == 1
    assert "Dropped 1 dead letter." in takeback(place, "dead", "drop", "--all", "--why", "not needed")
    assert "Nothing waits to be delivered." in takeback(place, "outbox", "list")
    assert data(place, "outbox", "list", "--all")["counts"] == {"delivered": 1, "dropped": 1}
    assert tools.sent() != []
    life = [one["what"] for one in data(place, "show", dead)["life"]]
    assert life == [
        f"deferred by {place.tb.outbox.get(dead).deferred.action}, until {run.id} commits",  # type: ignore[union-attr]
        "released: from now on a worker may deliver it",
        "attempt 1 failed, for good: nobody wants spam",
        "to be tried again",
        "attempt 1 failed, for good: nobody wants spam",
        "dropped: not needed",
    ]


def test_what_a_human_decides_is_theirs_in_the_log(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        dead = [run.defer(tools.refuse, text) for text in "abcd"]
    takeback(place, "dead", "retry", dead[0])
    takeback(place, "outbox", "worker", "--once")
    takeback(place, "dead", "drop", "--all", "--why", "not needed")
    place.tb.undo(run.id)  # it finds them gone, and knows by whom
    lines = takeback(place, "log").splitlines()
    assert not [line for line in lines if "outside" in line]
    (dropped,) = [line for line in lines if "drop" in line]
    assert f"drop {', '.join(dead[:3])} and 1 more: not needed" in dropped
    assert dropped.split()[1:3] == ["you", dead[0]]
    (retried,) = [line for line in lines if "retry" in line]
    assert retried.split()[1:] == ["you", dead[0], "retry", dead[0]]
    found = json.loads(takeback(place, "log", "--json"))["entries"]
    decisions = [entry["intents"] for entry in found if entry["kind"] == "decision"]
    assert decisions == [dead, dead[:1]]


def test_what_was_taken_back_tells_how(place: Place) -> None:
    with place.tb.run("mail", deliver=True) as run:
        delivered = run.defer(tools.note_with_undo, "room")
    with place.tb.run("mail") as later:
        cancelled = later.defer(tools.note, "a")
    rollbacks = [place.tb.undo(later.id).rollback, place.tb.undo(run.id).rollback]
    assert f"cancelled by {rollbacks[0]}" in takeback(place, "show", cancelled)
    shown = takeback(place, "show", delivered)
    assert "delivered at attempt 1" in shown
    assert f"compensated by {rollbacks[1]}, verified" in shown


def test_wrong_use_is_told(place: Place) -> None:
    with place.tb.run("mail") as run:
        id = run.defer(tools.note, "a")
    assert "there is no intent i999" in takeback(place, "dead", "show", "i999", code=2)
    assert "not a dead letter" in takeback(place, "dead", "retry", id, code=2)
    assert "there is no run r999" in takeback(place, "outbox", "list", "--run", "r999", code=2)
    assert "is not a notifier" in takeback(place, "outbox", "worker", "--notify", "pigeon:home", code=2)


def test_a_worker_ends_when_it_is_asked_to(place: Place, tmp_path: Path) -> None:
    health = tmp_path / "health.json"
    with workers.running(place.root, "--health", str(health)) as worker:
        with place.tb.run("mail") as run:
            for n in range(10):
                run.defer(tools.note, str(n))
        while place.states() != [IntentState.DELIVERED] * 10:
            time.sleep(0.02)
        while not health.exists():
            time.sleep(0.02)
        seen = json.loads(health.read_text())
        assert (seen["pid"], seen["state"]) == (worker.pid, "running")
        assert "Delivered 10." in workers.stop(worker)
    assert not health.exists()
    assert len(tools.sent()) == 10


def test_what_kills_its_workers_is_dead_in_the_end(place: Place) -> None:
    with place.tb.run("mail") as run:
        poison = run.defer(tools.kill, "x", tries=2)
        run.defer(tools.note, "a")
    for _ in range(2):
        takeback(place, "outbox", "worker", "--once", "--concurrency", "1", code=9)
    takeback(place, "outbox", "worker", "--once")
    assert place.states() == [IntentState.DEAD, IntentState.DELIVERED]
    assert [type(record.event).__name__ for record in place.tb.outbox.attempts(poison)] == [
        "IntentAttempted",
        "IntentDied",
    ]
