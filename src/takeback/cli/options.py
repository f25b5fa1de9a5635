"""Options and arguments that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

PREVIEW = click.option("--preview", is_flag=True, help="Show what would be done and change nothing")
ON_CONFLICT = click.option(
    "--on-conflict",
    type=click.Choice(["stop", "keep", "merge", "overwrite"]),
    default="stop",
    show_default=True,
    help="If you, another agent or another program changed the same file since: stop and change nothing, keep that "
    "version, merge, or overwrite it",
)
ALL = click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Name every path, instead of folding folders and counting the rest",
)


def _network(default: str) -> Callable[[_F], _F]:
    return click.option(
        "--network",
        type=click.Choice(["full", "loopback", "none"]),
        default=None,
        help="What the command reaches: everything, only servers that it starts itself, or nothing "
        f"(default: {default})",
    )


NETWORK = _network("full")
NETWORK_OF_VIEW = _network("as the view was made")

INTERVAL_MAX_S = 7 * 86400
_UNITS_S = {"s": 1, "m": 60, "h": 3600}


def interval(_ctx: click.Context, parameter: click.Parameter, written: str | None) -> float | None:
    """Return a length of time such as `30s`, `5m` or `1h` in seconds."""
    if written is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})([smh])", written)
    seconds = int(found[1]) * _UNITS_S[found[2]] if found else 0
    if not 1 <= seconds <= INTERVAL_MAX_S:
        raise click.BadParameter(
            f"{written!r} is not an interval from 1s to a week: write 30s, 5m or 1h", param=parameter
        )
    return seconds


def intervals(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
    """Let the shell complete a length of time."""
    return [text for text in ("1m", "5m", "15m", "1h") if text.startswith(begun)]


def times(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
    """Let the shell complete a time."""
    return [text for text in ("today", "yesterday", "1h", "2h", "1d", "7d") if text.startswith(begun)]


def ids_of(kind: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Let the shell complete ids. The code that finds them is loaded only when a shell asks."""

    def complete(ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
        from takeback.cli.completion import offered

        return offered(kind, ctx, begun)

    return complete


def agents(ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
    """Let the shell complete the names of agents."""
    from takeback.cli.completion import offered_agents

    return offered_agents(ctx, begun)


def clients(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
    """Let the shell complete the coding agents that can be protected."""
    from click.shell_completion import CompletionItem

    from takeback.agents.clients import CLIENTS

    return [
        CompletionItem(name, help=client.title) for name, client in CLIENTS.items() if name.startswith(begun)
    ]
