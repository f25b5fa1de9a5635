"""Kill -9 at every boundary of a run, then one process or two at once continue it, or take it back.

The service honours no keys: whoever asks twice books twice. So each booking is there exactly once at the end, or
nobody could tell, and then a human was asked and nothing was done twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.core.lifecycle import Life
from takeback.engine.runs.recorded_calls import in_doubt
from takeback.resources.calls import resource
from takeback.testing.forks import BROKEN, killed_at, places, run, start
from takeback.testing.forks import end as ended
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.runs import service, tools
from tests.runs.scene import Scene, items, made
from tests.runs.service import ask
from tests.sampling import ALL, half

ITEMS = ("flight", "hotel", "car")
TOOLS = {"checked": tools.book, "blind": tools.book_blindly}
CONFLICT = 3


class Failure(Exception):
    pass


def opened(folder: Path) -> Workspace:
    return open_workspace(folder / "work", home=folder / "state", watching=False)


def trip(folder: Path, how: str, granularity: str) -> None:
    """The program: three bookings in two steps, with files and memory between them."""
    with opened(folder) as tb, tb.run("trip", key="K", checkpoint=granularity) as run:
        body(run, folder, how)


def failing_trip(folder: Path, how: str, granularity: str) -> None:
    """The same, but for the end: so it takes itself back."""
    try:
        with opened(folder) as tb, tb.run("trip", key="K", checkpoint=granularity) as run:
            body(run, folder, how)
            raise Failure
    except Failure:
        pass


def body(run: Any, folder: Path, how: str) -> None:
    with run.step("one"):
        (folder / "work" / "ticket").write_text("flight")
        assert run.call(TOOLS[how], "flight")["item"] == "flight"
        run.memory["booked"] = ["flight"]
    with run.step("two"):
        run.call(TOOLS[how], "hotel")
        (folder / "work" / "plan").write_text("hotel")
        run.call(TOOLS[how], "car")
    run.memory["done"] = True


def undo(folder: Path, *_: str) -> None:
    with opened(folder) as tb:
        tb.undo(next(iter(tb.history.runs)), on_conflict="overwrite")


@pytest.fixture(autouse=True)
def _impatient(_service: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "PAUSE_S", 0.0)


def prepared(folder: Path) -> Path:
    service.ask("reset")
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "plan").write_text("old")
    return folder


BOUNDARIES = ("call-", "rollback-", "action-", "checkpoint-")


def chosen(passed: list[str]) -> Iterator[int]:
    """The places at which to die: all of them, or of each name the first and the last."""
    for n, name in enumerate(passed, 1):
        first, last = name not in passed[: n - 1], name not in passed[n:]
        if ALL or (name.startswith(BOUNDARIES) and (first or last)):
            yield n


def recover(folder: Path, program: Any, racing: int, *given: str) -> list[int]:
    pids = [start(program, folder, *given, errors=folder / "errors") for _ in range(racing)]
    codes = [ended(pid) for pid in pids]
    assert BROKEN not in codes, (folder / "errors").read_text()
    return codes


def sound(folder: Path) -> Any:
    """The one run, after everything was looked into."""
    with opened(folder) as tb:
        tb.recover()
        assert list(tb.journal.check()) == [] and tb.history.breaches == []
        assert tb.history.open_actions() == []
        return tb.history.runs


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how, racing, granularity", half(list(TOOLS), [1, 2], ["step", "action"]))
def test_continued_after_a_kill(tmp_path: Path, how: str, racing: int, granularity: str) -> None:
    passed = places(trip, prepared(tmp_path / "all"), how, granularity, errors=tmp_path / "errors")
    asked = 0
    for n in chosen(passed):
        folder, name = prepared(tmp_path / str(n)), passed[n - 1]
        assert killed_at(n, trip, folder, how, granularity, errors=folder / "errors"), name
        codes = recover(folder, trip, racing, how, granularity)
        handed = [r for r in sound(folder).values() if r.life is Life.HANDED_OVER]
        if handed:
            asked += 1
            assert how == "blind" and set(codes) == {CONFLICT}, name
            assert all(made(item) <= 1 for item in ITEMS)
            ask_human(folder)
            codes = recover(folder, trip, racing, how, granularity)
        assert codes == [0] * racing, f"{name}: {(folder / 'errors').read_text()}"
        assert items() == dict.fromkeys(ITEMS, 1), name
        assert [made(item) for item in ITEMS] == [1, 1, 1], name
        assert {r.life for r in sound(folder).values()} == {Life.DONE}
        assert (folder / "work" / "ticket").read_text() == "flight"
    assert bool(asked) == (how == "blind")


def ask_human(folder: Path) -> None:
    """The human looks at the service, says what is there of a call that is in doubt, and gives the run back."""
    with opened(folder) as tb:
        (handed,) = tb.parts.runs.handovers()
        happened: dict[str, Any] = {}
        never: list[str] = []
        for action in (tb.history.actions[id] for id in handed.actions):
            began: Any = action.began
            if not in_doubt(tb.history, action):
                continue
            found = [b for b in ask("world")["bookings"] if b["item"] == began.arguments["args"][0]]
            happened |= {action.id: found[0]} if found else {}
            never += [] if found else [action.id]
        tb.parts.runs.give_back(handed.id, "human", happened=happened, never=never)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("racing, granularity", half([1, 2], ["step", "action"]))
def test_taken_back_after_a_kill(tmp_path: Path, racing: int, granularity: str) -> None:
    passed = places(trip, prepared(tmp_path / "all"), "checked", granularity, errors=tmp_path / "errors")
    for n in chosen(passed):
        folder, name = prepared(tmp_path / str(n)), passed[n - 1]
        before = look(folder)
        assert killed_at(n, trip, folder, "checked", granularity, errors=folder / "errors"), name
        began = bool(sound(folder))
        codes = recover(folder, undo if began else trip_not_begun, racing)
        assert codes == [0] * racing, f"{name}: {(folder / 'errors').read_text()}"
        assert substance(before.residue(look(folder))) == [], name
        assert all(made(item) <= 1 for item in ITEMS)
        # And then the same intent again, from the beginning: other keys, and each once.
        assert recover(folder, trip, racing, "checked", granularity) == [0] * racing
        assert items() == dict.fromkeys(ITEMS, 1), name


def substance(residue: list[str]) -> list[str]:
    """Without the time of the folder: whose it is after a kill is in doubt, and nobody misses it."""
    return [text for text in residue if not text.startswith("'.': mtime_ns")]


def trip_not_begun(folder: Path) -> None:
    """There is nothing to take back where nothing was recorded."""


def look(folder: Path) -> Any:
    return Scene(folder / "work", folder / "state", None).look()  # type: ignore[arg-type]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how, racing, recovery", half(list(TOOLS), [1, 2], ["continue", "undo"]))
def test_killed_while_it_takes_itself_back(tmp_path: Path, how: str, racing: int, recovery: str) -> None:
    """The failing run is killed also in the middle of its rollback. Then it is tried again, or finished."""
    passed = places(failing_trip, prepared(tmp_path / "all"), how, "step", errors=tmp_path / "errors")
    begins = passed.index("rollback-planned")
    for n in (n for n in chosen(passed) if n > begins):
        folder, name = prepared(tmp_path / str(n)), passed[n - 1]
        before = look(folder)
        assert killed_at(n, failing_trip, folder, how, "step", errors=folder / "errors"), name
        if recovery == "undo":
            codes = recover(folder, undo, racing)
            assert before.residue(look(folder)) == [], name
            # Without a check nobody could look, and that is said by whoever did it.
            assert set(codes) <= ({0} if how == "checked" else {0, 6}), (name, codes)
            assert all(made(item) == 1 for item in ITEMS)
        else:
            with opened(folder) as tb:
                begun = any(action.is_rollback for action in tb.history.actions.values())
            codes = recover(folder, trip, racing, how, "step")
            if how == "blind" and begun:
                # Whether the bookings are gone nobody could look. So it waits for a human, wherever it was killed.
                assert codes == [CONFLICT] * racing and items() == {}, name
                ask_human(folder)
                codes = recover(folder, trip, racing, how, "step")
            assert codes == [0] * racing, f"{name}: {codes} {(folder / 'errors').read_text()}"
            assert items() == dict.fromkeys(ITEMS, 1), name
        sound(folder)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", list(TOOLS))
def test_killed_again_while_it_recovers(tmp_path: Path, how: str) -> None:
    """The first recoverer dies too, anywhere; two more race for what is left."""
    passed = places(failing_trip, prepared(tmp_path / "all"), how, "step", errors=tmp_path / "errors")
    first = [passed.index(name) + 1 for name in ("call-ended", "rollback-recorded", "call-undone")]
    for n in first:
        tried = 0
        for tried, second in enumerate(range(1, 200, 1 if ALL else 41)):  # noqa: B007
            folder = prepared(tmp_path / f"{n}-{second}")
            assert killed_at(n, failing_trip, folder, how, "step", errors=folder / "errors")
            if not killed_at(second, trip, folder, how, "step", errors=folder / "errors"):
                break
            codes = recover(folder, trip, 2, how, "step")
            if any(r.life is Life.HANDED_OVER for r in sound(folder).values()):
                assert how == "blind" and set(codes) == {CONFLICT}
                assert all(count == 1 for count in items().values())
                ask_human(folder)
                codes = recover(folder, trip, 2, how, "step")
            assert codes == [0, 0], f"{n} {second}: {(folder / 'errors').read_text()}"
            assert items() == dict.fromkeys(ITEMS, 1)
        assert tried, "it was never killed while it recovered"


def test_undisturbed(tmp_path: Path) -> None:
    """The program itself, undisturbed: every booking once, and a second time nothing happens."""
    folder = prepared(tmp_path / "all")
    for _ in range(2):
        assert run(trip, folder, "checked", "step", errors=folder / "errors") == 0
        assert [made(item) for item in ITEMS] == [1, 1, 1]
    assert ask("world")["asked"]["book flight"] == 1
