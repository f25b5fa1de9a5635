"""The chaos kit finds agents that are broken and says where; sound ones pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback import Workspace
from takeback.errors import UsageError
from takeback.testing.chaos import Chaos, ChaosFailure, ChaosResult, Fault
from tests.chaos import agents
from tests.chaos.office import office


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    office.empty()
    yield
    office.empty()


def tried(folder: Path, agent: Callable[[Workspace], object], **options: Any) -> ChaosResult:
    chaos = Chaos(folder, **options)
    return chaos(agent, world=office.world, service=office.counts, reset=office.empty)


def line(function: Callable[..., object], text: str) -> str:
    """The file and line of a function's first line with this text in it."""
    lines, start = inspect.getsourcelines(function)
    return f"{agents.__file__}:{start + next(n for n, one in enumerate(lines) if text in one)}"


def test_a_sound_agent_passes_with_every_fault_at_every_place(tmp_path: Path) -> None:
    result = tried(tmp_path, agents.sound)
    # 3 bookings, a question, an output and 2 steps with the end of the run.
    assert result.rounds == 4 * 9 + 3 * 5 + 2
    assert result.taken_back and result.completed
    assert result.taken_back + result.completed == result.rounds


@pytest.mark.parametrize(
    "broken, fixed, blamed",
    [
        (agents.forgetful, agents.sound, line(agents.cancel_without_the_note, "def ")),
        (agents.outside, agents.sound, line(agents.outside, "office.book")),
        (agents.anew, agents.sound, line(agents.book_anew, "def ")),
        (agents.numbered, agents.volatile, line(agents.numbered, "book_numbered")),
    ],
    ids=["undo forgets a field", "effect outside", "key changes on retry", "key changes when resumed"],
)
def test_a_broken_agent_is_found_with_the_line_and_the_fixed_one_passes(
    tmp_path: Path, broken: Any, fixed: Any, blamed: str
) -> None:
    with pytest.raises(ChaosFailure) as caught:
        tried(tmp_path / "broken", broken)
    assert f"{blamed}: " in str(caught.value), str(caught.value)
    office.empty()
    assert tried(tmp_path / "fixed", fixed, faults=("exception", "answer lost")).rounds


def test_a_failure_tells_the_round_and_only_that_one_is_repeated(tmp_path: Path) -> None:
    name = "call 2: exception"
    with pytest.raises(
        ChaosFailure, match=r"seed 5; to repeat this round: only='call 2: exception', seed=5"
    ) as caught:
        Chaos(tmp_path / "all", seed=5)(agents.numbered, service=office.counts)
    assert "red is there 2 times, not once" in str(caught.value)
    with pytest.raises(ChaosFailure):
        Chaos(tmp_path / "one", only=name, seed=5)(agents.numbered, service=office.counts)
    assert tried(tmp_path / "other", agents.sound, only="call 2: timeout").rounds == 1
    with pytest.raises(UsageError, match="there is no round"):
        tried(tmp_path / "none", agents.sound, only="call 99: timeout")


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    result = tried(tmp_path, agents.volatile, faults=["exception", "403"])
    assert result.resumed and result.resumed + result.taken_back == result.rounds


def test_the_count_alone_finds_a_key_that_changes(tmp_path: Path) -> None:
    with pytest.raises(ChaosFailure) as caught:
        Chaos(tmp_path)(agents.anew, service=office.counts)
    assert f"{line(agents.book_anew, 'def ')}: what book_anew did is not found by its check" in str(
        caught.value
    )


def test_an_async_agent(tmp_path: Path) -> None:
    result = tried(tmp_path, agents.awaiting, faults=["exception", "answer lost"])
    assert (result.rounds, result.taken_back) == (5, 5)


def test_calls_without_a_check_are_handed_over_and_need_a_reset(tmp_path: Path) -> None:
    result = tried(tmp_path, agents.blind, faults=["answer lost", "exception"])
    assert result.handed_over
    with pytest.raises(UsageError, match="cannot be taken back and verified"):
        Chaos(tmp_path / "once")(agents.blind, world=office.world)


def test_a_fault_of_ones_own(tmp_path: Path) -> None:
    mine = Fault("teapot", lambda: LookupError("418"))
    assert tried(tmp_path, agents.sound, faults=[mine]).taken_back == 4


@pytest.mark.parametrize(
    "options, why",
    [
        ({"faults": ["explosion"]}, "'explosion' is not a fault"),
        ({"at": "now and then"}, "is not a choice of places"),
        ({"store": "moon"}, "'moon' is not a store"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Chaos(tmp_path, **options)


def test_an_agent_that_fails_or_does_nothing_is_refused(tmp_path: Path) -> None:
    def failing(tb: Workspace) -> None:
        raise ValueError("by itself")

    with pytest.raises(UsageError, match="the agent fails by itself"):
        tried(tmp_path / "failing", failing)
    with pytest.raises(UsageError, match="committed no run"):
        tried(tmp_path / "idle", lambda tb: None)
