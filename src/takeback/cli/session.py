"""What every command shares: where it works, and how it prints."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from takeback import config
from takeback.cli.progress import Progress
from takeback.errors import UsageError

if TYPE_CHECKING:
    from takeback.workspace import Workspace


class Session(msgspec.Struct):
    """One call of the command line."""

    directory: str = "."
    json: bool = False
    to_stderr: bool = False
    opened: list[Workspace] = []
    progress: Progress = msgspec.field(default_factory=Progress)

    def workspace(self) -> Workspace:
        """The protected workspace that is meant, or an error that says how to protect it."""
        # What opens files is loaded when it is used: `takeback --version` and `--help` need none of it.
        from takeback.opening import find_workspace, join_workspace, lost_at

        found = find_workspace(".", progress=self.progress) or join_workspace(".", progress=self.progress)
        if found is None and (gone := lost_at(".")):
            raise gone.error
        if found is None:
            raise UsageError(
                f"{os.getcwd()} is not protected yet, so nothing is recorded",
                hint="`takeback init` begins; so do `takeback run -- COMMAND` and, for a coding agent, "
                "`takeback install AGENT`",
            )
        self.opened.append(found)
        find_modules_at(found.root)
        return found

    def protect(
        self, *, allow_home: bool = False, asking: bool = False, accept_config: bool = False
    ) -> Workspace:
        """The workspace that is meant; one that is not protected yet is from now on.

        With `asking` a human on a terminal is asked about settings that need one; `accept_config` is their answer.
        """
        from takeback.cli import consent
        from takeback.journals import is_begun
        from takeback.opening import find_root, open_workspace
        from takeback.storage.registry import Registry

        registry = Registry(config.state_home())
        root = find_root(".", registry)
        state = registry.state_of(root if registry.knows(root) else registry.moved(root) or root)
        is_new = not is_begun(state)
        asking = asking and not self.json
        if is_new and (asking or accept_config):
            consent.before_opening(root, state, accept=accept_config)
        workspace = open_workspace(root, watching=False, progress=self.progress, allow_home=allow_home)
        self.opened.append(workspace)
        find_modules_at(workspace.root)
        if not is_new and (asking or accept_config):
            consent.after_opening(workspace, accept=accept_config)
        return workspace

    def data(self, value: Any) -> None:
        """Print the one JSON object of this command."""
        echo_json(msgspec.json.encode(value).decode())

    def line(self, text: str = "") -> None:
        echo(text, err=self.to_stderr)


class TakebackCommand(click.Command):
    """A command that knows -C and --json, as every command does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"add_help_option": False}))
        self.params += _common_options()

    def invoke(self, ctx: click.Context) -> Any:
        session: Session = ctx.obj
        directory = ctx.params.pop("directory")
        enter(directory or session.directory)
        session.json = ctx.params.pop("json") or session.json
        session.progress.wanted &= not session.json
        try:
            return super().invoke(ctx)
        finally:
            session.progress.done()
            for note in [note for workspace in session.opened for note in workspace.notices]:
                click.echo(f"takeback: {note}", err=True)


class TakebackGroup(click.Group):
    """Commands under one word. -C and --json may stand before or after the last of them."""

    command_class = TakebackCommand

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"add_help_option": False}))
        self.params += _common_options()

    def invoke(self, ctx: click.Context) -> Any:
        session: Session = ctx.obj
        session.directory = ctx.params.pop("directory") or session.directory
        session.json = ctx.params.pop("json")
        return super().invoke(ctx)


def _common_options() -> list[click.Parameter]:
    return [
        # Click's own help option ends in a full stop.
        click.Option(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_help,
            help="Show this message and exit",
        ),
        click.Option(
            ["-C", "directory"], metavar="DIR", help="Work in this folder instead of the current one"
        ),
        click.Option(["--json", "json"], is_flag=True, help="Print one JSON object"),
    ]


def find_modules_at(root: Path) -> None:
    """Find tools and undo handlers of the project, as Python started at its top would.

    Last, so that a file there does not take the place of an installed module.
    """
    if str(root) not in sys.path:
        sys.path.append(str(root))


def enter(directory: str) -> None:
    """Work there, so that every path is meant from there."""
    try:
        if directory != ".":
            config.began_in(os.getcwd())
            os.chdir(directory)
    except OSError as error:
        raise UsageError(
            f"{directory} is not a folder ({error.strerror}); nothing was done",
            hint="name the workspace with -C DIR",
        ) from error


def _print_help(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(ctx.get_help())
        ctx.exit()


def ago(at_us: int) -> str:
    """A moment as a person says it."""
    seconds = time.time() - at_us / 1e6
    if seconds < 2:
        return "just now"
    for size, unit in ((60, "s"), (3600, "min"), (86400, "h")):
        if seconds < size:
            return f"{int(seconds / {'s': 1, 'min': 60, 'h': 3600}[unit])} {unit} ago"
    days = int(seconds / 86400)
    return f"{days} day{'s' if days > 1 else ''} ago"


def until(at_us: int) -> str:
    """How long there is until a moment, as a person says it."""
    seconds = math.ceil(at_us / 1e6 - time.time())
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def iso(at_us: int) -> str:
    """A moment for machines: ISO 8601, UTC."""
    whole, rest = divmod(at_us, 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{rest:06d}Z"


def shortened(text: str, most: int) -> str:
    """A text on one line, cut where it gets long. What would steer a terminal is spelt out."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


# What would steer a terminal, or reorder what it shows. Tabs, line ends and colours stay.
_STEERING = re.compile(
    "(?!\x1b\\[[0-9;]{1,9}m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def visible(text: str) -> str:
    """Return this text as a terminal may show it: what would steer the terminal is spelt out, colours too."""
    return _STEERING.sub(_spelt, text.replace("\x1b", "\\x1b"))


def _spelt(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


def echo(text: str, *, err: bool = False) -> None:
    """Print for a person. Only colours may steer their terminal, whatever file or name the text quotes.

    What is not a terminal gets the text as it is: a diff is a patch there.
    """
    stream = sys.stderr if err else sys.stdout
    click.echo(_STEERING.sub(_spelt, text) if stream.isatty() else text, err=err)


def echo_json(text: str) -> None:
    """Print JSON. On a terminal what would steer it is spelt out as JSON does, so that it still reads the same."""
    click.echo(_STEERING.sub(_spelt_as_json, text) if sys.stdout.isatty() else text)


def _spelt_as_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def printable(line: str) -> str:
    """A line in which what would steer a terminal, or turn its text around, is spelt out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def sized(count: int) -> str:
    """Bytes as a person says them."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


def plural(count: int, noun: str, many: str = "") -> str:
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def colours() -> bool:
    """Whether the output is a terminal that wants colour."""
    return sys.stdout.isatty() and config.wants_colour()


def paint(text: str, **style: Any) -> str:
    """Colour on a terminal only; the meaning never depends on it."""
    return click.style(text, **style) if colours() else text
