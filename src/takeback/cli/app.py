"""The `takeback` command: its options, its errors, its exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click

from takeback._version import __version__
from takeback.cli.context import CommandContext, FailedWith, SuggestingGroup
from takeback.cli.text import echo, prose
from takeback.errors import TakebackError
from takeback.settings import environment

GROUPS = {
    "Every day": {
        "init": "Start protecting a folder, with a first checkpoint",
        "run": "Run any command as one action that can be taken back",
        "try": "Run any command in a private view, then accept, keep or drop what it did",
        "stage": "Work in private views of the workspace: make, look, accept, drop",
        "undo": "Take back what an agent did, and keep what you did in the meantime",
        "redo": "Bring back what the last undo or restore took back",
        "status": "Show the state of the workspace, and what waits for you",
        "log": "Show what happened as a tree, newest at the bottom",
        "show": "Show everything that was recorded about one id, or a file as it was",
        "diff": "Show what changed",
        "blame": "Show who wrote each line of a file: which agent, prompt and call, or you",
        "bisect": "Find the call after which a command fails, in views of past moments",
        "save": "Take a checkpoint and print its id",
        "restore": "Put the workspace back to a moment, undoing your own edits too",
        "stats": "Count what agents did, by agent and tool",
    },
    "Agents": {
        "install": "Protect what a coding agent does, with hooks in its own settings",
        "uninstall": "Remove Takeback's hooks from an agent's settings",
        "doctor": "Prove that your coding agents are protected, with a trial of each",
        "approvals": "List the requests that wait for your approval",
        "approve": "Approve one request, exactly as it was made and once",
        "deny": "Deny one request",
        "handover": "Take care of runs that wait for a human",
        "settle": "Record whether a call happened, if Takeback cannot know",
        "locks": "List, take and release locks",
        "daemon": "Control the background process that answers agents' hooks quickly",
    },
    "Runs": {
        "plan": "Check a plan against the safety rules, approve it, or run it",
        "rehearse": "Let each step of a plan, or a command, fail on a copy, and see whether everything comes back",
        "promote": "Do for real what a shadow showed",
        "compare": "Compare two runs at the same task by what they did or intended",
        "replay": "Show a past run event by event; nothing is executed",
        "resume": "Show how to continue interrupted runs; --exec continues one",
        "outbox": "List messages that wait to be sent, or start a worker that sends them",
        "dead": "Retry or drop messages that could not be delivered",
        "workflow": "Keep multi-step work safe across restarts",
        "monitor": "Watch for work that nobody continues",
        "notify": "Test the notifiers that tell you what waits for you",
    },
    "Upkeep": {
        "verify": "Check that nothing recorded was lost or altered",
        "du": "Show how much disk space the recorded history takes up",
        "gc": "Delete stored content, and compact records, that exceed the limits in takeback.toml",
        "forget": "Remove the content of a path from every stored version, or the whole history",
        "export": "Print every recorded event, for other programs",
        "store": "Show where the history is kept, or move it to another place",
        "guard": "Make changes to a PostgreSQL database undoable",
        "completion": "Print the completion script for a shell",
    },
}
"""Each command and its help line, listed here so that the command line starts without importing the commands."""

COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}

HELP_COLUMNS_MAX = 100

EXIT_CODES = """\b
Exit codes:
  0  done and verified, or nothing to do
  2  wrong usage
  3  conflict or refused; nothing was changed
  4  something outside Takeback failed
  5  stored data is corrupt
  6  incomplete or unverified; the report says more"""


class Output(NamedTuple):
    """The form and stream of an error. With `run` and `workflow wake`, standard output belongs to the command."""

    json: bool
    to_stderr: bool


class LazyGroup(SuggestingGroup):
    """A group that loads a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"takeback.cli.commands.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        wide = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(wide), line) for name, line in group.items()])


@click.group(cls=LazyGroup, epilog=EXIT_CODES, context_settings={"max_content_width": HELP_COLUMNS_MAX})
@click.help_option("-h", "--help", help="Show this message and exit")
@click.option(
    "-C", "directory", metavar="DIR", default=None, help="Work in this folder instead of the current one"
)
@click.version_option(__version__, message="takeback %(version)s", help="Show the version and exit")
@click.pass_context
def app(ctx: click.Context, directory: str | None) -> None:
    """Take back what an AI agent did, and keep what you did in the meantime

    Start with `takeback run -- COMMAND`. If it goes wrong: `takeback undo`.
    """
    ctx.obj = CommandContext(directory=directory or ".")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = words[: words.index("--")] if "--" in words else words
    output = Output("--json" in own, to_stderr=_named_run(own))
    try:
        code = app.main(words, prog_name="takeback", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        code = 2
    except click.UsageError as error:
        context = f"`{error.ctx.command_path} --help` shows the usage" if error.ctx else ""
        code = _fail("usage", error.format_message(), context, 2, output)
    except FailedWith as failed:
        code = _fail(failed.error.code, failed.error.message, failed.error.hint, failed.exit_code, output)
    except TakebackError as error:
        code = _fail(error.code, error.message, error.hint, error.exit_code, output)
    except (BrokenPipeError, SystemExit):
        # The reader went away (`takeback log | head`): click exits then, and Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (KeyboardInterrupt, click.Abort):
        code = _fail("interrupted", "Interrupted; the next command finds out what was done", "", 130, output)
    except Exception as error:  # noqa: BLE001  no error should show the user a traceback
        code = _fail_unexpectedly(error, output)
    sys.exit(code)


def _named_run(words: Sequence[str]) -> bool:
    """Return True if standard output belongs to another command: `run` and `workflow wake`, but not `plan run`."""
    rest = [word for before, word in zip(["", *words], words, strict=False) if before != "-C"]
    named = [word for word in rest if not word.startswith("-")]
    return named[:1] == ["run"] or named[:2] == ["workflow", "wake"]


def _fail(code: str, message: str, hint: str, exit_code: int, output: Output) -> int:
    if output.json:
        import msgspec

        body: dict[str, Any] = {"error": {"code": code, "message": message, "hint": hint}}
        click.echo(msgspec.json.encode(body).decode(), err=output.to_stderr)
    else:
        for line in (*prose(f"takeback: {message}"), *(prose(f"  {hint}") if hint else ())):
            echo(line, err=True)
    return exit_code


def _fail_unexpectedly(error: Exception, output: Output) -> int:
    """Report a bug of Takeback: one sentence for the user, and the traceback in a file that a report can quote."""
    if environment.debugging():
        raise error
    trace = "".join(traceback.format_exception(error))
    folder = environment.state_home()
    where = "set TAKEBACK_DEBUG=1 to see the traceback"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder / "errors.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(fd, "a") as log:
            log.write(trace + "\n")
        where = f"the traceback is in {folder / 'errors.log'}; please report it"
    except OSError:
        # The file cannot be written: the hint says how to see the traceback.
        pass
    return _fail("bug", f"this is a bug in Takeback: {error!r}", where, 4, output)
