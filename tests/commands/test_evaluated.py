"""Texts that bash evaluates: whatever it runs when it does so, the judgement does not call safe."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from takeback.shell.judgement import Reach

from .corpus import SAFE, judge

FOLDER = Path(__file__).parent / "corpus"


def listed(name: str) -> list[str]:
    """The lines of a list; in each, ¶ is the end of a line."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [line.replace("¶", "\n") for line in text.splitlines() if line and not line.startswith("# ")]


EVALUATED = listed("evaluated.txt")


def test_what_a_real_bash_runs_by_evaluating_a_text_is_never_safe(tmp_path: Path) -> None:
    """Each line is given to bash, with a harmless command in place of RUN."""
    ran, missed = 0, []
    for place, line in enumerate(EVALUATED):
        folder = tmp_path / str(place)
        folder.mkdir()
        script = line.replace("RUN", "touch RAN")
        subprocess.run(
            ["bash", "--norc", "-c", script],
            cwd=folder,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        if (folder / "RAN").exists():
            ran += 1
            if judge(line.replace("RUN", "git push")).reach in SAFE:
                missed.append(line)
    assert missed == []
    assert ran > len(EVALUATED) / 2  # else they say nothing


@pytest.mark.parametrize("line", listed("plain_arithmetic.txt"))
def test_ordinary_arithmetic_and_variables_stay_harmless(line: str) -> None:
    assert judge(line).reach is Reach.NONE
