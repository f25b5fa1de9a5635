"""Undoing and redoing what actions did in one database, in one transaction for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from takeback.core.rollback import OnConflict
from takeback.resources.postgres import connection, inverse
from takeback.resources.postgres.connection import LOCK_MS, one, rows, run
from takeback.resources.postgres.inverse import (
    REFERENCES,
    SETTINGS,
    Inverse,
    InverseResult,
    PostgresTable,
    Trouble,
)
from takeback.resources.postgres.tables import Captured, Tables, captured
from takeback.resources.postgres.triggers import still
from takeback.system import crash_points, postgres_address

if TYPE_CHECKING:
    Link = inverse.Link

WRITTEN = crash_points.crash_point("postgres-written")
COMMITTED = crash_points.crash_point("postgres-committed")


class UndoOutcome(msgspec.Struct, frozen=True):
    """The result for each action: whether something is, or would be, taken back, and what stays."""

    done: bool
    stays: Mapping[str, tuple[Trouble, ...]]
    touched: frozenset[str] = frozenset()
    others: Mapping[str, Sequence[str]] = {}
    """What is neither a table nor a row, and is left as it is."""
    counts: Mapping[str, Mapping[str, Sequence[int]]] = {}
    """How many rows of each table are, or would be, taken back: added, changed, removed."""


def take_back(db: Link, actions: Sequence[str], by: str, choice: OnConflict, *, trial: bool) -> UndoOutcome:
    """Apply the inverse of what these actions did, attributed to `by`. A trial leaves nothing behind."""
    statements = captured(db, actions)
    outcome = _invert(db, statements, actions, by, choice)
    if outcome.done:
        run(
            db,
            "UPDATE takeback.statement SET undone_by = %s WHERE id = ANY(%s)",
            [by, [s.id for s in statements]],
        )
    _close(db, keep=outcome.done and not trial)
    return outcome


def bring_back(db: Link, actions: Sequence[str], by: str, choice: OnConflict, *, trial: bool) -> UndoOutcome:
    """Apply the inverse of the rollbacks that took these actions back."""
    undone = captured(db, actions, undone=True)
    rollbacks = sorted({s.undone_by for s in undone})
    together = rows(
        db, "SELECT DISTINCT action FROM takeback.statement WHERE undone_by = ANY(%s)", [rollbacks]
    )
    if others := sorted({action for (action,) in together} - set(actions)):
        why = f"it was taken back together with {', '.join(o.rpartition(':')[2] for o in others)}"
        _close(db, keep=False)
        return UndoOutcome(False, {action: (Trouble(action, "", "", why),) for action in actions})
    outcome = _invert(db, captured(db, rollbacks), rollbacks, by, choice)
    if outcome.done:
        run(
            db,
            "UPDATE takeback.statement SET undone_by = CASE WHEN action = ANY(%s) THEN %s END "
            "WHERE action = ANY(%s) AND undone_by IS NULL OR undone_by = ANY(%s)",
            [rollbacks, by, rollbacks, rollbacks],
        )
    _close(db, keep=outcome.done and not trial)
    troubles = tuple(trouble for some in outcome.stays.values() for trouble in some)
    stays = dict.fromkeys(actions, troubles) if troubles else {}
    return UndoOutcome(outcome.done, stays, frozenset(actions if outcome.touched else ()))


def _close(db: Link, *, keep: bool) -> None:
    if keep:
        crash_points.reach(WRITTEN)
        db.commit()
        crash_points.reach(COMMITTED)
    else:
        db.rollback()


def _invert(
    db: Link, statements: Sequence[Captured], actions: Sequence[str], by: str, choice: OnConflict
) -> UndoOutcome:
    pg = postgres_address.driver()
    tables = Tables(db, statements)
    try:
        return _carry_out(db, tables, actions, by, choice)
    except (
        pg.IntegrityError,
        pg.ProgrammingError,
        pg.DataError,
        pg.errors.DependentObjectsStillExist,
    ) as error:
        if isinstance(error, pg.errors.InsufficientPrivilege):
            raise
        # A constraint created since, an object that depends on a table, or a missing one prevents it.
        named = {s.action for s in statements}
        trouble = Trouble("", "", "", postgres_address.first_line(error))
        return UndoOutcome(False, dict.fromkeys(named, (trouble,)))


def _carry_out(db: Link, tables: Tables, actions: Sequence[str], by: str, choice: OnConflict) -> UndoOutcome:
    run(db, f"SET LOCAL lock_timeout = {LOCK_MS}")
    for setting in SETTINGS:
        run(db, setting)
    rows(db, "SELECT set_config(%s, %s, true)", [connection.SETTING, by])
    if troubles := tables.troubles():
        return UndoOutcome(False, _by_action(troubles))
    found = InverseResult()
    _take_rows(db, tables.in_the_way, actions, choice, found)
    if found.troubles and choice is not OnConflict.KEEP:
        return UndoOutcome(False, _by_action(found.troubles))
    if troubles := tables.drop(tables.replaced):
        return UndoOutcome(False, _by_action(troubles))
    tables.make()
    _take_rows(db, tables.rows, actions, choice, found)
    if found.troubles and not (choice is OnConflict.KEEP and found.applied):
        return UndoOutcome(False, _by_action(found.troubles))
    if troubles := [*tables.drop(tables.made), *tables.finish()]:
        return UndoOutcome(False, _by_action(troubles))
    whole = {s.action for s in (*tables.replaced, *tables.made, *tables.dropped)}
    touched = frozenset(found.touched | whole)
    return UndoOutcome(True, _by_action(found.troubles), touched, tables.stays(), found.counts)


def _take_rows(
    db: Link, statements: Sequence[Captured], actions: Sequence[str], choice: OnConflict, found: InverseResult
) -> None:
    """Apply the inverse of what these statements did to rows.

    With `keep`, a table that does not fit is left alone.
    """
    tables, troubles = _resolve(db, statements)
    found.troubles += troubles
    if troubles and choice is not OnConflict.KEEP:
        return
    _lock(db, tables)
    with still(db, tables):
        found.add(Inverse(db, tables, actions).apply(choice))


def _resolve(db: Link, statements: Sequence[Captured]) -> tuple[list[PostgresTable], list[Trouble]]:
    """Return the present tables to which captured rows belong."""
    groups: dict[int, list[int]] = {}
    troubles = []
    known: dict[tuple[int, str, str, str], int | None] = {}
    for s in statements:
        place = (s.relation, s.schema, s.name, s.shape)
        if place not in known:
            known[place] = one(db, "SELECT takeback.resolved(%s::oid, %s, %s, %s)::bigint", place)
            if known[place] is None:
                why = "the table is gone, or its columns were changed since"
                troubles.append(Trouble(s.action, s.called, "", why))
        oid = known[place]
        if oid is not None:
            groups.setdefault(oid, []).append(s.id)
    tables = [inverse.look_up(db, oid, ids) for oid, ids in sorted(groups.items())]
    return tables, troubles


def _lock(db: Link, tables: Sequence[PostgresTable]) -> None:
    """Lock these tables, and those connected by foreign keys, against writers until the transaction ends."""
    names = {table.quoted for table in tables}
    for table in tables:
        for child, parent, *_ in rows(db, REFERENCES, [table.oid, table.oid]):
            names |= {child, parent}
    if names:
        run(db, f"LOCK TABLE {', '.join(sorted(names))} IN SHARE ROW EXCLUSIVE MODE")


def _by_action(troubles: Sequence[Trouble]) -> dict[str, tuple[Trouble, ...]]:
    found: dict[str, list[Trouble]] = {}
    for trouble in troubles:
        found.setdefault(trouble.action, []).append(trouble)
    return {action: tuple(some) for action, some in found.items()}
