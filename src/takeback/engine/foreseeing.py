"""What a command would do, judged before it begins, here in this workspace."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from takeback.core import events as e
from takeback.core.policy import fits
from takeback.core.redact import redact
from takeback.core.rules import Local, Rules
from takeback.core.subjects import Action
from takeback.engine.ground import real_path, script_text
from takeback.engine.ledger import Ledger
from takeback.errors import RefusedError
from takeback.ports import Reached, Survey, Surveyor

if TYPE_CHECKING:
    from takeback.commands.judgement import Judgement, Reason
    from takeback.commands.sink import Running


PATTERN_CHARS_MAX = 80
REMEMBERED_S = 0.1
"""The same command is asked about three times before it begins: for its effect, its paths and the rules on it."""


class Foresight:
    """Judges commands against this workspace. The parser is loaded with the first one."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        home: str | os.PathLike[str] | Callable[[], Path],
        surveyor: Surveyor | None = None,
        here: Callable[[], str] = os.getcwd,
        *,
        rules: Callable[[], Rules] = Rules,
        running: Callable[[], Sequence[Running]] | None = None,
    ) -> None:
        """`here`, the folder from which a command is meant, is asked for each one; so is `home`, if it can be.

        `running` are the processes of this machine: without it no signal is taken for one to the session's own.
        """
        self._root = os.path.realpath(root)
        self._home = home
        self._surveyor = surveyor
        self._here = here
        self._rules = rules
        self._running = running
        self._last: tuple[object, Judgement | None, float] = (None, None, 0.0)

    def judge(self, command: str | Sequence[str]) -> Judgement:
        """A line as a shell would read it; or a program with its arguments. It is meant from where we are."""
        from takeback.commands.judge import classify

        here, home = self._here(), self._home_folder()
        asked = (command if isinstance(command, str) else tuple(command), here, home)
        if asked != self._last[0] or time.monotonic() > self._last[2]:
            judged = classify(
                command,
                root=self._root,
                cwd=here,
                home=home,
                real=real_path,
                read=script_text,
                exists=os.path.exists,
                running=self._running,
            )
            if self._rules().effects.local is Local.IRREVERSIBLE:
                judged = with_local_irreversible(judged)
            self._last = (asked, judged, time.monotonic() + REMEMBERED_S)
        assert self._last[1] is not None
        return self._last[1]

    def _home_folder(self) -> str:
        return os.fspath(self._home() if callable(self._home) else self._home)

    def __call__(self, command: str | Sequence[str]) -> str:
        """Why a command cannot be taken back, in words; empty where it is not known to be one of these."""
        judged = self.judge(command)
        return why_irreversible(judged) or why_uncaptured(self.survey(reached(judged)))

    def permits(self, command: str | Sequence[str], patterns: Sequence[str]) -> bool:
        """Whether all of a command that cannot be taken back is named by these patterns, each part by itself."""
        return all(
            any(fits(pattern, reason.command, begins=True) for pattern in patterns)
            for reason in self._irreversible(command)
        )

    def pattern(self, command: str | Sequence[str]) -> str:
        """A pattern that would permit the first of it; empty where nothing of it can be named."""
        for reason in self._irreversible(command):
            plain = " ".join(re.sub(r"[\"'\\]", "", reason.command).split())
            if plain and "*" not in plain:
                # What may be a secret, or is long, is better named by its rule.
                is_plain = redact(reason.command) == reason.command and len(plain) <= PATTERN_CHARS_MAX
                return plain if is_plain or reason.rule.startswith("(") else reason.rule
        return ""

    def _irreversible(self, command: str | Sequence[str]) -> list[Reason]:
        judged = self.judge(command)
        missed = bool(self.survey(reached(judged)).missed)
        kinds = ("irreversible", "outside") if missed else ("irreversible",)
        return [reason for reason in judged.reasons if reason.reach.value in kinds]

    def survey(self, named: Iterable[Reached], known: Sequence[str] = ()) -> Survey:
        """What of these paths is captured before an action begins. `known` are places that are looked at anyway."""
        every = tuple(named)
        return self._surveyor(every, known) if every and self._surveyor else Survey()

    def survey_of(
        self,
        commands: Iterable[str | Sequence[str]],
        paths: Iterable[str],
        sure: Iterable[str] = (),
        known: Sequence[str] = (),
    ) -> Survey:
        """The same for an action that is given commands, paths that it may write, and paths that it surely writes."""
        named = [place for command in commands for place in reached(self.judge(command))]
        every = [*named, *self._named(sure, perhaps=False), *self._named(paths, perhaps=True)]
        return self.survey(every, known)

    def touches(
        self, commands: Iterable[str | Sequence[str]], paths: Iterable[str], sure: Iterable[str] = ()
    ) -> list[Reached]:
        """Every path that such an action says it writes, inside the workspace and outside of it."""
        found = [place for command in commands for place in written(self.judge(command))]
        return found + self._named((*sure, *paths), perhaps=True)

    def _named(self, paths: Iterable[str], *, perhaps: bool) -> list[Reached]:
        """Paths that a tool is told, read as those of a command are: writing to /dev/null does nothing."""
        from takeback.commands.paths import Ground, place
        from takeback.commands.words import as_given

        ground, here = Ground(self._root, self._home_folder(), real_path), self._here()
        found = [place(ground, as_given(path), here) for path in paths if path]
        return [Reached(at.path, at.really, perhaps=perhaps) for at in found if at is not None]


def with_local_irreversible(judged: Judgement) -> Judgement:
    """The same where also what stays with this session counts as irreversible."""
    from takeback.commands.judgement import Reach, worst

    reasons = tuple(
        msgspec.structs.replace(reason, reach=Reach.IRREVERSIBLE) if reason.local else reason
        for reason in judged.reasons
    )
    return msgspec.structs.replace(judged, reach=worst(one.reach for one in reasons), reasons=reasons)


def reached(judged: Judgement) -> list[Reached]:
    """The paths outside the workspace that a command says it writes."""
    return written(judged, "outside")


def written(judged: Judgement, reach: str = "") -> list[Reached]:
    """The paths that a command says it writes; all, or those so far away."""
    return [
        Reached(t.path, t.really, somewhere=not t.exact, names=t.names, deletes=t.deletes, makes=t.makes)
        for t in judged.touched
        if reach in ("", t.reach)
    ]


def why_uncaptured(survey: Survey) -> str:
    """Why an action cannot be taken back as a whole, by what it does outside the workspace."""
    if not survey.missed:
        return ""
    more = f", and {len(survey.missed) - 1} more" if len(survey.missed) > 1 else ""
    return f"it writes outside the workspace, and {survey.missed[0]}{more}"


def why_irreversible(judged: Judgement) -> str:
    reason = judged.main
    if reason is None or reason.reach != e.Effect.IRREVERSIBLE.value:
        return why_limited(judged)
    where = f" (rule {reason.rule}, {reason.where})" if reason.where else ""
    return (f"{redact(reason.command)} {reason.why}" if reason.command else reason.why) + where


def why_limited(judged: Judgement) -> str:
    """Why a command was not read to its end, if it was not: then it is held like one that cannot be taken back."""
    if judged.limit is None:
        return ""
    where = f" ({judged.limit.where})" if judged.limit.where else ""
    return f"{judged.limit.why}{where}, so nobody can tell what it does"


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
