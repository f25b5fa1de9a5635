"""`takeback completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from takeback.cli.context import CommandContext, TakebackCommand


@click.command("completion", cls=TakebackCommand)
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell

    \b
    Put one of these lines into your shell's start-up file:
      bash   eval "$(takeback completion bash)"
      zsh    eval "$(takeback completion zsh)"
      fish   takeback completion fish | source
    """
    session: CommandContext = ctx.obj
    found = get_completion_class(shell)
    assert found is not None
    script = found(ctx.find_root().command, {}, "takeback", "_TAKEBACK_COMPLETE").source()
    if session.json:
        return session.data({"shell": shell, "script": script})
    session.line(script)
