"""What agents did, in numbers: as lines and as data."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.cli.text import fitted, padded, paint, plural, sized
from takeback.workspace.describe.day import AgentTally, Statistics

NAME_MAX = 24


def stats_lines(found: Statistics, *, width: int) -> list[str]:
    """Return a line for each agent, and below it one for each of its tools; only numbers that are not 0."""
    names = [*found, *(f"  {tool}" for tools in found.values() for tool in tools)]
    wide = min(max(map(len, names)), NAME_MAX)
    lines = []
    for agent, tools in sorted(found.items(), key=lambda item: -total(item[1].values()).actions):
        lines += _wrapped(agent, total(tools.values()), wide, width, bold=True)
        for tool, tally in sorted(tools.items(), key=lambda item: (-item[1].actions, item[0])):
            if tool:
                lines += _wrapped(f"  {tool}", tally, wide, width)
    return lines


def total(tallies: Any) -> AgentTally:
    """Return the sum of tallies."""
    found = AgentTally()
    for tally in tallies:
        found.add(tally)
    return found


def _wrapped(name: str, tally: AgentTally, wide: int, width: int, **style: Any) -> list[str]:
    """Return a name and its numbers, on as many lines as they need."""
    lines, parts = [], _parts(tally)
    begin = padded(fitted(name, wide), wide)
    begin = paint(begin, **style) if style else begin
    while parts:
        count = len(parts)
        while count > 1 and wide + 2 + len(", ".join(parts[:count])) > width - 1:
            count -= 1
        some, parts = parts[:count], parts[count:]
        lines.append(f"{begin}  {', '.join(some)}{',' if parts else ''}")
        begin = " " * wide
    return lines


def _parts(tally: AgentTally) -> list[str]:
    each = f" in {tally.undo_us / tally.undos / 1e6:.1f} s each" if tally.undos else ""
    return [
        plural(tally.actions, "action"),
        *([f"{tally.failed:,} failed"] if tally.failed else []),
        *([f"{tally.taken_back:,} taken back"] if tally.taken_back else []),
        *([f"{tally.asked:,} asked"] if tally.asked else []),
        *([f"{tally.refused:,} refused"] if tally.refused else []),
        *([f"{tally.handed_over:,} handed over"] if tally.handed_over else []),
        *([f"{plural(tally.undos, 'undo')}{each}"] if tally.undos else []),
        *([f"{sized(tally.bytes_kept)} kept"] if tally.bytes_kept else []),
    ]


def stats_data(found: Statistics) -> list[dict[str, Any]]:
    """Return the same as data, with each agent's tools."""
    return [
        {"agent": agent, **_numbers(total(tools.values()))}
        | {"tools": [{"tool": tool, **_numbers(tally)} for tool, tally in tools.items() if tool]}
        for agent, tools in found.items()
    ]


def _numbers(tally: AgentTally) -> dict[str, Any]:
    numbers: dict[str, Any] = msgspec.structs.asdict(tally)
    return numbers | {"undo_s": numbers.pop("undo_us") / 1e6}
