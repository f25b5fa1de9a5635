"""`takeback export`."""

from __future__ import annotations

import time

import click
import msgspec

from takeback.cli.context import CommandContext, TakebackCommand, echo_json
from takeback.core.change import Target
from takeback.core.export import as_cloudevent, as_line, type_of, undo_list
from takeback.core.record import Record
from takeback.errors import UsageError
from takeback.workspace.workspace import Workspace

POLL_S = 0.2
_OF_INTENTS = {"pending": "cancel it", "dead": "cancel it", "delivered": "it was delivered"}


@click.command("export", cls=TakebackCommand)
@click.option(
    "--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Print only events after this one"
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["jsonl", "cloudevents"]),
    default="jsonl",
    show_default=True,
    help="Print events as plain JSON objects or as CloudEvents 1.0, one per line",
)
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Print only events of this type; may be repeated"
)
@click.option("--follow", is_flag=True, help="Wait for further events, until Ctrl-C")
@click.option(
    "--undo-list",
    default="",
    metavar="RUN",
    help="Instead, list what this run did that has not been taken back, latest first",
)
@click.pass_obj
def command(
    session: CommandContext, after: int, shape: str, types: tuple[str, ...], follow: bool, undo_list: str
) -> None:
    """Print every recorded event, for other programs

    The number `seq` of the events has no gaps. To continue an export, pass the last number that you have to --after.
    Anything that looks like a secret is hidden.
    """
    with session.workspace() as workspace:
        if undo_list:
            return _print_undo_list(session, workspace, undo_list)
        _refuse_unknown(types)
        while True:
            for record in workspace.journal.read(after=after):
                after = record.seq
                if not types or type_of(record.event) in types:
                    echo_json(_text(workspace, record, shape))
            if not follow:
                return None
            time.sleep(POLL_S)


def _text(workspace: Workspace, record: Record, shape: str) -> str:
    made = as_cloudevent(record, workspace.source) if shape == "cloudevents" else as_line(record)
    return msgspec.json.encode(made).decode()


def _print_undo_list(session: CommandContext, workspace: Workspace, run: str) -> None:
    if run not in workspace.history.runs:
        raise UsageError(f"there is no run {run}", hint="`takeback log` lists them")
    found = undo_list(map(as_line, workspace.journal.read()), run)
    if session.json:
        return session.data({"run": run, "undo": msgspec.to_builtins(found)})
    for one in found:
        back = f"back to {one.before}" if one.before else _OF_INTENTS.get(one.after, "remove it")
        target = Target(one.resource, one.target, one.root)
        session.line(f"{one.action}  {one.resource} {target.said}: {back}")
    if not found:
        session.line(f"Nothing of {run} is left to undo.")
    return None


def _refuse_unknown(types: tuple[str, ...]) -> None:
    from takeback.core.events import Event

    known = {str(kind.__struct_config__.tag) for kind in Event.__args__}
    if wrong := [name for name in types if name not in known]:
        raise UsageError(
            f"there is no event type {wrong[0]!r}", hint=f"use one of {', '.join(sorted(known))}"
        )
