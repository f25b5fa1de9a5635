"""The life of a file as lines for people and data for machines: its versions, and who wrote each line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from shlex import quote
from typing import Any, NamedTuple

from takeback.cli.render.history import is_folder, what
from takeback.cli.text import ago, cells, fitted, iso, padded, room
from takeback.core.blame import Whose
from takeback.core.change import Target
from takeback.core.codec import one_line
from takeback.core.history import History
from takeback.workspace.describe import Diff, actor_of, actor_short, kind, line_of, notes_of, verb
from takeback.workspace.past.past import BlamedLine, FileVersion

GAP = 2
WHAT_MAX, WHAT_LEAST = 44, 16
PROMPT_MAX, PROMPT_LEAST = 36, 12
TEXT_LEAST = 40
"""Room for a line of the file beside its writer, where the screen is narrow."""
_NOBODY = {
    Whose.FIRST: ("you", "before the first record"),
    Whose.UNRECORDED: ("you", "not recorded"),
    Whose.GONE: ("?", "no longer kept"),
}


def life_lines(history: History, versions: Sequence[FileVersion], diff: Diff) -> list[str]:
    """Return one line for each version, oldest first. The path is said only where there are several.

    If the prompts do not fit beside the rest, each has a line of its own, below the first version that it led to.
    """
    paths = {version.change.target for version in versions}
    prompts = any(version.prompt for version in versions)
    rows = [_LifeRow("id", "when", "who", "lines", "what", "prompt" if prompts else "")]
    for _, some in groupby(versions, key=lambda version: version.action.id):
        for version in sorted(some, key=lambda one: (is_folder(one.change), one.change.target)):
            target = "" if len(paths) == 1 else f"{version.change.target}: "
            did = f"{target}{verb(version.change)}"
            said = _what(history, version)
            rows.append(
                _LifeRow(
                    version.action.id,
                    ago(version.at_us),
                    _who(version),
                    _lines(version, diff),
                    one_line(f"{did}, {said}" if said else did, WHAT_MAX + len(target)),
                    _prompt(version),
                )
            )
    return _laid_out(rows)


class _LifeRow(NamedTuple):
    id: str
    when: str
    who: str
    lines: str
    what: str
    prompt: str


def _laid_out(rows: Sequence[_LifeRow]) -> list[str]:
    """Return rows as a table that fits the screen."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    *fixed, what, prompt = widths
    left = room() - sum(fixed) - GAP * len(fixed)
    beside = what + GAP + prompt <= left
    shown, last = [], rows[0].prompt
    for row in rows:
        parts = [padded(cell, wide) for cell, wide in zip(row, fixed, strict=False)]
        parts.append(padded(row.what, what) if beside else fitted(row.what, max(left, WHAT_LEAST)))
        shown.append((" " * GAP).join([*parts, row.prompt] if beside else parts).rstrip())
        if not beside and row.prompt not in ("", last):
            indent = " " * (fixed[0] + GAP)
            shown.append(fitted(f"{indent}prompt {row.prompt}", room()))
        last = row.prompt
    return shown


def life_ways(history: History, versions: Sequence[FileVersion]) -> list[str]:
    """Return what can be done next with one of these versions, which come the latest first."""
    latest: dict[Target, FileVersion] = {}
    for version in versions:
        if not is_folder(version.change):
            latest.setdefault(version.change.target, version)
    if not latest:
        return []
    shown = next((one for one in latest.values() if one.change.after), None)
    last = shown or next(iter(latest.values()))
    target = last.change.target
    moment = f"{last.action.id}:{target}" if shown else f"before {last.action.id}:{target}"
    lines = [f"  its bytes      takeback show {quote(moment)}"]
    if shown:
        lines.append(f"  each line      takeback blame {quote(str(target))}")
    standing = (one for one in versions if one.action.kind == "action" and history.live(one.action.id))
    if made := next((one for one in standing if one.change.target == target), None):
        lines.append(f"  take it back   takeback undo {made.action.id} --path {quote(str(target))}")
    return lines


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
    if widths:  # on a narrow screen the prompt leaves room for the file's own lines
        widths[-1] = max(min(widths[-1], room() - TEXT_LEAST - sum(widths[:-1])), PROMPT_LEAST)
    digits = len(str(len(every)))
    shown = []
    for number, (line, head) in enumerate(zip(every, heads, strict=True), 1):
        same = number > 1 and heads[number - 2] == head
        said = ("",) * len(head) if same else head
        left = "  ".join(padded(fitted(cell, wide), wide) for cell, wide in zip(said, widths, strict=True))
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
    action = version.action
    if action.kind == "outside":
        return ""
    notes = ", ".join(notes_of(history, action))
    return f"{line_of(history, action)}  {notes}".rstrip()


def _lines(version: FileVersion, diff: Diff) -> str:
    if diff.tell(version.change):
        return ""
    counts = diff.stat(version.change)
    if counts is None:
        return kind(version.change)
    return " ".join(f"{sign}{n}" for sign, n in zip("+-", counts, strict=True) if n)
