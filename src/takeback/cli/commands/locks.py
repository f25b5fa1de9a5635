"""`takeback locks …`."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from takeback.cli.context import CommandContext, TakebackGroup
from takeback.cli.render.history import table
from takeback.cli.text import ago, iso, plural, shortened, until
from takeback.core.leases import Holder, Lease
from takeback.errors import RefusedError, UsageError
from takeback.settings import environment
from takeback.system import processes
from takeback.workspace.describe import family_of, is_gone, who
from takeback.workspace.workspace import Workspace

TTL_S = 900.0
NAME_MAX = 40


@click.group("locks", cls=TakebackGroup, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """See who works on what, and lock it for yourself

    Without another word it lists. What is locked by one agent is guarded against the others: `takeback run` and the
    hooks refuse what would write there, or warn, as takeback.toml says. A lock ends with its time, or with the run
    that holds it; where that run died, the lock stays until the run is resumed or taken back.
    """
    if ctx.invoked_subcommand is None:
        with list_.make_context("list", [], parent=ctx) as listing:
            list_.invoke(listing)


@command.command("list")
@click.pass_obj
def list_(session: CommandContext) -> None:
    """List what is locked, by whom, since when and for how long"""
    with session.workspace() as workspace:
        found = workspace.leases.live()
        runs = workspace.history.runs if found else {}
        died = [lease for lease in found if is_gone(lease)]
        ways = [f"  {lease.name}: {workspace.leases.how_to_free(lease)}" for lease in died]
    if session.json:
        return session.data({"locks": [lock_data(lease) for lease in found]})
    if not found:
        return session.line("Nothing is locked.")
    rows: list[tuple[str, ...]] = [("what", "who", "run", "since", "for", "fence")]
    for lease in found:
        run = runs.get(lease.holder.run)
        name = shortened(run.began.name, NAME_MAX) if run else ""
        since, left = ago(lease.since_us), until(_until_us(lease))
        rows.append((lease.name, who(lease), name, since, left, str(lease.fence)))
    for line in [*table(rows), *ways]:
        session.line(line)


@command.command("take")
@click.argument("name", metavar="NAME|PATH")
@click.option(
    "--ttl", "ttl_s", type=float, default=TTL_S, show_default=True, metavar="S", help="How long it lasts"
)
@click.option("--wait", "wait_s", type=float, default=0.0, metavar="S", help="Wait so long for it to be free")
@click.pass_obj
def take(session: CommandContext, name: str, ttl_s: float, wait_s: float) -> None:
    """Lock a path with all that is below it, or any other name

    A path is meant from the top of the workspace, or, with ./ before it, from here. Taken again by the same run it
    lasts longer. Inside of `takeback run`, or of an agent's session, the lock is that of the run and ends with it.
    """
    with session.protect() as workspace:
        inside = workspace.inside_action()
        holder = _holder(workspace, inside)
        family = family_of(workspace.history, holder.run)
        leases = workspace.leases
        chosen = leases.name(name)
        mine = [
            lease.fence for lease in leases.live() if lease.name == chosen and _is_same(lease.holder, holder)
        ]
        leases.release(mine)
        lease = leases.take(chosen, holder, family=family, ttl_s=ttl_s, wait_s=wait_s)
        left = leases.left(lease)
    if session.json:
        told = [
            {"run": one.run, "name": one.name, "targets": list(one.targets), "perhaps": list(one.perhaps)}
            for one in left
        ]
        return session.data({**lock_data(lease), "left": told})
    session.line(f"Locked {lease.name} for {until(_until_us(lease))} (fence {lease.fence}).")
    session.line(f"  let go   takeback locks release {lease.name}")
    for one in left:
        session.line(f"  {one}")


@command.command("release")
@click.argument("names", nargs=-1, metavar="NAME|PATH…")
@click.option("--all", "everything", is_flag=True, help="All of them")
@click.pass_obj
def release(session: CommandContext, names: tuple[str, ...], everything: bool) -> None:
    """Let go of locks

    A human can let go of anybody's: who held it is told at its next step that the lock is lost. An agent can let go
    of its own.
    """
    if bool(names) == everything:
        raise UsageError("name locks, or say --all; nothing was changed", hint="`takeback locks list`")
    with session.workspace() as workspace:
        leases, live = workspace.leases, workspace.leases.live()
        wanted = [leases.name(name) for name in names]
        if missing := [name for name in wanted if name not in {lease.name for lease in live}]:
            raise UsageError(f"{missing[0]} is not locked; nothing was changed", hint="`takeback locks list`")
        chosen = [lease for lease in live if everything or lease.name in wanted]
        _refuse_strangers(workspace, chosen)
        done = leases.release([lease.fence for lease in chosen])
    if session.json:
        return session.data({"released": [lease.name for lease in chosen if lease.fence in done]})
    session.line(f"Let go of {plural(len(done), 'lock')}.")


def lock_data(lease: Lease) -> dict[str, Any]:
    holder = lease.holder
    return {
        "name": lease.name,
        "fence": lease.fence,
        "run": holder.run or None,
        "actor": holder.actor,
        "pid": holder.process.pid if holder.process and holder.bound else None,
        "host": holder.process.host if holder.process else "",
        "died": is_gone(lease),
        "since": iso(lease.since_us),
        "until": iso(_until_us(lease)),
    }


def _holder(workspace: Workspace, inside: str) -> Holder:
    """Whose a lock is that is taken here: of the run around us, or of the human at this terminal."""
    history, actor = workspace.history, environment.actor()
    action = history.actions.get(inside)
    run = history.runs.get(action.stream if action else inside)
    if run is None:
        return Holder("", actor, processes.describe(os.getsid(0)), bound=False)
    process = run.began.process or getattr(action.began if action else None, "process", None)
    return Holder(run.id, actor or run.began.actor, process, bound=process is not None)


def _is_same(one: Holder, other: Holder) -> bool:
    return (one.run, one.process) == (other.run, other.process)


def _refuse_strangers(workspace: Workspace, leases: list[Lease]) -> None:
    inside = workspace.inside_action()
    if not inside:
        return
    history = workspace.history
    parent, run = (inside, "") if inside in history.actions else ("", inside)
    family = family_of(history, run, parent)
    for lease in leases:
        if lease.holder.run not in family:
            raise RefusedError(
                f"{lease.name} is locked by {who(lease)}, and this was asked from inside {inside}; "
                "nothing was changed",
                hint="a human can let go of it, from a terminal of their own",
            )


def _until_us(lease: Lease) -> int:
    """When it ends by the clock on the wall, as that stands now."""
    return time.time_ns() // 1000 + lease.left_us
