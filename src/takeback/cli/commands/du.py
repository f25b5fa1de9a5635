"""`takeback du`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import plural, sized
from takeback.workspace.compacting import Compactable


@click.command("du", cls=TakebackCommand)
@click.pass_obj
def command(session: CommandContext) -> None:
    """Show how much disk space the recorded history takes up"""
    with session.workspace() as workspace:
        stats = workspace.upkeep.content()
        shared = workspace.upkeep.shared_bytes()
        quota = workspace.settings.store.quota_bytes
        sizes = workspace.upkeep.sizes()
        compactable = workspace.upkeep.compactable()
    if session.json:
        return session.data(
            {
                "content_bytes": sizes.content,
                "bucket_bytes": shared,
                "blobs": stats.blobs,
                "journal_bytes": sizes.journal,
                "compactable_records": compactable.records,
                "compactable_bytes": compactable.bytes_freed,
                "index_bytes": sizes.index,
                "conversations_bytes": sizes.conversations,
                "stages_bytes": sizes.stages,
                "total_bytes": sizes.total,
                "quota_bytes": quota,
            }
        )
    pieces = f"{plural(stats.blobs, 'piece')} in {plural(stats.packs, 'pack')}"
    session.line(f"content   {sized(sizes.content):>10}   {pieces}")
    if shared:
        session.line(f"bucket    {sized(shared):>10}   the same content, for all machines, as last seen")
    session.line(f"journal   {sized(sizes.journal):>10}   {_of_journal(compactable)}")
    session.line(f"index     {sized(sizes.index):>10}   caches, rebuilt if they are missing")
    if sizes.conversations:
        session.line(
            f"threads   {sized(sizes.conversations):>10}   conversations that agent frameworks keep here"
        )
    if sizes.stages:
        session.line(
            f"views     {sized(sizes.stages):>10}   what is only in them; `takeback stage list` names them"
        )
    session.line(f"total     {sized(sizes.total):>10}   on this machine")
    if quota:
        session.line(f"quota     {sized(quota):>10}   for content and views; `takeback gc` makes room")


def _of_journal(found: Compactable) -> str:
    if not found.records:
        return "what happened"
    return (
        f"what happened; up to {plural(found.records, 'record')} are older than the limits, and `takeback gc` "
        f"frees about {sized(found.bytes_freed)} of them"
    )
