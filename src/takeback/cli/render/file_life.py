"""The life of a file as lines for people and data for machines: its versions, and who wrote each line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from takeback.cli.render.history import table, what
from takeback.cli.text import ago, iso
from takeback.core.blame import Whose
from takeback.core.codec import one_line
from takeback.core.history import History
from takeback.workspace.describe import Diff, actor_of, actor_short, kind, verb
from takeback.workspace.past.past import BlamedLine, FileVersion

WHAT_MAX, PROMPT_MAX = 44, 36
_NOBODY = {
    Whose.FIRST: ("you", "before the first record"),
    Whose.UNRECORDED: ("you", "not recorded"),
    Whose.GONE: ("?", "no longer kept"),
}


def life_lines(history: History, versions: Sequence[FileVersion], diff: Diff) -> list[str]:
    """Return one line for each version. The path is said only where there are several."""
    paths = {version.change.target for version in versions}
    rows: list[tuple[str, ...]] = [("id", "when", "who", "what", "lines", "prompt")]
    for version in versions:
        target = "" if len(paths) == 1 else f"{version.change.target}: "
        did = f"{target}{verb(version.change)}"
        name = f"{did}, {_what(history, version)}" if _what(history, version) else did
        rows.append(
            (
                version.action.id,
                ago(version.at_us),
                _who(version),
                one_line(name, WHAT_MAX + len(target)),
                _lines(version, diff),
                _prompt(version),
            )
        )
    return table(rows)


def version_data(history: History, version: FileVersion, diff: Diff) -> dict[str, Any]:
    counts = diff.stat(version.change)
    change, action = version.change, version.action
    return {
        "id": action.id,
        "kind": action.kind,
        "at": iso(version.at_us),
        "actor": "you" if action.kind == "outside" else actor_of(action),
        "name": what(history, action),
        "run": action.stream if action.stream in history.runs else None,
        "step": action.as_tool.step or None,
        "prompt": version.prompt or None,
        "path": str(change.target),
        "resource": change.target.resource,
        "did": verb(change),
        "added": counts[0] if counts else None,
        "removed": counts[1] if counts else None,
        "before": change.before.id,
        "after": change.after.id,
        "taken_back": history.taken_back(
            action.id, change.target, 0 if action.is_rollback else version.entry.seq
        ),
        "shared_with": list(change.shared_with),
        "in_doubt": change.in_doubt,
    }


def blame_lines(lines: Iterable[BlamedLine]) -> list[str]:
    """Return each line of a file after its writer, who is named once for the lines in a row."""
    every = list(lines)
    heads = [_head(line) for line in every]
    widths = [max((len(cell) for cell in column), default=0) for column in zip(*heads, strict=True)]
    digits = len(str(len(every)))
    shown = []
    for number, (line, head) in enumerate(zip(every, heads, strict=True), 1):
        same = number > 1 and heads[number - 2] == head
        cells = ("",) * len(head) if same else head
        left = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        text = line.text.decode(errors="replace").rstrip("\r\n")
        shown.append(f"{left}  {number:>{digits}}│ {text}".rstrip())
    return shown


def line_data(number: int, line: BlamedLine) -> dict[str, Any]:
    data: dict[str, Any] = {"line": number, "text": line.text.decode(errors="replace").removesuffix("\n")}
    if (version := line.version) is None:
        return data | {"id": None, "actor": _NOBODY[line.whose][0], "why": line.whose.name.lower()}
    action = version.action
    return data | {
        "id": action.id,
        "actor": "you" if action.kind == "outside" else actor_of(action),
        "at": iso(version.at_us),
        "run": action.stream if action.stream != "w" else None,
        "step": action.as_tool.step or None,
        "prompt": version.prompt or None,
        "call": action.name or None,
        "shared_with": list(version.change.shared_with),
        "in_doubt": version.change.in_doubt,
    }


def _head(line: BlamedLine) -> tuple[str, str, str, str]:
    if (version := line.version) is None:
        name, why = _NOBODY[line.whose]
        return ("", name, "", f"({why})" if why else "")
    said = _prompt(version) or one_line(version.action.name, PROMPT_MAX)
    return (version.action.id, _who(version), ago(version.at_us), said)


def _who(version: FileVersion) -> str:
    if version.action.kind == "outside":
        return "you"
    others = version.change.shared_with
    return actor_short(version.action) + (f" or {', '.join(others)}" if others else "")


def _prompt(version: FileVersion) -> str:
    return f'"{one_line(version.prompt, PROMPT_MAX)}"' if version.prompt else ""


def _what(history: History, version: FileVersion) -> str:
    return "" if version.action.kind == "outside" else what(history, version.action)


def _lines(version: FileVersion, diff: Diff) -> str:
    if diff.tell(version.change):
        return ""
    counts = diff.stat(version.change)
    if counts is None:
        return kind(version.change)
    return " ".join(f"{sign}{n}" for sign, n in zip("+-", counts, strict=True) if n)
