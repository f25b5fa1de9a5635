"""The context that all commands share: their folder, their common options, and their JSON."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from takeback.cli.progress import TerminalProgress
from takeback.cli.text import CONTROLS, echo
from takeback.errors import RefusedError, TakebackError, UsageError
from takeback.settings import environment

if TYPE_CHECKING:
    from takeback.workspace.workspace import Workspace


class CommandContext(msgspec.Struct):
    """One call of the command line."""

    directory: str = "."
    json: bool = False
    to_stderr: bool = False
    everything: bool = False
    """True if lists name every path."""
    opened: list[Workspace] = []
    progress: TerminalProgress = msgspec.field(default_factory=TerminalProgress)

    def workspace(self) -> Workspace:
        """Return the workspace of the current folder. Raise an error that says how to protect it, if it is not."""
        # Modules that open files are loaded on first use: `takeback --version` and `--help` do not need them.
        from takeback.workspace.locate import find_modules_at
        from takeback.workspace.opening import find_workspace, join_workspace, lost_at

        found = find_workspace(".", progress=self.progress) or join_workspace(".", progress=self.progress)
        if found is None and (gone := lost_at(".")):
            raise gone.error
        if found is None:
            raise UsageError(
                f"{os.getcwd()} is not protected yet, so nothing is recorded",
                hint="start with `takeback init`, with `takeback run -- COMMAND` or, for a coding agent, with "
                "`takeback install AGENT`",
            )
        self.opened.append(found)
        find_modules_at(found.root)
        return found

    def protect(
        self, *, allow_home: bool = False, asking: bool = False, accept_config: bool = False
    ) -> Workspace:
        """Return the workspace of the current folder; begin to protect it if it is not protected yet.

        With `asking`, ask a human on a terminal about settings that need one; `accept_config` answers yes.
        """
        from takeback.cli import consent
        from takeback.workspace.locate import find_modules_at, find_root, registry_of_user
        from takeback.workspace.opening import open_workspace
        from takeback.workspace.store.journal import is_begun

        registry = registry_of_user()
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

    def is_inside(self) -> bool:
        """Return True inside an agent's action: only humans may see how to allow something."""
        return bool(environment.parent_action()) or any(one.was_inside_action for one in self.opened)

    def data(self, value: Any) -> None:
        """Print the one JSON object of this command."""
        echo_json(msgspec.json.encode(value).decode())

    def line(self, text: str = "") -> None:
        echo(text, err=self.to_stderr)


class FailedWith(Exception):
    """An error with another exit code than its own."""

    def __init__(self, exit_code: int, error: TakebackError) -> None:
        super().__init__(str(error))
        self.exit_code = exit_code
        self.error = error


class TakebackCommand(click.Command):
    """A command with the options -C and --json, as every command has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"add_help_option": False}))
        self.params += _common_options()

    def invoke(self, ctx: click.Context) -> Any:
        session: CommandContext = ctx.obj
        directory = ctx.params.pop("directory")
        enter(directory or session.directory)
        session.json = ctx.params.pop("json") or session.json
        session.progress.wanted &= not session.json
        try:
            return super().invoke(ctx)
        except UsageError as error:
            from takeback.cli.suggest import with_id_meant  # hardly ever needed

            with_id_meant(error)
            raise
        except RefusedError as error:
            if error.how and not session.is_inside():
                error.hint = "; ".join(filter(None, (error.hint, f"to allow it: {error.how}")))
            raise
        finally:
            session.progress.done()
            for note in [note for workspace in session.opened for note in workspace.notices]:
                click.echo(f"takeback: {note}", err=True)


class SuggestingGroup(click.Group):
    """A group of commands that says what an unknown word may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            from takeback.cli.suggest import word_meant  # hardly ever needed

            raise click.UsageError(
                f"there is no command {name!r}{word_meant(name, self.list_commands(ctx))}", ctx
            )
        return super().resolve_command(ctx, args)


class TakebackGroup(SuggestingGroup):
    """A group of commands. -C and --json may come before or after the last word."""

    command_class = TakebackCommand

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **(kwargs | {"add_help_option": False}))
        self.params += _common_options()

    def invoke(self, ctx: click.Context) -> Any:
        session: CommandContext = ctx.obj
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


def enter(directory: str) -> None:
    """Change to this folder, so that every path is relative to it."""
    try:
        if directory != ".":
            environment.began_in(os.getcwd())
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


def echo_json(text: str) -> None:
    """Print JSON. On a terminal, control characters are escaped as in JSON, so that the value stays the same."""
    click.echo(CONTROLS.sub(_spelt_as_json, text) if sys.stdout.isatty() else text)


def _spelt_as_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
