"""`takeback stage`."""

from __future__ import annotations

import os
from typing import Any

import click

from takeback.cli import staging
from takeback.cli.beginning import first_checkpoint
from takeback.cli.context import CommandContext, TakebackGroup
from takeback.cli.options import NETWORK, NETWORK_OF_VIEW, ON_CONFLICT, PREVIEW, ids_of
from takeback.cli.render.stages import (
    comparison_data,
    comparison_lines,
    look_data,
    stage_data,
    stage_lines,
    would_lines,
)
from takeback.cli.running import RunningCommand
from takeback.core.codec import printable
from takeback.errors import TakebackError
from takeback.settings import environment
from takeback.workspace.staging import Stage


class NamedRunningCommand(RunningCommand):
    """A command line whose first word is not yet the user's command, which comes after `--`."""

    allow_interspersed_args = True


@click.group("stage", cls=TakebackGroup)
def command() -> None:
    """Work in private views of the workspace: make, look, accept, drop"""


@command.command("new")
@click.argument("name", default="")
@click.option(
    "--at",
    metavar="MOMENT",
    default="",
    shell_complete=ids_of("moments"),
    help='Show the workspace as it was at this moment: c3, "before a4", 14:02, "2h ago", last-clean',
)
@NETWORK
@click.pass_obj
def new(session: CommandContext, name: str, at: str, network: str) -> None:
    """Make a view, without running anything in it

    Without a NAME, one is made up. A view costs by what is changed in it, not by the size of the workspace.
    """
    with session.protect(asking=True) as workspace:
        workspace.recover()
        if not workspace.history.marks and not session.json:
            first_checkpoint(session, workspace, "before the first view")
        way = workspace.stages.way_to(at) if at else ()
        stage = workspace.stages.new(name, at=at, way=way, network=network or "full")
        if session.json:
            return session.data(stage_data(stage))
        session.line(f"{stage.name}   {_kind(stage.card.kind, stage.card.why_copy)}")
        session.line(f"  a shell in it     takeback stage shell {stage.name}")
        session.line(f"  a command in it   takeback stage run {stage.name} -- COMMAND")


def _kind(kind: str, why: str) -> str:
    return "a private view" if kind == "overlay" else f"a copy, because there are no overlays here: {why}"


@command.command("list")
@click.pass_obj
def list_(session: CommandContext) -> None:
    """List the views of this workspace"""
    with session.workspace() as workspace:
        stages = list(workspace.stages)
        if session.json:
            return session.data({"stages": [_listed(stage) for stage in stages]})
        for stage in stages:
            try:
                for line in stage_lines(stage, stage.look()):
                    session.line(printable(line))
            except TakebackError as error:  # the others are listed all the same
                session.line(printable(f"{stage.name:<10} {error.message}; {error.hint}"))
        if not stages:
            session.line("There are no views.")
            session.line("  try a command in one   takeback try -- COMMAND")
            session.line("  make one               takeback stage new")


def _listed(stage: Stage) -> dict[str, Any]:
    try:
        return stage_data(stage) | look_data(stage.look(), stage.outside())
    except TakebackError as error:
        return {"name": stage.name, "error": {"message": error.message, "hint": error.hint}}


@command.command("diff")
@click.argument("name")
@click.pass_obj
def diff(session: CommandContext, name: str) -> None:
    """Show what is different in a view, line by line

    A summary comes first, on standard error. It names every deletion, except of what is generated.
    """
    with session.workspace() as workspace:
        stage = workspace.stages[name]
        look, outside, moved = stage.look(), stage.outside(), stage.moved()
        if session.json:
            data = look_data(look, outside) | {"moved": [str(change.target) for change in moved]}
            return session.data({"stage": name} | data)
        for line in would_lines(stage, look):
            click.echo(printable(line), err=True)
        if moved:
            targets = ", ".join(str(change.target) for change in moved[:8])
            click.echo(printable(f"  Since then you changed here: {targets}"), err=True)
        click.echo(stage.diff().text, nl=False)


@command.command("run", cls=NamedRunningCommand)
@click.argument("name")
@NETWORK_OF_VIEW
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_obj
@click.pass_context
def run(ctx: click.Context, session: CommandContext, name: str, network: str, words: tuple[str, ...]) -> None:
    """Run a command in a view and exit with its code

    The view stays as the command leaves it.
    """
    with session.workspace() as workspace:
        stage = workspace.stages[name]
        done = staging.run_in(session, stage, words, network)
        staging.show(session, stage, done)
        if session.json:
            session.data(staging.data_of(stage, done))
        ctx.exit(staging.code_of(done))


@command.command("shell")
@click.argument("name")
@NETWORK_OF_VIEW
@click.pass_obj
@click.pass_context
def shell(ctx: click.Context, session: CommandContext, name: str, network: str) -> None:
    """Open a shell in a view

    What you do there is recorded in the view, and changes nothing outside.
    """
    with session.workspace() as workspace:
        stage = workspace.stages[name]
        click.echo(f"You are in the view {name}. Leave it with `exit`.", err=True)
        done = staging.run_in(session, stage, [environment.shell()], network)
        staging.show(session, stage, done)
        if session.json:
            session.data(staging.data_of(stage, done))
        ctx.exit(staging.code_of(done))


@command.command("accept")
@click.argument("name")
@click.option(
    "--path", "paths", metavar="PATH", multiple=True, help="Accept only this file or folder; may be repeated"
)
@PREVIEW
@ON_CONFLICT
@click.pass_obj
@click.pass_context
def accept(
    ctx: click.Context,
    session: CommandContext,
    name: str,
    paths: tuple[str, ...],
    preview: bool,
    on_conflict: str,
) -> None:
    """Make the changes of a view in the workspace, as one action that can be taken back

    What you changed in the workspace since the view was made is a conflict: choose with --on-conflict. The view goes
    when all of it was accepted.
    """
    with session.workspace() as workspace:
        stage = workspace.stages[name]
        report = stage.accept(paths=paths, on_conflict=on_conflict, preview=preview)
        if session.json:
            session.data(report.data() | {"stage": name, "left": name in workspace.stages.names()})
        ctx.exit(staging.show_report(session, workspace, stage, report))


@command.command("drop")
@click.argument("name")
@click.pass_obj
def drop(session: CommandContext, name: str) -> None:
    """Drop a view with everything that was changed in it"""
    with session.workspace() as workspace:
        workspace.stages[name].drop()
        if session.json:
            return session.data({"stage": name, "dropped": True})
        session.line(f"Dropped {name}. Nothing of it is left.")


@command.command("compare")
@click.argument("first")
@click.argument("second")
@click.pass_obj
def compare(session: CommandContext, first: str, second: str) -> None:
    """Show in which paths two views differ from each other"""
    with session.workspace() as workspace:
        found = workspace.stages.compare(first, second)
        if session.json:
            return session.data({"first": first, "second": second, **comparison_data(found)})
        for line in comparison_lines(first, second, found):
            session.line(printable(line))


@command.command("doctor")
@click.pass_obj
def doctor(session: CommandContext) -> None:
    """Tell which kind of views this machine can have, and why"""
    with session.workspace() as workspace:
        found = workspace.stages.examine()
        if session.json:
            return session.data(
                {"kind": found.kind, "way": found.way, "why": found.why, "overlaid": list(found.overlaid)}
            )
        session.line(f"{found.kind}: {found.way}")
        if found.why:
            session.line(f"  because {found.why}")
        for folder in found.overlaid:
            session.line(f"  private   {folder}")
        if found.kind == "overlay":
            session.line("  everything else cannot be written in a view")
        session.line(f"  views are in {os.fspath(found.folder)}")
