"""`takeback guard`."""

from __future__ import annotations

from typing import Any

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import plural, sized
from takeback.errors import UsageError
from takeback.workspace.databases import Guarded, GuardedAddress

NOT_COVERED = (
    "sequences (a used number stays used)",
    "NOTIFY, large objects, foreign tables, other databases of the server",
    "roles, views, functions and everything else that is not a table",
    "sessions that unset takeback.action, or use a pooler that drops it",
)
WITHOUT_DDL = "DROP, ALTER and CREATE of tables, because only a superuser may watch them"
TABLES_SHOWN = 20


@click.command("guard", cls=TakebackCommand)
@click.argument("address", metavar="ADDRESS")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="SCHEMA",
    help="Guard this schema; may be repeated (default: public)",
)
@click.option("--remove", is_flag=True, help="Remove the triggers and everything that they have recorded")
@click.option(
    "--prune", is_flag=True, help="Delete recorded rows that are older than keep-days in takeback.toml"
)
@click.option("--status", is_flag=True, help="Show which tables are guarded, and change nothing")
@click.pass_obj
def command(
    session: CommandContext, address: str, schemas: tuple[str, ...], remove: bool, prune: bool, status: bool
) -> None:
    """Make changes to a PostgreSQL database undoable

    Adds triggers to the tables of a schema; they record changes in a separate schema `takeback`. From then on, what
    `takeback run` or a run in Python changes in these tables is recorded as theirs. Changes by others are not
    recorded.
    """
    database = GuardedAddress(address)
    if sum((remove, prune, status, bool(schemas))) > 1:
        raise UsageError("--remove, --prune, --status and --schema exclude each other; nothing was done")
    name = database.name
    if status:
        return _show(session, name, database.status())
    with session.protect() as workspace, workspace.lock.held():
        if remove:
            return _show_removed(session, name, removed=database.remove(workspace.postgres))
        if prune:
            return _show_pruned(session, name, database.prune(workspace.settings.store.keep_days))
        made = database.install(workspace.postgres, schemas)
    return _show(session, name, made)


def _show_removed(session: CommandContext, name: str, *, removed: bool) -> None:
    if session.json:
        return session.data({"database": name, "removed": removed})
    gone = f"{name} is no longer guarded; what it kept was deleted."
    session.line(gone if removed else f"{name} was not guarded.")


def _show_pruned(session: CommandContext, name: str, pruned: int) -> None:
    if session.json:
        return session.data({"database": name, "pruned": pruned})
    session.line(
        f"{name}: removed {plural(pruned, 'row')} that {'was' if pruned == 1 else 'were'} set aside."
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
