"""`takeback du`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from takeback.cli.context import CommandContext, TakebackCommand
from takeback.cli.text import plural, sized


@click.command("du", cls=TakebackCommand)
@click.pass_obj
def command(session: CommandContext) -> None:
    """Show how much disk the recorded history takes"""
    with session.workspace() as workspace:
        stats = workspace.parts.store.stats()
        shared = workspace.parts.store.shared_bytes()
        quota = workspace.settings.store.quota_bytes
        journal = sum(
            _size(workspace.state / name) for name in ("journal.db", "journal.db-wal", "journal.anchor")
        )
        index = _size(workspace.state / "files.index")
    content = stats.bytes + stats.index_bytes
    if session.json:
        return session.data(
            {
                "content_bytes": content,
                "bucket_bytes": shared,
                "blobs": stats.blobs,
                "journal_bytes": journal,
                "index_bytes": index,
                "quota_bytes": quota,
            }
        )
    pieces = f"{plural(stats.blobs, 'piece')} in {plural(stats.packs, 'pack')}"
    session.line(f"content   {sized(content):>10}   {pieces}")
    if shared:
        session.line(f"bucket    {sized(shared):>10}   the same content, for all machines, as last seen")
    session.line(f"journal   {sized(journal):>10}")
    session.line(f"index     {sized(index):>10}   a cache, made again when it is missing")
    if quota:
        session.line(f"quota     {sized(quota):>10}   `takeback gc` frees what the limits do not keep")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
