"""The labelled commands: nothing that does harm is taken for safe, and little is unknown."""

from __future__ import annotations

import sys

import pytest

from takeback.shell.judgement import Reach

from .corpus import HARMFUL, SAFE, Figures, judge, labelled, of


@pytest.fixture(scope="module")
def figures() -> Figures:
    return Figures()


def test_nothing_harmful_is_taken_for_safe(figures: Figures) -> None:
    missed = [(label, line) for label, line, reach in figures.judged if label in HARMFUL and reach in SAFE]
    assert missed == []


def test_what_writes_is_never_said_to_read_only(figures: Figures) -> None:
    assert [line for label, line, reach in figures.judged if label == "writes" and reach is Reach.NONE] == []


def test_recall_precision_and_unknown(figures: Figures, capsys: pytest.CaptureFixture[str]) -> None:
    """The thresholds stand in docs/COMMANDS.md."""
    with capsys.disabled():
        sys.stdout.write("\n  " + "\n  ".join(figures.lines()) + "\n")
    assert figures.share("irreversible", Reach.IRREVERSIBLE) >= 0.98
    assert figures.share("outside", Reach.OUTSIDE) >= 0.98
    assert figures.share("reads", Reach.NONE) >= 0.98
    assert figures.share("writes", Reach.RESTORABLE) >= 0.98
    assert figures.precision(Reach.IRREVERSIBLE, "irreversible", "hidden") >= 0.98
    assert figures.precision(Reach.NONE, "reads") == 1
    assert figures.unknown() <= 0.02


def test_the_corpus_is_large_and_says_nothing_twice() -> None:
    lines = [line for _, line in labelled()]
    assert len(lines) >= 400
    assert len(lines) == len(set(lines))
    assert len(of("irreversible", "outside", "hidden")) >= 200


def test_a_reason_says_what_it_is_about() -> None:
    for line in of("irreversible"):
        reason = judge(line).main
        assert reason is not None
        assert reason.why
        assert reason.rule
