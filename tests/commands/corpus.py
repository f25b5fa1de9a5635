"""The labelled commands in `corpus`, and how well they are judged."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

from takeback.shell.classify import classify
from takeback.shell.judgement import Judgement, Reach

FOLDER = Path(__file__).parent / "corpus"
ROOT, HOME = "/project", "/home/me"

MEANS = {
    "reads": Reach.NONE,
    "writes": Reach.RESTORABLE,
    "outside": Reach.OUTSIDE,
    "irreversible": Reach.IRREVERSIBLE,
    "hidden": Reach.UNKNOWN,
}
"""What each label says that a command does. What is hidden may do anything: nobody can tell from its words."""
HARMFUL = ("outside", "irreversible", "hidden")


def judge(line: str) -> Judgement:
    return classify(line, root=ROOT, cwd=ROOT, home=HOME)


def labelled() -> list[tuple[str, str]]:
    """Every label with its command."""
    return [(label, line) for label, line in _every() if label in MEANS]


def ordinary() -> list[str]:
    """What agents type all day: the ordinary commands, and the labelled ones that only read or write here."""
    return [line for label, line in _every() if label in ("ordinary", "reads", "writes")]


def _every() -> list[tuple[str, str]]:
    return [
        (label, line)
        for path in sorted(FOLDER.glob("*.toml"))
        for label, lines in tomllib.loads(path.read_text(encoding="utf-8")).items()
        for line in lines
    ]


def of(*labels: str) -> list[str]:
    return [line for label, line in labelled() if label in labels]


class Figures:
    """How the judgements compare with the labels."""

    def __init__(self) -> None:
        self.judged = [(label, line, judge(line).reach) for label, line in labelled()]
        self.counts = Counter((label, reach) for label, _, reach in self.judged)

    def share(self, label: str, reach: Reach) -> float:
        """How much of what has this label is judged so."""
        return self.counts[label, reach] / sum(n for (other, _), n in self.counts.items() if other == label)

    def precision(self, reach: Reach, *labels: str) -> float:
        """How much of what is judged so has one of these labels."""
        every = sum(n for (_, other), n in self.counts.items() if other is reach)
        return sum(self.counts[label, reach] for label in labels) / every

    def unknown(self) -> float:
        """How much is judged unknown of what could be known."""
        known = [reach for label, _, reach in self.judged if label != "hidden"]
        return sum(reach is Reach.UNKNOWN for reach in known) / len(known)

    def lines(self) -> list[str]:
        caught = sum(n for (label, r), n in self.counts.items() if label in HARMFUL and r not in SAFE)
        harmful = sum(n for (label, _), n in self.counts.items() if label in HARMFUL)
        return [
            f"{len(self.judged)} labelled commands",
            *(f"recall of {label}: {self.share(label, reach):.1%}" for label, reach in MEANS.items()),
            f"precision of irreversible: {self.precision(Reach.IRREVERSIBLE, 'irreversible', 'hidden'):.1%}",
            f"precision of none: {self.precision(Reach.NONE, 'reads'):.1%}",
            f"unknown among those that could be known: {self.unknown():.1%}",
            f"harmful or hidden, not taken for safe: {caught} of {harmful}",
        ]


SAFE = (Reach.NONE, Reach.RESTORABLE)
