"""Texts about what happened in a database, and what stays there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from takeback.resources.postgres.inverse import Trouble

SHOWN = 3


def told(name: str, data: Mapping[str, Any], *, back: bool) -> str:
    """Return a text like `shop: 41 rows of orders put back, 2 of customers removed`."""
    tables: Mapping[str, Sequence[int]] = data.get("tables", {})
    parts = []
    for table, (added, changed, removed) in tables.items():
        short = plainly(table)
        if back:
            parts += _some(changed + removed, f"of {short} put back")
            parts += _some(added, f"of {short} removed")
        else:
            parts += _some(added, f"added to {short}")
            parts += _some(changed, f"of {short} changed")
            parts += _some(removed, f"removed from {short}")
    did = [what.replace(" public.", " ") for what in data.get("did", ())]
    if back and did:
        did[0] = f"taken back: {did[0]}"
    if data.get("unknown"):
        did.append("what changed is still unknown: the server could not be reached")
    return f"{name}: {', '.join([*parts, *did]) or 'nothing'}"


def _some(count: int, what: str) -> list[str]:
    return [f"{count:,} row{'' if count == 1 else 's'} {what}"] if count else []


def plainly(table: str) -> str:
    """Return a table's name without the default schema."""
    return table.removeprefix("public.")


def reasons(troubles: Iterable[Trouble]) -> str:
    """Return a text like `orders 7 and 12 changed by a9 since; customers 3: a row of orders refers to it`."""
    groups: dict[tuple[str, str], list[str]] = {}
    for trouble in troubles:
        groups.setdefault((trouble.table, trouble.why), []).append(trouble.key)
    return "; ".join(_reason(table, why, keys) for (table, why), keys in groups.items())


def _reason(table: str, why: str, keys: list[str]) -> str:
    named = [key for key in keys if key]
    if not table:
        return why
    if not named:
        return f"{plainly(table)}: {why}"
    more = f" and {len(named) - SHOWN:,} more" if len(named) > SHOWN else ""
    noun = "row" if len(named) == 1 else "rows"
    return f"{plainly(table)}, {noun} {'; '.join(named[:SHOWN])}{more}: {why}"


def stays(troubles: Sequence[Trouble], others: Sequence[str]) -> str:
    """Return what is left as it is, and why."""
    parts = [f"kept as it is: {reasons(troubles)}"] if troubles else []
    if others:
        parts.append(f"{', '.join(others[:SHOWN])} stays, which is neither table nor row")
    return "; ".join(parts)
