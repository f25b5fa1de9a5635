"""`takeback compare`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.options import ids_of
from takeback.cli.text import plural
from takeback.core import ids
from takeback.core.run_comparison import ALIKE, Deed, Pair, PairKind, RunComparison
from takeback.errors import ConflictError, UsageError
from takeback.workspace.comparison import compare_runs
from takeback.workspace.describe import call_text

SHOWN = 20


@click.command("compare", cls=TakebackCommand)
@click.argument("first", metavar="RUN", shell_complete=ids_of("runs"))
@click.argument("second", metavar="RUN", shell_complete=ids_of("runs"))
@click.option(
    "--all", "everything", is_flag=True, help=f"Show every difference, not only {SHOWN} of each kind"
)
@click.pass_obj
@click.pass_context
def command(ctx: click.Context, session: CommandContext, first: str, second: str, everything: bool) -> None:
    """Compare two runs at the same task by what they did or intended

    Two prompts, two models, a shadow and the real run: which calls were the same, which had other arguments, which
    only one of them made, what they changed, what they asked. Order and time are shown and do not count.

    Exits with 0 if both did the same, and with 3 if not.
    """
    for run in (first, second):
        if ids.parse(run)[0] != ids.RUN:
            raise UsageError(
                f"{run} is not a run", hint=f"`takeback show {run}` shows which run it belongs to"
            )
    with session.workspace() as workspace:
        found = compare_runs(workspace, first, second)
    if session.json:
        session.data(_data(found))
    else:
        for line in _lines(found, None if everything else SHOWN):
            session.line(line)
    ctx.exit(0 if found.is_same else ConflictError.exit_code)


def _data(found: RunComparison) -> dict[str, Any]:
    counts = Counter(pair.kind.name.lower().replace("_", "-") for pair in found.pairs)
    return {
        "same": found.is_same,
        "counts": dict(counts),
        "calls": [_pair_data(pair) for pair in found.pairs if pair.kind not in ALIKE],
        "effects": {"alike": found.effects_alike, "differ": msgspec.to_builtins(found.effects)},
        "questions": [{"run": run, **msgspec.to_builtins(one)} for run, one in found.questions],
        "runs": [
            {
                "run": one.run,
                "name": one.name,
                "life": one.life,
                "calls": len(one.deeds),
                "questions": len(one.questions),
                "took_s": round(one.took_us / 1e6, 3),
            }
            for one in (found.first, found.second)
        ],
    }


def _pair_data(pair: Pair) -> dict[str, Any]:
    return {"kind": pair.kind.value, "first": _deed_data(pair.first), "second": _deed_data(pair.second)}


def _deed_data(deed: Deed | None) -> dict[str, Any] | None:
    if deed is None:
        return None
    data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(deed, exactly=None))
    del data["exactly"]
    return data


def _lines(found: RunComparison, most: int | None) -> list[str]:
    first, second = found.first, found.second
    verdict = "did the same" if found.is_same else "differ"
    lines = [
        f"{first.run} ({first.name}, {first.life}) and {second.run} ({second.name}, {second.life}) {verdict}."
    ]
    by_kind: dict[PairKind, list[Pair]] = {}
    for pair in found.pairs:
        by_kind.setdefault(pair.kind, []).append(pair)
    names = {PairKind.ONLY_FIRST: f"only {first.run}", PairKind.ONLY_SECOND: f"only {second.run}"}
    for kind in PairKind:
        some = by_kind.get(kind, [])
        if some:
            lines.append(f"  {names.get(kind, kind.value):<24}{plural(len(some), 'call')}")
        if kind not in ALIKE:
            lines += [f"    {line}" for pair in some[:most] for line in _pair_lines(pair)]
            lines += _more(len(some), most)
    if found.effects or found.effects_alike:
        lines.append(f"  {'changes':<24}{found.effects_alike} alike, {len(found.effects)} not")
        lines += [f"    {_effect(one.target, one.first, one.second, found)}" for one in found.effects[:most]]
        lines += _more(len(found.effects), most)
    lines += [f"  only {run} asked         {one.name}: {one.answer}" for run, one in found.questions]
    lines.append(f"  {'time':<24}{first.took_us / 1e6:.1f} s and {second.took_us / 1e6:.1f} s")
    return lines


def _more(count: int, most: int | None) -> list[str]:
    return [f"    and {count - most} more; --all shows them"] if most is not None and count > most else []


def _pair_lines(pair: Pair) -> list[str]:
    both = [one for one in (pair.first, pair.second) if one is not None]
    return [f"{one.id:<6}{_deed(one)}" for one in both]


def _deed(one: Deed) -> str:
    would = ", intended" if one.intended else ""
    failed = f", {one.outcome}" if one.outcome != "done" else ""
    return f"{call_text(one.tool, one.arguments)} ({one.effect}{would}{failed})"


def _effect(target: str, first: object, second: object, found: RunComparison) -> str:
    if first and second:
        return f"{target}: not left alike"
    return f"{target}: only {found.first.run if first else found.second.run}"
