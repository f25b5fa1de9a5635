"""`takeback dead …`."""

from __future__ import annotations

import click

from takeback.cli.context import CommandContext, TakebackGroup
from takeback.cli.intent import show_intent
from takeback.cli.render.intents import attempt_data, intent_data, rows
from takeback.cli.text import plural
from takeback.core.intents import IntentState
from takeback.core.redact import redact
from takeback.errors import UsageError
from takeback.settings import environment

PAGE = 1000


@click.group("dead", cls=TakebackGroup)
def command() -> None:
    """Retry or drop messages that could not be delivered

    A message becomes a dead letter when its last attempt has failed, or earlier if trying again cannot help. It is
    kept with its content and the outcome of every attempt, until you retry or drop it.
    """


@command.command("list")
@click.pass_obj
def list_(session: CommandContext) -> None:
    """List the dead letters"""
    with session.workspace() as workspace:
        found = list(workspace.outbox.page([IntentState.DEAD], limit=PAGE))
        why = {q.id: workspace.outbox.attempts(q.id)[-1] for q in found}
    if session.json:
        return session.data({"dead": [intent_data(q) | {"last": attempt_data(why[q.id])} for q in found]})
    if not found:
        return session.line("There are no dead letters.")
    for line in rows(found):
        session.line(line)
    session.line(" look at one   takeback dead show ID")
    session.line(" try again     takeback dead retry ID")


@command.command("show")
@click.argument("id")
@click.pass_obj
def show(session: CommandContext, id: str) -> None:
    """Show a message, its arguments and every attempt to deliver it"""
    with session.workspace() as workspace:
        queued = workspace.outbox.get(id)
        if queued is None:
            raise UsageError(f"there is no intent {id}", hint="`takeback outbox list --all` lists them")
        show_intent(session, workspace, queued)


@command.command("retry")
@click.argument("ids", nargs=-1, metavar="ID…")
@click.option("--all", "everything", is_flag=True, help="Retry all dead letters")
@click.pass_obj
def retry(session: CommandContext, ids: tuple[str, ...], everything: bool) -> None:
    """Retry dead letters, counting attempts from the start again

    First fix what made them fail. A worker then delivers them. A message with an ordering key comes after those with
    the same key that are already waiting.
    """
    with session.workspace() as workspace:
        chosen = _chosen(
            ids, [q.id for q in workspace.outbox.page([IntentState.DEAD], limit=10**9)], everything
        )
        done = [workspace.outbox.revive(id, environment.actor()) for id in chosen]
    if session.json:
        return session.data({"retried": [queued.id for queued in done]})
    session.line(f"{plural(len(done), 'intent')} will be tried again: `takeback outbox worker`")


@command.command("drop")
@click.argument("ids", nargs=-1, metavar="ID…")
@click.option("--all", "everything", is_flag=True, help="Drop all dead letters")
@click.option("--why", metavar="REASON", default="", help="The reason, for the log")
@click.pass_obj
def drop(session: CommandContext, ids: tuple[str, ...], everything: bool, why: str) -> None:
    """Give up on dead letters; they stay in the journal"""
    with session.workspace() as workspace:
        chosen = _chosen(
            ids, [q.id for q in workspace.outbox.page([IntentState.DEAD], limit=10**9)], everything
        )
        done = [workspace.outbox.drop(id, environment.actor(), redact(why)) for id in chosen]
    if session.json:
        return session.data({"dropped": [queued.id for queued in done]})
    session.line(f"Dropped {plural(len(done), 'dead letter')}.")


def _chosen(named: tuple[str, ...], dead: list[str], everything: bool) -> list[str]:
    if bool(named) == everything:
        raise UsageError("name dead letters, or use --all; nothing was changed", hint="`takeback dead list`")
    return dead if everything else list(dict.fromkeys(named))
