"""docs/CLI.md knows every command and option, and every help text has the same voice.

Each command has a heading of its own that begins with its full name, as in "## takeback outbox list"
(backticks are allowed), and its options stand under that heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from takeback.agents.following import OWN, OWN_COMMANDS
from takeback.cli import app
from takeback.cli.app import COMMANDS
from tests.house.repository import document

# If a coding agent runs one of these, the call is an action of that agent, like any other command.
# fmt: off
RECORDED = {
    "init", "run", "try", "stage", "bisect", "replay", "resume", "approve", "deny", "handover", "settle",
    "outbox", "dead", "locks", "install", "uninstall", "doctor", "plan", "export",
    "gc", "forget", "store", "guard", "workflow", "monitor", "notify", "daemon", "completion",
    "compare", "promote", "rehearse",
}
# fmt: on


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every visible command below this one, with its full name."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None, f"{name} lists {word}, which it does not have"
            if not below.hidden:
                yield from walk(below, f"{name} {word}")


def options(command: click.Command) -> Iterator[click.Option]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield parameter


def sections(text: str) -> dict[str, str]:
    """The text under each heading that names a command."""
    parts = re.split(r"^#+ +(.+)$", text, flags=re.MULTILINE)
    found = {}
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        if match := re.match(r"`?(takeback(?:-hook)?(?: [a-z][\w-]*)*)", heading):
            found[match[1]] = body
    return found


def mentions(text: str, word: str) -> bool:
    """Whether the option stands there as a whole word: `--deep-sea` is no mention of `--deep`."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def undocumented(root: click.Command, text: str) -> list[str]:
    documented, missing = sections(text), []
    for name, command in walk(root, "takeback"):
        if name not in documented:
            missing.append(name)
            continue
        spellings = [word for option in options(command) for word in (*option.opts, *option.secondary_opts)]
        missing += [f"{name} {word}" for word in spellings if not mentions(documented[name], word)]
    return missing


def faults_of_voice(root: click.Command) -> list[str]:
    """Help texts are imperative and end without a full stop."""
    faults = []
    for name, command in walk(root, "takeback"):
        first = (command.help or "").strip().partition("\n\n")[0]
        word = first.partition(" ")[0]
        if not first:
            faults.append(f"{name}: no help text")
        elif first.endswith("."):
            faults.append(f"{name}: ends with a full stop")
        elif not word[0].isupper() or (word.endswith("s") and not word.endswith("ss")):
            faults.append(f"{name}: '{word} …' is not imperative")
        faults += [
            f"{name} {option.opts[0]}: no help text, or a full stop at its end"
            for option in options(command)
            if not option.help or option.help.rstrip().endswith(".")
        ]
    return faults


def test_each_command_and_option_is_documented() -> None:
    assert undocumented(app, document("docs/CLI.md")) == []


def test_nothing_is_documented_that_does_not_exist() -> None:
    existing = {name for name, _ in walk(app, "takeback")} | {"takeback-hook"}
    assert set(sections(document("docs/CLI.md"))) - existing == set()


def test_help_texts_have_one_voice() -> None:
    assert faults_of_voice(app) == []


def test_the_list_of_commands_has_their_first_lines() -> None:
    found = {name: command.help or "" for name, command in walk(app, "takeback") if name.count(" ") == 1}
    assert {f"takeback {name}": line for name, line in COMMANDS.items()} == {
        name: text.strip().partition("\n")[0] for name, text in found.items()
    }


def test_it_is_decided_of_each_command_whether_an_agents_call_is_an_action() -> None:
    own = set(OWN_COMMANDS.split("|"))
    assert own <= COMMANDS.keys() and own | RECORDED == COMMANDS.keys() and not own & RECORDED
    assert all(OWN.fullmatch(f"takeback {name} a7") for name in own)
    assert not any(OWN.fullmatch(f"takeback {name}") for name in RECORDED)
    assert OWN.fullmatch('takeback undo --to "before a9"') and OWN.fullmatch(
        "takeback show '2h ago:src/a.py'"
    )
    for more in ('"$(rm x)"', '"`rm x`"', '"a" && rm x', "'a'; rm x", '"a" > x', '"a\nrm x"'):
        assert not OWN.fullmatch(f"takeback undo --to {more}"), more


def sample() -> click.Group:
    @click.group(help="Take back what was done")
    def root() -> None: ...

    @root.command(help="Shows a thing.")
    @click.option("--deep/--shallow")
    def show() -> None: ...

    @root.command("list", help="Lists things")
    def list_() -> None: ...

    return root


def test_the_checks_can_fail() -> None:
    text = "# Commands\n## takeback\n## `takeback show ID`\n`--deep-sea`, --shallow\n"
    assert undocumented(sample(), text) == ["takeback list", "takeback show --deep"]
    assert faults_of_voice(sample()) == [
        "takeback list: 'Lists …' is not imperative",
        "takeback show: ends with a full stop",
        "takeback show --deep: no help text, or a full stop at its end",
    ]
