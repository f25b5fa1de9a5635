"""`takeback store …`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from takeback.cli.context import CommandContext, TakebackGroup
from takeback.cli.text import ago, plural
from takeback.settings import environment
from takeback.storage.state import location
from takeback.storage.state.location import HERE
from takeback.system import postgres_address
from takeback.workspace.locate import registry_of_user
from takeback.workspace.store.move import Move, described, move


@click.group("store", cls=TakebackGroup)
def command() -> None:
    """See where the history is kept, and take it to another place

    That is this machine, or a PostgreSQL database that machines share, with a bucket for the content of files.
    """


@command.command("show")
@click.pass_obj
def show(session: CommandContext) -> None:
    """Show where history and content are kept"""
    if not session.json:
        _say_where(session)  # also where it cannot be reached
    with session.workspace() as workspace:
        kept = location.read(workspace.state) or HERE
        head = workspace.journal.head()
        notice = workspace.journal.moving.notice()
        intents = sum(workspace.outbox.counts().values())
        content = workspace.parts.store.stats()
        seats = workspace.journal.seats
        seat, here = (seats.now(), seats.place) if seats else (None, None)
    is_here = bool(seat and here and seat.place.id == here.id)
    blobs = postgres_address.hidden(environment.expanded(kept.blobs))
    if session.json:
        found: dict[str, Any] = {
            "history": described(workspace.state, kept),
            "shared": bool(kept.store),
            "workspace": kept.workspace or None,
            "events": head.count,
            "digest": head.digest,
            "intents": intents,
            "blobs": blobs or None,
            "pieces": content.blobs,
            "notice": notice or None,
            "sits": seat.place.said if seat else None,
            "sits_here": is_here if seat else None,
        }
        return session.data(found)
    session.line(f"          {plural(head.count, 'event')}, {plural(intents, 'intent')}")
    session.line(
        f"content   this machine ({plural(content.blobs, 'piece')}){f', and {blobs}' if blobs else ''}"
    )
    if seat:
        life = "shows signs of life" if seat.is_live else "silent"
        where = "in this folder" if is_here else f"in {seat.place.said}, not here ({life})"
        session.line(f"sits      {where}; it came there {ago(seat.since_us)}")
    if notice:
        session.line(f"moved     the history {notice}")


def _say_where(session: CommandContext) -> None:
    from takeback.workspace.locate import find_root
    from takeback.workspace.opening import find_state

    registry = registry_of_user()
    if state := find_state(find_root(".", registry), registry):
        session.line(f"history   {described(state, location.read(state) or HERE)}")
        session.line(f"state     {state}")


@command.command("copy")
@click.option("--to", required=True, metavar="local|ADDRESS", help="Where to: postgresql://host/database")
@click.option("--workspace", "name", default="", metavar="NAME", help="What it is called there")
@click.option(
    "--blobs", default="", metavar="ADDRESS", help="Bring all content to this bucket: s3://bucket/folder"
)
@click.option("--blobs-key", default="", metavar="$NAME|FILE", help="Seal it with the key in there")
@click.option("--preview", is_flag=True, help="Only show what would be moved")
@click.pass_obj
def copy(session: CommandContext, to: str, name: str, blobs: str, blobs_key: str, preview: bool) -> None:
    """Take the history of this workspace to another place, proved

    Everything is read back from there and compared before the workspace goes over. The old journal is kept, and
    nobody can write to it any more. Cut short, it is where it was; called again, it goes on.

    Write a password as a variable, in single quotes: 'postgresql://me:$PASSWORD@host/database'. It is read from the
    environment then and later, and stands nowhere.
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
        said = "Brought all" if done.done else "Would bring all"
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
        session.line(f"  old       kept in {done.old or done.source}; nobody can write there any more")
        how = f"rm {shlex.quote(done.old)}*" if done.old else "docs/STORE.md tells how"
        session.line(f"            to remove it: {how}")
