"""`takeback guard`."""

from __future__ import annotations

from typing import Any

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import plural, sized
from takeback.errors import UsageError
from takeback.resources.postgres import guard
from takeback.resources.postgres.guard import Guarded
from takeback.system import postgres_address
from takeback.workspace.workspace import Workspace

NOT_COVERED = (
    "sequences (a number once given stays given)",
    "NOTIFY, large objects, foreign tables, other databases of the server",
    "roles, views, functions and whatever else is no table",
    "sessions that unset takeback.action, or go through a pooler that drops it",
)
WITHOUT_DDL = "DROP, ALTER and CREATE of tables, because only a superuser may have them watched"
TABLES_SHOWN = 20


@click.command("guard", cls=TakebackCommand)
@click.argument("address", metavar="ADDRESS")
@click.option(
    "--schema", "schemas", multiple=True, metavar="S", help="Guard this schema; may be repeated [public]"
)
@click.option("--remove", is_flag=True, help="Take the guard out, with all that it kept")
@click.option("--prune", is_flag=True, help="Let go of rows that are set aside longer than keep-days")
@click.option("--status", is_flag=True, help="Show what is guarded, and change nothing")
@click.pass_obj
def command(
    session: CommandContext, address: str, schemas: tuple[str, ...], remove: bool, prune: bool, status: bool
) -> None:
    """Make what is written to a PostgreSQL database something that can be taken back

    Puts triggers on the tables of a schema; what they write down is in a schema `takeback` of its own. From then on
    what `takeback run` and runs do there is known as theirs; what others do is not written down.
    """
    if not postgres_address.is_address(address):
        raise UsageError(
            f"{postgres_address.hidden(address)} is no address of a database",
            hint="postgresql://host/database",
        )
    if sum((remove, prune, status, bool(schemas))) > 1:
        raise UsageError("--remove, --prune, --status and --schema exclude each other; nothing was done")
    name = postgres_address.called(address)[0]
    if status:
        return _show(session, name, guard.status(address))
    with session.protect() as workspace, workspace.lock.held():
        if remove:
            return _remove(session, workspace, name, address)
        if prune:
            return _prune(session, name, address, workspace.settings.store.keep_days)
        made = guard.install(address, schemas)
        workspace.postgres.add(made.id, address)
    return _show(session, name, made)


def _remove(session: CommandContext, workspace: Workspace, name: str, address: str) -> None:
    found = guard.status(address)
    if found:
        guard.remove(address)
        workspace.postgres.remove(found.id)
    if session.json:
        return session.data({"database": name, "removed": found is not None})
    gone = f"{name} is no longer guarded; what was kept there is gone."
    session.line(gone if found else f"{name} was not guarded.")


def _prune(session: CommandContext, name: str, address: str, days: int) -> None:
    """Without a limit in takeback.toml everything is kept."""
    pruned = guard.prune(address, days) if days else 0
    if session.json:
        return session.data({"database": name, "pruned": pruned})
    session.line(
        f"{name}: let go of {plural(pruned, 'row')} that {'was' if pruned == 1 else 'were'} set aside."
    )


def _show(session: CommandContext, name: str, found: Guarded | None) -> None:
    if session.json:
        return session.data(_data(name, found))
    if found is None:
        return session.line(f"{name} is not guarded.")
    session.line(f"{name} is guarded: {plural(len(found.tables), 'table')} of {', '.join(found.schemas)}.")
    shown = ", ".join(found.tables[:TABLES_SHOWN])
    more = f" and {len(found.tables) - TABLES_SHOWN} more" if len(found.tables) > TABLES_SHOWN else ""
    session.line(f"  tables       {shown or 'none yet'}{more}")
    session.line(f"  kept         {plural(found.lines, 'row')} set aside, {sized(found.bytes)}")
    for head, what in zip(["not covered"] + [""] * 50, _not_covered(found), strict=False):
        session.line(f"  {head.ljust(11)}  {what}")


def _not_covered(found: Guarded) -> list[str]:
    tables = [f"{table}: {why}" for table, why in found.left_out]
    return [*tables, *([] if found.sees_ddl else [WITHOUT_DDL]), *NOT_COVERED]


def _data(name: str, found: Guarded | None) -> dict[str, Any]:
    if found is None:
        return {"database": name, "guarded": False}
    return {
        "database": name,
        "guarded": True,
        "schemas": list(found.schemas),
        "tables": list(found.tables),
        "left_out": [{"table": table, "why": why} for table, why in found.left_out],
        "drop_is_covered": found.sees_ddl,
        "rows_kept": found.lines,
        "bytes_kept": found.bytes,
        "not_covered": _not_covered(found),
    }
