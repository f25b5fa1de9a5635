"""Chaos with real processes on disk: killed, two at once, and full disks; against a service of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback import Workspace
from takeback.errors import UsageError
from takeback.testing.chaos import FAULTS, Chaos, ChaosFailure
from tests.chaos import agents
from tests.chaos.office import office
from tests.runs import service, tools
from tests.runs.scene import items
from tests.sampling import ALL


@pytest.fixture(autouse=True, scope="module")
def _service() -> Iterator[None]:
    with service.running():
        yield


def reset() -> None:
    service.ask("reset")


def trip(tb: Workspace) -> None:
    with tb.run("trip", key="K") as run:
        with run.step("one"):
            (tb.root / "ticket").write_text("flight")
            run.call(tools.book, "flight")
        run.call(tools.book, "hotel")


def trip_without_a_key(tb: Workspace) -> None:
    with tb.run("trip") as run:
        run.call(tools.book, "flight")


def trip_outside(tb: Workspace) -> None:
    """Books by itself what would have to be a call: whoever continues books again."""
    with tb.run("trip", key="K") as run:
        service.ask("book", item="flight", key="mine")
        run.call(tools.book, "hotel")


def test_killed_and_two_at_once(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, faults=["kill", "two at once"], store="disk", rounds_max=0 if ALL else 8, seed=3)
    result = chaos(trip, world=items, service=items, reset=reset)
    assert result.resumed == result.rounds >= 8


def test_a_run_without_a_key_is_taken_back_after_a_kill(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, faults=["kill"], store="disk", rounds_max=0 if ALL else 3, seed=1)
    result = chaos(trip_without_a_key, world=items, reset=reset)
    assert result.taken_back == result.rounds >= 3
    with pytest.raises(UsageError, match="the run has no key"):
        Chaos(tmp_path / "two", faults=["two at once"], store="disk")(trip_without_a_key, world=items)


def test_an_effect_outside_of_calls_is_found_after_a_kill(tmp_path: Path) -> None:
    with pytest.raises(ChaosFailure) as caught:
        Chaos(tmp_path, faults=["kill"], store="disk")(trip_outside, service=items, reset=reset)
    assert "flight" in str(caught.value)


def test_a_service_in_the_process_is_refused(tmp_path: Path) -> None:
    office.empty()
    with pytest.raises(UsageError, match="is not seen from here"):
        Chaos(tmp_path, faults=["kill"], store="disk")(agents.sound, world=office.world)


def test_a_full_disk_wherever_takeback_writes(tmp_path: Path) -> None:
    office.empty()
    chaos = Chaos(tmp_path, faults=["full disk"], store="disk", rounds_max=0 if ALL else 12, seed=2)
    result = chaos(agents.sound, world=office.world, service=office.counts, reset=office.empty)
    assert result.rounds >= 12


def test_processes_need_a_disk(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not outlive its process"):
        Chaos(tmp_path, faults=["kill"])
    assert {fault.name for fault in Chaos(tmp_path, store="disk").faults} == set(FAULTS)
