"""`takeback locks …`."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from takeback.cli.context import CommandContext, TakebackGroup
from takeback.cli.render.history import table
from takeback.cli.text import ago, iso, plural, until
from takeback.core.codec import one_line
from takeback.core.leases import Holder, Lease
from takeback.errors import RefusedError, UsageError
from takeback.settings import environment
from takeback.system import processes
from takeback.workspace.describe import family_of, is_gone, who
from takeback.workspace.workspace import Workspace

TTL_S = 900
NAME_MAX = 40


@click.group("locks", cls=TakebackGroup, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, take and release locks

    Without a subcommand, this lists the locks. What one agent has locked is protected from the others: `takeback run`
    and the hooks refuse commands that would write there, or only warn, depending on takeback.toml. A lock ends when
    its time is up, or with the run that holds it. If that run has died, the lock stays until the run is resumed or
    taken back.
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
            name = one_line(run.began.name, NAME_MAX) if run else ""
            since, left = ago(lease.since_us), until(_until_us(lease))
            rows.append((lease.name, who(lease), name, since, left, str(lease.fence)))
        for line in [*table(rows), *ways]:
            session.line(line)


@command.command("take")
@click.argument("name", metavar="NAME|PATH")
@click.option(
    "--ttl",
    "ttl_s",
    type=float,
    default=TTL_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the lock lasts",
)
@click.option(
    "--wait", "wait_s", type=float, default=0.0, metavar="SECONDS", help="How long to wait for the lock"
)
@click.pass_obj
def take(session: CommandContext, name: str, ttl_s: float, wait_s: float) -> None:
    """Lock a path with everything below it, or any other name

    A path is relative to the root of the workspace; a path that begins with ./ is relative to the current folder. If
    the same run takes a lock again, this renews it. Inside `takeback run`, or in an agent's session, the lock belongs
    to the run and ends with it.
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
        found = [
            {"run": one.run, "name": one.name, "targets": list(one.targets), "perhaps": list(one.perhaps)}
            for one in left
        ]
        return session.data({**lock_data(lease), "left": found})
    session.line(f"Locked {lease.name} for {until(_until_us(lease))} (fence {lease.fence}).")
    session.line(f"  release   takeback locks release {lease.name}")
    for one in left:
        session.line(f"  {one}")


@command.command("release")
@click.argument("names", nargs=-1, metavar="NAME|PATH…")
@click.option("--all", "everything", is_flag=True, help="Release all locks")
@click.pass_obj
def release(session: CommandContext, names: tuple[str, ...], everything: bool) -> None:
    """Release locks

    You can release any lock; its holder learns at its next step that the lock is lost. An agent can release only its
    own locks.
    """
    if bool(names) == everything:
        raise UsageError("name locks, or use --all; nothing was changed", hint="`takeback locks list`")
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
    session.line(f"Released {plural(len(done), 'lock')}.")


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
    """Return the holder for a lock taken here: the run around us, or the human at this terminal."""
    history, actor = workspace.history, environment.actor()
    action = history.actions.get(inside)
    run = history.runs.get(action.stream if action else inside)
    if run is None:
        return Holder("", actor, processes.describe(os.getsid(0)), bound=False)
    process = run.began.process or (action.process if action else None)
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
                f"{lease.name} is locked by {who(lease)}, and this runs inside {inside}; nothing was changed",
                hint="a human can release it, from their own terminal",
            )


def _until_us(lease: Lease) -> int:
    """Return when the lock ends, by the present wall clock."""
    return time.time_ns() // 1000 + lease.left_us
