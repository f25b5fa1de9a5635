"""What a command would do, judged before it begins, here in this workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from takeback.core import events as e
from takeback.core.redact import redact
from takeback.core.subjects import Action
from takeback.engine.ground import real_path
from takeback.engine.ledger import Ledger
from takeback.errors import RefusedError

if TYPE_CHECKING:
    from takeback.commands.judgement import Judgement


class Foresight:
    """Judges commands against this workspace. The parser is loaded with the first one."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        home: str | os.PathLike[str],
        here: Callable[[], str] = os.getcwd,
    ) -> None:
        """`here` is asked for each command: the folder from which it is meant."""
        self._root = os.path.realpath(root)
        self._home = os.fspath(home)
        self._here = here

    def judge(self, command: str | Sequence[str]) -> Judgement:
        """A line as a shell would read it; or a program with its arguments. It is meant from where we are."""
        from takeback.commands.judge import classify

        return classify(command, root=self._root, cwd=self._here(), home=self._home, real=real_path)

    def __call__(self, command: str | Sequence[str]) -> str:
        """Why a command cannot be taken back, in words; empty where it is not known to be one of these."""
        return why_irreversible(self.judge(command))


def why_irreversible(judged: Judgement) -> str:
    reason = judged.main
    if reason is None or reason.reach != e.Effect.IRREVERSIBLE.value:
        return ""
    return f"{redact(reason.command)} {reason.why}" if reason.command else reason.why


def leaves_something(action: Action) -> bool:
    """Whether a command did more than what can be taken back. A call says so itself, as an item of the report."""
    began = action.began
    return isinstance(began, e.ActionBegan) and began.effect is e.Effect.IRREVERSIBLE and not began.call_key


def refuse_on_autopilot(ledger: Ledger, name: str, actor: str, parent: str, why: str) -> None:
    """Record that a command was not begun, and say so. On autopilot nobody can be asked."""
    parent = parent if parent in ledger.refresh().actions else ""
    refused = e.ActionRefused(name, e.Effect.IRREVERSIBLE, why, "autopilot")
    (began,) = ledger.append([e.RunBegan(name, actor=actor, parent=parent, autopilot=True)])
    ledger.append([refused, e.RunEnded(e.Outcome.STOPPED, "its command was refused")], began.id)
    raise RefusedError(
        f"{name} was refused: {why}, and that cannot be taken back. It was not started",
        hint="the rule is autopilot: run it without --autopilot",
    )
