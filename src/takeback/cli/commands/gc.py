"""`takeback gc`."""

from __future__ import annotations

import click
import msgspec

from takeback.cli.consent import is_terminal
from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import day, moment, plural, sized
from takeback.settings import environment
from takeback.workspace.compacting import Compacted
from takeback.workspace.refusal import refuse_agent

FOREVER = '[store] keep-journal = "forever" in takeback.toml'


@click.command("gc", cls=TakebackCommand)
@click.option("--yes", is_flag=True, help="Compact old records without announcing it first")
@click.pass_obj
def command(session: CommandContext, yes: bool) -> None:
    """Delete stored content, and compact records, that exceed the limits in takeback.toml

    Content of states older than keep-days is deleted. Records of finished work that are as old are compacted:
    who did what, when, and with what outcome stays, and so do the digests, so the journal can still be verified. What
    was changed is removed from these records, and can no longer be taken back.

    The first time, this asks before it compacts anything. Without a terminal it announces the compaction, and a gc at
    least a day later does it. To turn it off, set keep-journal = "forever" in takeback.toml.
    """

    def ask(offer: Compacted) -> bool | None:
        if yes or session.json or not is_terminal():
            return yes or None
        click.echo(_offered(offer), err=True)
        click.echo(f"Afterwards none of it can be taken back. To keep all details: {FOREVER}.", err=True)
        return click.confirm("Compact them?", default=False, err=True)

    with session.workspace() as workspace:
        inside = environment.parent_action() or workspace.inside_action()
        if yes:
            refuse_agent(inside, "an agent cannot remove details from the history")
        done = workspace.upkeep.gc(None if inside else ask)
    pruned, compacted = done.pruned, done.compacted
    if session.json:
        left = msgspec.to_builtins(compacted) if compacted else None
        return session.data(msgspec.to_builtins(pruned) | {"compacted": left})
    if compacted:
        for line in _lines(compacted):
            session.line(line)
    session.line(
        f"Freed {sized(pruned.freed)}; {sized(pruned.bytes_after)} remain. Kept "
        f"{plural(pruned.marks_kept, 'state')} of the files, removed {pruned.marks_pruned:,}."
    )
    if pruned.bucket_bytes_freed:
        session.line(f"Freed {sized(pruned.bucket_bytes_freed)} in the bucket.")


def _offered(offer: Compacted) -> str:
    span = f"from {day(offer.first_us)} to {day(offer.last_us)}"
    can = (
        f"{plural(offer.records, 'record')} of finished work, {span}, can be compacted to what an audit needs"
    )
    return f"{can}, which frees {sized(offer.bytes_freed)}."


def _lines(found: Compacted) -> list[str]:
    if found.done:
        span = f"from {day(found.first_us)} to {day(found.last_us)}"
        done = f"Compacted {plural(found.records, 'record')} {span} to what an audit needs"
        left = f"The file itself stays as large: {found.left}."
        return [
            f"{done}, which freed {sized(found.bytes_freed)} in the journal.",
            *([left] if found.left else []),
        ]
    if not found.due_us:
        return [f"{_offered(found)} You declined that; `takeback gc --yes` does it."]
    when = f"the first `takeback gc` after {moment(found.due_us)} does it, or `takeback gc --yes` now"
    return [f"{_offered(found)} Nothing was compacted yet: {when}. To keep all details: {FOREVER}."]
