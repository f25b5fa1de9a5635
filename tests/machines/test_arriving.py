"""Bringing a workspace to another machine, by the command line; killed at every place, and called again."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import msgspec
import pytest

import takeback
from takeback.errors import RefusedError, SeatHeld, SeatLost, StoreMoved, UsageError
from takeback.settings import environment
from takeback.storage.state import location, place
from takeback.storage.state.registry import Registry
from takeback.testing import crash
from takeback.workspace.store import bring
from tests.machines import tools
from tests.machines.conftest import DONE, FILES, MEMORY, Shop, memory, tree

POINTS = {
    "arrival-noted": 1,
    "arrival-begun": 1,
    "arrival-fetched": 1,
    "restore-staged": 1,
    "restore-ready": 1,
    "restore-swapped": 4,
    "restore-dressed": 1,
    "sqlite-swapped": 1,
    "arrival-brought": 1,
    "journal-inside": 1,
    "journal-committed": 1,
    "journal-anchored": 1,
    "seat-taken": 1,
    "arrival-seated": 1,
}
HALF = [
    point for point in POINTS if point.startswith(("arrival-be", "arrival-f", "arrival-br", "rest", "sq"))
]
SAMPLE = ["restore-swapped", "seat-taken"]


def died(shop: Shop) -> None:
    """The first machine, in the middle of its run, with a database."""
    shop.begin()
    shop.one.killed("outbox-deferred", 1, "tests.machines.tools:work", shop.one.folder())


def cut_short(point: str, shop: Shop) -> None:
    died(shop)
    new = shop.two.folder("new")
    shop.silent(new)
    shop.two.killed(point, POINTS[point], "takeback", *shop.resume(new))
    if point in HALF:
        # What is half here records nothing: it would be taken for what somebody deleted.
        with shop.two.at_work(), takeback.open(new) as tb, pytest.raises(SeatLost):
            tb.save()
    shop.silent(new)
    shop.two.takeback(*shop.resume(new))
    shop.works_on(shop.two, new)
    assert tree(new) == FILES and shop.booked() == DONE and memory(shop.two, new) == MEMORY
    with shop.two.at_work(), takeback.open(new) as tb:
        assert tb.verify(deep=True) == [] and tb.history.breaches == []
        assert not any(action.kind == "outside" and action.made for action in tb.history.actions.values())
        assert place.arriving(tb.state) is None
    assert [name for name in os.listdir(new) if name.startswith(".takeback")] == []


@pytest.mark.parametrize("point", SAMPLE)
def test_cut_short_it_goes_on(point: str, shop: Shop) -> None:
    cut_short(point, shop)


@pytest.mark.sweep
@pytest.mark.parametrize("point", [point for point in POINTS if point not in SAMPLE])
def test_cut_short_anywhere(point: str, shop: Shop) -> None:
    cut_short(point, shop)


def test_the_places_are_all_there_are(shop: Shop) -> None:
    died(shop)
    new = shop.two.folder("new")
    outlook = shop.silent(new)
    with crash.at("", lambda: None) as passes, shop.two.at_work():
        arrived = bring.arrive(outlook)
    mine = {name for name in passes if name.startswith(("arrival-", "seat-", "restore-", "sqlite-sw"))}
    assert mine == {name for name in POINTS if not name.startswith("journal-")}
    assert arrived.is_new and arrived.databases == 1 and arrived.files > 5
    assert stat.S_IMODE((outlook.state / place.FILE).stat().st_mode) == 0o600


def test_the_command_says_what_it_does(shop: Shop) -> None:
    died(shop)
    new = shop.two.folder("new")
    shop.silent(new)
    with shop.one.at_work(), takeback.open(shop.one.folder()) as tb:
        (run,) = tb.history.runs
    seen = shop.two.takeback(*shop.resume(new, run, "--preview"))
    assert f"Would bring {shop.name} into {new}, as it was recorded" in seen
    assert "which is silent; if it comes back, it is refused" in seen and "Nothing was changed." in seen
    told = json.loads(shop.two.takeback(*shop.resume(new, run, "--preview", "--json")))
    assert told["preview"] and told["seat"]["root"] == str(shop.one.folder()) and not new.exists()
    assert "there is no run r999" in shop.two.takeback(*shop.resume(new, "r999"), code=2)
    said = shop.two.takeback(*shop.resume(new, run))
    assert (
        "Brought" in said
        and "read again and equal to what was recorded" in said
        and f"takeback resume {run} --exec" in said
    )
    # Again is no harm: it sits there.
    again = json.loads(shop.two.takeback(*shop.resume(new, run, "--json")).splitlines()[0])
    assert again["new"] is False and again["runs"][0]["id"] == run and again["into"] == str(new)
    # From the old folder everybody hears where it went.
    there = shop.one.takeback("status", cwd=shop.one.folder())
    assert f"This workspace sits in {os.uname().nodename}:{new}." in there
    assert "moved to" in shop.one.takeback("save", cwd=shop.one.folder(), code=3)
    assert run in shop.one.takeback("log", cwd=shop.one.folder())


def test_a_plan_goes_on_by_itself(shop: Shop) -> None:
    root, new = shop.one.folder(), shop.two.folder("new")
    step = {"tool": "tests.machines.tools:write"}
    steps = [
        {"id": "first", **step, "args": {"name": "first.txt", "text": "1"}},
        {"id": "second", **step, "args": {"name": "second.txt", "text": "2"}},
    ]
    (root / "plan.json").write_text(json.dumps({"name": "files", "steps": steps}))
    shop.begin()
    with shop.one.at_work():
        os.chdir(root)
        done = crash.run("call-ended", 2, ["takeback", "plan", "run", str(root / "plan.json")])
    assert done.returncode == crash.KILLED, done.stderr
    shop.silent(new)
    said = shop.two.takeback(*shop.resume(new))
    assert "done earlier  first" in said and "done          second" in said and "is done." in said
    assert (new / "first.txt").read_text() == "1" and (new / "second.txt").read_text() == "2"


def test_what_cannot_be_brought_is_refused(shop: Shop) -> None:
    shop.begin()
    new = shop.two.folder("new")
    with shop.two.at_work():
        with pytest.raises(UsageError, match="no store is named"):
            bring.look(new)
        with pytest.raises(UsageError, match="there is no workspace 'nowhere'"):
            bring.look(new, store=os.environ[tools.STORE], workspace="nowhere")
        with pytest.raises(UsageError, match="no workspace is named"):
            bring.look(new, store=os.environ[tools.STORE])
        blind = bring.look(new, store=os.environ[tools.STORE], workspace=shop.name)
        assert shop.silent(new).history.marks
        with pytest.raises(UsageError, match="no bucket is configured"):
            bring.arrive(msgspec.structs.replace(blind, seat=None))
        assert not new.exists()
        own = shop.two.folder("own")
        own.mkdir()
        takeback.open(own).close()
        with pytest.raises(RefusedError, match="has a history of its own"):
            bring.look(own, store=os.environ[tools.STORE], workspace=shop.name)
        (shop.two.disk / "file").write_text("")
        with pytest.raises(RefusedError, match="is not a folder"):
            bring.look(shop.two.disk / "file", store=os.environ[tools.STORE], workspace=shop.name)
    assert "need --into" in shop.two.takeback("resume", "--store", "x", code=2)
    # Nobody began a workspace by asking for one.
    with shop.two.at_work(), pytest.raises(UsageError):
        bring.look(new, store=os.environ[tools.STORE], workspace="nowhere")


def test_a_slip_is_told_before_anything_of_it_is_kept(shop: Shop, tmp_path: Path) -> None:
    """Corrected, the same command for the same folder works."""
    died(shop)
    new, nope = shop.two.folder("new"), tmp_path / "nope"
    shop.silent(new)
    nope.mkdir()
    (shop.two.disk / "key").write_text("0123456789abcdef" * 4)
    store, blobs = os.environ[tools.STORE], os.environ[tools.BLOBS]
    with shop.two.at_work():
        with pytest.raises(UsageError, match="nope has nothing of"):
            bring.look(new, store=store, workspace=shop.name, blobs=f"file://{nope}")
        with pytest.raises(UsageError, match="is not encrypted, but a key is given"):
            bring.look(
                new, store=store, workspace=shop.name, blobs=blobs, blobs_key=str(shop.two.disk / "key")
            )
        assert not new.exists()
        assert not [path for path in nope.rglob("*") if path.is_file()]
        assert bring.arrive(shop.look(new)).is_new
    assert (new / "first.txt").read_text() == "room one"


def test_a_file_that_somebody_put_there_meanwhile(shop: Shop) -> None:
    died(shop)
    new = shop.two.folder("new")
    shop.silent(new)
    shop.two.killed("arrival-brought", 1, "takeback", *shop.resume(new))
    (new / "first.txt").write_text("mine")
    (new / "mine.txt").write_text("mine")
    said = shop.two.takeback(*shop.resume(new), code=3)
    assert "first.txt, mine.txt was not brought here, and is not overwritten" in said
    assert (new / "first.txt").read_text() == (new / "mine.txt").read_text() == "mine"
    (new / "first.txt").unlink()
    (new / "mine.txt").unlink()
    shop.two.takeback(*shop.resume(new))
    assert (new / "first.txt").read_text() == "room one"


def test_two_who_want_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both bring it; one of them has it."""
    died(shop)
    monkeypatch.setenv("TAKEBACK_SEAT_S", "60")
    first, second = shop.two.folder("first"), shop.two.folder("second")
    for new in (first, second):
        shop.silent(new)
    with shop.two.at_work():
        seen = [shop.look(new) for new in (first, second)]
        bring.arrive(seen[0])
        with pytest.raises(SeatHeld, match=f"is in use in .*:{first}"):
            bring.arrive(seen[1])
        with takeback.open(first) as tb:
            tb.save()
        with takeback.open(second) as tb, pytest.raises(SeatLost, match=f"has been in .*:{first}"):
            tb.save()


