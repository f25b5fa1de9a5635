"""How often a human is asked: seldom about what agents type all day, and always about what leaves the machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from takeback.core.events import Effect
from takeback.core.policy import RuleContext, judge_call
from takeback.core.rules import Rules, Ruling
from takeback.engine.gate.foresight import Foresight
from takeback.shell.sink import RunningProcess

from .corpus import of, ordinary

ASKED_MAX = 0.02


@pytest.fixture
def ground(tmp_path: Path) -> RuleContext:
    """A project with a compose file, whose session has started a few servers."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "compose.yaml").write_text("services:\n  web: {}\n")
    servers = [
        RunningProcess(4242, "node", "node server.js", own=True),
        RunningProcess(4243, "node", "node vite --port 5173", own=True),
        RunningProcess(4244, "sshd", "sshd -D", own=False),
    ]
    known = Foresight(root, tmp_path / "home", here=lambda: str(root), running=lambda: servers)
    return RuleContext(str(root), str(root), foresee=known)


def asked(ground: RuleContext, lines: list[str]) -> list[str]:
    def is_asked(line: str) -> bool:
        found = judge_call(Rules(), "Bash", Effect.RESTORABLE, {"command": line}, ground)
        return found.do is not Ruling.ALLOW

    return [line for line in lines if is_asked(line)]


def test_at_most_two_in_a_hundred_ordinary_commands_are_asked_about(
    ground: RuleContext, capsys: pytest.CaptureFixture[str]
) -> None:
    """The threshold stands in docs/COMMANDS.md."""
    lines = sorted(set(ordinary()))
    assert len(lines) >= 600
    found = asked(ground, lines)
    with capsys.disabled():
        sys.stdout.write(f"\n  asked about {len(found)} of {len(lines)} ordinary commands\n")
    assert len(found) <= ASKED_MAX * len(lines), found


def test_what_cannot_be_taken_back_is_asked_about(ground: RuleContext) -> None:
    missed = set(of("irreversible")) - set(asked(ground, of("irreversible")))
    # A signal, a request or a container of the session's own is none of these here.
    assert len(missed) <= 0.02 * len(of("irreversible")), missed
