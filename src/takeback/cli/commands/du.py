"""`takeback du`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from takeback.cli.session import Session, TakebackCommand


@click.command("du", cls=TakebackCommand)
@click.pass_obj
def command(session: Session) -> None:
    """Show how much disk the recorded history takes"""
    with session.workspace() as workspace:
        stats = workspace.store.stats()
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
                "blobs": stats.blobs,
                "journal_bytes": journal,
                "index_bytes": index,
                "quota_bytes": quota,
            }
        )
    session.line(f"content   {content / 1e6:10,.1f} MB   {stats.blobs:,} pieces in {stats.packs:,} packs")
    session.line(f"journal   {journal / 1e6:10,.1f} MB")
    session.line(f"index     {index / 1e6:10,.1f} MB   a cache, made again when it is missing")
    if quota:
        session.line(f"quota     {quota / 1e6:10,.1f} MB   `takeback gc` frees what the limits do not keep")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
