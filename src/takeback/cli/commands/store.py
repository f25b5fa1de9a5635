"""`takeback store …`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from takeback.cli.context import CommandContext, TakebackGroup
from takeback.cli.text import ago, plural
from takeback.workspace.store.move import Move, move
from takeback.workspace.store.summary import state_and_place, summary


@click.group("store", cls=TakebackGroup)
def command() -> None:
    """Show where the history is kept, or move it to another place

    It is kept on this machine, or in a PostgreSQL database that machines share, with a bucket for the content of
    files.
    """


@command.command("show")
@click.pass_obj
def show(session: CommandContext) -> None:
    """Show where history and content are kept"""
    if not session.json:
        _say_where(session)  # even if the store cannot be reached
    with session.workspace() as workspace:
        kept = summary(workspace)
    seat = kept.seat
    if session.json:
        found: dict[str, Any] = {
            "history": kept.history,
            "shared": kept.is_shared,
            "workspace": kept.name or None,
            "events": kept.head.count,
            "digest": kept.head.digest,
            "intents": kept.intents,
            "blobs": kept.blobs or None,
            "pieces": kept.pieces,
            "notice": kept.notice or None,
            "sits": seat.place.said if seat else None,
            "sits_here": kept.is_here if seat else None,
        }
        return session.data(found)
    session.line(f"          {plural(kept.head.count, 'event')}, {plural(kept.intents, 'intent')}")
    session.line(
        f"content   this machine ({plural(kept.pieces, 'piece')}){f', and {kept.blobs}' if kept.blobs else ''}"
    )
    if seat:
        life = "still active" if seat.is_live else "silent"
        where = "in this folder" if kept.is_here else f"in {seat.place.said}, not here ({life})"
        session.line(f"sits      {where}; since {ago(seat.since_us)}")
    if kept.notice:
        session.line(f"moved     the history {kept.notice}")


def _say_where(session: CommandContext) -> None:
    if found := state_and_place():
        state, place = found
        session.line(f"history   {place}")
        session.line(f"state     {state}")


@command.command("copy")
@click.option(
    "--to", required=True, metavar="local|ADDRESS", help="The new place, like postgresql://host/database"
)
@click.option("--workspace", "name", default="", metavar="NAME", help="The name of the workspace there")
@click.option(
    "--blobs", default="", metavar="ADDRESS", help="Copy all content to this bucket, like s3://bucket/folder"
)
@click.option(
    "--blobs-key",
    default="",
    metavar="$NAME|FILE",
    help="Encrypt the content with the key in this variable or file",
)
@click.option("--preview", is_flag=True, help="Show what would be moved, and change nothing")
@click.pass_obj
def copy(session: CommandContext, to: str, name: str, blobs: str, blobs_key: str, preview: bool) -> None:
    """Move the history of this workspace to another place, and verify it

    Everything is read back from the new place and compared before the workspace moves. The old journal is kept, and
    can no longer be written to. If the command is interrupted, the workspace stays in the old place; run it again to
    continue.

    Write a password as a variable, in single quotes: 'postgresql://me:$PASSWORD@host/database'. The password is
    read from the environment each time, and is never stored.
    """
    with session.workspace() as workspace:
        done = move(workspace, to, name, blobs, blobs_key, preview=preview, progress=session.progress)
    if session.json:
        return session.data(move_data(done))
    _print(session, done)


def move_data(done: Move) -> dict[str, Any]:
    return {
        "done": done.done,
        "from": done.source,
        "to": done.target,
        "events": done.copied.events,
        "streams": done.copied.streams,
        "intents": done.copied.intents,
        "pieces": done.pieces,
        "blobs": done.blobs or None,
        "with_history": done.with_history,
        "old": done.old or None,
    }


def _print(session: CommandContext, done: Move) -> None:
    if not done.with_history:
        said = "Copied all" if done.done else "Would copy all"
        session.line(f"{said} content to {done.blobs}: {plural(done.pieces, 'piece')}.")
        session.line(f"  history   stays in {done.target}")
        return
    what = f"{plural(done.copied.events, 'event')}, {plural(done.copied.intents, 'intent')}"
    if done.done:
        session.line(f"Moved the history to {done.target}: {what}, each read back and compared.")
    else:
        session.line(f"Would move the history from {done.source} to {done.target}: {what}.")
    where = f"in {done.blobs}" if done.blobs else "on this machine alone"
    session.line(f"  content   {plural(done.pieces, 'piece')}, {where}")
    if done.done:
        session.line(f"  old       kept in {done.old or done.source}; it can no longer be written to")
        how = f"rm {shlex.quote(done.old)}*" if done.old else "see docs/STORE.md"
        session.line(f"            to remove it: {how}")