def test_it_can_be_seen_where_a_workspace_sits(shop: Shop) -> None:
    shop.begin()
    new = shop.two.folder("new")
    shop.silent(new)
    with shop.two.at_work():
        bring.arrive(shop.look(new))
        with takeback.open(new) as tb, tb.recording("agent"):
            (new / "made").write_text("x")
    assert "sits      in this folder; since " in shop.two.takeback("store", "show", cwd=new)
    assert f":{new}, not here (" in shop.one.takeback("store", "show", cwd=shop.one.folder())
    assert "would take back" in shop.two.takeback("status", cwd=new)
    told = shop.one.takeback("status", cwd=shop.one.folder())
    assert f":{new}. Nothing is recorded here" in told and "would take back" not in told


def test_an_address_may_name_variables(shop: Shop) -> None:
    """So that no password is in a command line, nor in the state folder."""
    shop.begin()
    new = shop.two.folder("new")
    shop.silent(new)
    shop.two.takeback(
        "resume",
        "--into",
        str(new),
        "--store",
        f"${tools.STORE}",
        "--workspace",
        shop.name,
        "--blobs",
        f"${tools.BLOBS}",
    )
    with shop.two.at_work():
        kept = location.read(Registry(environment.state_home()).state_of(new))
    assert kept and (kept.store, kept.blobs) == (f"${tools.STORE}", f"${tools.BLOBS}")


def test_a_history_that_was_taken_elsewhere_is_not_brought_from_there(shop: Shop) -> None:
    shop.begin()
    shop.one.takeback("store", "copy", "--to", "local", cwd=shop.one.folder())
    new = shop.two.folder("new")
    with (
        shop.two.at_work(),
        pytest.raises(StoreMoved, match=f"was moved to {os.uname().nodename}:.*nothing was brought"),
    ):
        shop.look(new)
    assert not new.exists()
