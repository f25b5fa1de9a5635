"""The output of one intent, shared by several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.cli.context import CommandContext
from takeback.cli.render.intents import whole_intent_data, whole_intent_lines
from takeback.core import ids
from takeback.core.intents import Queued

if TYPE_CHECKING:
    from takeback.workspace.workspace import Workspace


def show_intent(session: CommandContext, workspace: Workspace, queued: Queued) -> None:
    """Print everything known about an intent."""
    records = workspace.journal.read(after=ids.seq_of(queued.id) - 1)
    if session.json:
        attempts = workspace.outbox.attempts(queued.id)
        return session.data(whole_intent_data(queued, attempts, records))
    for line in whole_intent_lines(queued, records):
        session.line(line)
