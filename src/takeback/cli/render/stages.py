"""The output about views: what is different in one, and what there is to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from takeback.cli.render.command import counted_changes
from takeback.cli.text import ago, iso, plural, sized
from takeback.core.change import Change
from takeback.core.codec import one_line
from takeback.workspace.describe import verb
from takeback.workspace.results import RollbackReport
from takeback.workspace.staging import Stage, StageComparison, StageLook

OUTSIDE_SHOWN = 10
DELETED_IN_LINE = 5


def would_lines(name: str, look: StageLook, outside: Sequence[str]) -> list[str]:
    """Return what accepting a view would do. Every deletion is named, however many there are."""
    found = telling(look)
    lines = [f"It would {_would(found)}." if found else "It would change nothing."]
    deleted = [str(c.target) for c in found if verb(c) == "deleted" and c.target.resource != "git"]
    if len(deleted) <= DELETED_IN_LINE and deleted:
        lines[0] = f"{lines[0][:-1]}; deleted: {', '.join(deleted)}."
    else:
        lines += [f"  delete   {path}" for path in deleted]
    lines += [f"  {says}" for says in _said(look)]
    lines += _outside_lines(outside)
    return lines + next_lines(name)


def next_lines(name: str) -> list[str]:
    """Return what can be done with a view."""
    ways = [f"{word}   takeback stage {command} {name}" for word, command in _WAYS]
    return [f"  {'      '.join(ways)}"]


_WAYS = (("accept", "accept"), ("look", "diff"), ("drop", "drop"))
_DID = {"restored": "wrote", "removed": "deleted"}
_WOULD_DO = {"restored": "write", "removed": "delete", "merged": "merge", "kept": "keep"}
_CHOICES = {
    "keep": "keep yours and accept the rest",
    "merge": "merge",
    "overwrite": "put the view's version over yours",
}


def accepted_lines(name: str, report: RollbackReport) -> list[str]:
    """Return what accepting a view did, or why it stopped."""
    if report.finished_earlier:
        return [f"An earlier {report.kind} was interrupted. It is finished now; nothing else was done."]
    if report.is_stopped:
        found = [item for item in report.items if item.did == "conflict"]
        lines = [f"Stopped: nothing of {name} was accepted."]
        lines += [f"  conflict   {item.target.said}: {item.why}" for item in found]
        ways = [(_CHOICES[choice], choice) for choice in report.choices]
        return lines + [f"  {said:<36} takeback stage accept {name} --on-conflict {c}" for said, c in ways]
    if not report.achieved and not any(item.did in ("kept", "failed") for item in report.items):
        return [f"Nothing of {name} was left to accept."]
    words = _WOULD_DO if report.preview else _DID
    lines = [f"Would accept {name}:" if report.preview else f"Accepted {name} as {report.rollback}"]
    whys = {item.target: item.why for item in report.items}
    for did, listed in report.lists():
        if did == "already":
            continue
        for line, text in zip(listed, report.texts(listed), strict=True):
            why = f": {whys[line.targets[0]]}" if whys[line.targets[0]] else ""
            lines.append(f"  {words.get(did, did):<10} {text}{why}")
    if report.preview:
        return lines
    verified = sum(item.verified for item in report.items)
    end = f"Verified {verified} of {len(report.items)} against the disk."
    return [*lines, f"{end}  Changed your mind?  takeback undo {report.rollback}"]


def telling(look: StageLook) -> list[Change]:
    """Return the changes that matter to people."""
    return [change for change, minor in zip(look.changes, look.minor, strict=True) if not minor]


def _would(changes: Sequence[Change]) -> str:
    did = counted_changes(tuple(changes))
    for past, now in (
        ("changed", "change"),
        ("deleted", "delete"),
        ("created", "create"),
        ("touched", "touch"),
    ):
        did = did.replace(past, now)
    return did


def _said(look: StageLook) -> list[str]:
    """Return what cannot be said by a path: branches that move, rows of databases."""
    every = zip(look.said, look.minor, strict=True)
    return [said for said, minor in every if said and not minor]


def _outside_lines(outside: Sequence[str]) -> list[str]:
    if not outside:
        return ["  Outside the workspace it would change nothing."]
    shown = [f"    {path}" for path in outside if path.endswith(" (deleted)")]
    others = [f"    {path}" for path in outside if not path.endswith(" (deleted)")]
    more = len(others) - OUTSIDE_SHOWN
    lines = [
        f"  Outside the workspace it would change {plural(len(outside), 'path')}, which accept leaves out:"
    ]
    lines += shown + others[:OUTSIDE_SHOWN]
    return lines + ([f"    and {more:,} more that it would write; --json lists all"] if more > 0 else [])


def look_data(look: StageLook | None, outside: Sequence[str]) -> dict[str, Any]:
    """Return what is different in a view, as data."""
    if look is None:
        return {"changes": None, "outside": list(outside)}
    every = zip(look.changes, look.said, look.minor, strict=True)
    return {
        "changes": [
            {
                "resource": change.target.resource,
                "target": str(change.target),
                "did": verb(change),
                "minor": minor,
            }
            | ({"says": said} if said else {})
            for change, said, minor in every
        ],
        "outside": list(outside),
    }


def stage_data(stage: Stage) -> dict[str, Any]:
    card = stage.card
    return {
        "name": stage.name,
        "kind": card.kind,
        "why_copy": card.why_copy or None,
        "made": iso(card.made_us),
        "at": card.at or None,
        "root": str(stage.root),
        "command": card.command or None,
        "exit_code": card.exit_code,
        "network": card.network,
        "bytes": stage.folder.bytes_used(),
        "living": stage.living(),
    }


def stage_line(stage: Stage, look: StageLook) -> str:
    """Return one line about a view, for a list."""
    card = stage.card
    found = telling(look)
    did = _would(found) if found else "no change"
    of = f" of {card.at}" if card.at else ""
    command = f"  {one_line(card.command, 40)}" if card.command else ""
    inside = stage.living()
    at_work = f"  ({plural(len(inside), 'process', 'processes')} inside)" if inside else ""
    size = sized(stage.folder.bytes_used())
    return f"{stage.name:<10} {ago(card.made_us):<12} {card.kind}{of}  {size}  {did}{command}{at_work}"


def comparison_lines(first: str, second: str, found: StageComparison) -> list[str]:
    titles = (
        ("the same in both", found.same),
        ("different", found.differ),
        (f"only in {first}", found.only_first),
        (f"only in {second}", found.only_second),
    )
    lines = []
    for title, targets in titles:
        if targets:
            lines.append(f"{title}:")
            lines += [f"  {target}" for target in targets]
    return lines or ["Neither of them changed anything."]


def comparison_data(found: StageComparison) -> dict[str, list[str]]:
    return {
        "same": [str(target) for target in found.same],
        "differ": [str(target) for target in found.differ],
        "only_first": [str(target) for target in found.only_first],
        "only_second": [str(target) for target in found.only_second],
    }
