"""`takeback run` keeps to rules that a human wrote down, also without --autopilot."""

from __future__ import annotations

import sys

import pytest

from tests.world.cli import Workspace

from .processes import on_terminal

RULES = {
    "unknown": '[rules.effects]\nunknown = "{do}"\n',
    "irreversible": '[rules.effects]\nirreversible = "{do}"\n',
    "command": '[rules.commands]\n{do} = ["touch made.txt"]\n',
}
WORDS = {
    "unknown": (sys.executable, "make.py"),
    "irreversible": ("sh", "-c", "touch made.txt; npm publish 2> npm.txt"),
    "command": ("touch", "made.txt"),
}
EACH = pytest.mark.parametrize("kind", RULES)


@pytest.fixture(autouse=True)
def script(world: Workspace) -> None:
    world.human("make.py", "import sys\n\ngetattr(sys.modules['builtins'], 'op' + 'en')('made.txt', 'w')\n")


def ruled(world: Workspace, kind: str, do: str) -> tuple[str, ...]:
    """A human's rule, and the command that it is about."""
    world.configure(RULES[kind].format(do=do))
    return ("run", "--", *WORDS[kind])


@EACH
@pytest.mark.parametrize("do", ["ask", "deny"])
def test_without_a_terminal_what_is_denied_or_to_be_asked_for_is_refused(
    kind: str, do: str, world: Workspace
) -> None:
    refused = world.do(*ruled(world, kind, do), code=3)
    assert "was refused" in refused.stderr and "It was not started" in refused.stderr
    assert f"the rule is {'commands.' + do if kind == 'command' else 'effects.' + kind}" in refused.stderr
    assert not world.has("made.txt")
    assert "action-refused" in world.do("export", "--type", "action-refused").stdout


@EACH
def test_on_a_terminal_a_human_is_asked(kind: str, world: Workspace) -> None:
    words = ruled(world, kind, "ask")
    code, shown = on_terminal(world, *words, answer="n")
    assert (code, world.has("made.txt")) == (3, False), shown
    assert "Run it?" in shown
    code, shown = on_terminal(world, *words, answer="y")
    assert world.has("made.txt"), shown


@EACH
def test_what_is_denied_is_not_even_asked_for(kind: str, world: Workspace) -> None:
    code, shown = on_terminal(world, *ruled(world, kind, "deny"), answer="y")
    assert (code, world.has("made.txt")) == (3, False) and "Run it?" not in shown


@EACH
def test_an_agent_cannot_answer(kind: str, world: Workspace) -> None:
    words = ruled(world, kind, "ask")
    outer = "import pty, sys; pty.spawn(sys.argv[1:])"
    code, shown = on_terminal(
        world,
        "run",
        "--",
        sys.executable,
        "-c",
        outer,
        sys.executable,
        "-m",
        "takeback",
        *words,
        answer="y\ny",
    )
    assert not world.has("made.txt"), (code, shown)


@pytest.mark.parametrize("kind", ["unknown", "irreversible"])
def test_where_nothing_is_set_it_is_said_and_run(kind: str, world: Workspace) -> None:
    world.run("run", "--", *WORDS[kind])
    assert world.has("made.txt")


def test_what_is_allowed_by_its_words_is_not_asked_for(world: Workspace) -> None:
    world.configure('[rules.effects]\nirreversible = "ask"\n[rules.commands]\nallow = ["npm publish"]\n')
    world.run("run", "--", *WORDS["irreversible"])
    assert world.has("made.txt")
