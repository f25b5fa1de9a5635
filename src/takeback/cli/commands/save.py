"""`takeback save`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import iso


@click.command("save", cls=TakebackCommand)
@click.argument("message", default="")
@click.pass_obj
def command(session: CommandContext, message: str) -> None:
    """Take a checkpoint and print its id

    The first word of the output is the id.
    """
    with session.protect(asking=True) as workspace:
        checkpoint = workspace.save(message)
    marks = checkpoint.taken.marks
    if session.json:
        return session.data(
            {
                "checkpoint": checkpoint.id,
                "at": iso(checkpoint.at_us),
                "evidence": {mark.resource: mark.evidence for mark in marks},
                "not_covered": [text for mark in marks for text in mark.stated],
            }
        )
    session.line(f"{checkpoint.id} saved" + (f": {message}" if message else ""))
    for mark in marks:
        for text in mark.stated[:5]:
            session.line(f"  not covered: {text}")
