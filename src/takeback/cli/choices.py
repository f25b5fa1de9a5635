"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

PREVIEW = click.option("--preview", is_flag=True, help="Show what would be done and change nothing")
ON_CONFLICT = click.option(
    "--on-conflict",
    type=click.Choice(["stop", "keep", "merge", "overwrite"]),
    default="stop",
    show_default=True,
    help="Where somebody else changed the same file since: stop everything, keep theirs, merge, or overwrite",
)


def ids_of(kind: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Let the shell complete ids. What finds them is loaded when a shell asks, and not before."""

    def complete(ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
        from takeback.cli.completing import offered

        return offered(kind, ctx, begun)

    return complete


def agents(ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
    """Let the shell complete the names of agents."""
    from takeback.cli.completing import offered_agents

    return offered_agents(ctx, begun)


def clients(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
    """Let the shell complete the coding agents that can be protected."""
    from click.shell_completion import CompletionItem

    from takeback.agents.presence import CLIENTS

    return [
        CompletionItem(name, help=client.title) for name, client in CLIENTS.items() if name.startswith(begun)
    ]
