"""What a command would do, judged before it begins, here in this workspace."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from takeback.core import events as e
from takeback.core.policy import Decision, Foreseen, fits
from takeback.core.redact import redact
from takeback.core.rules import Local, Rules
from takeback.engine.gate.rules import real_path, script_text
from takeback.engine.ledger import Ledger
from takeback.errors import RefusedByRule, RefusedError
from takeback.ports.foresight import Reached, Survey, Surveyor

if TYPE_CHECKING:
    from takeback.shell.judgement import Judgement, Reason
    from takeback.shell.sink import RunningProcess


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
        running: Callable[[], Sequence[RunningProcess]] | None = None,
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
        from takeback.shell.classify import classify

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
            judged = with_what_is_there(judged)
            if self._rules().effects.local is Local.IRREVERSIBLE:
                judged = with_local_irreversible(judged)
            self._last = (asked, judged, time.monotonic() + REMEMBERED_S)
        assert self._last[1] is not None
        return self._last[1]

    def _home_folder(self) -> str:
        return os.fspath(self._home() if callable(self._home) else self._home)

    def __call__(self, command: str | Sequence[str]) -> Foreseen:
        """The effect of a command, with the reason where it is irreversible or unknown."""
        judged = self.judge(command)
        return foreseen(judged, self.survey(reached(judged)))

    def is_allowed(self, command: str | Sequence[str]) -> bool:
        """Whether a human has allowed it by its words, and nothing else that they wrote names it."""
        rules = self._rules().commands
        line = command if isinstance(command, str) else " ".join(command)
        if not rules.allow or any(fits(pattern, line) for pattern in (*rules.ask, *rules.deny)):
            return False
        return bool(self._irreversible(command)) and self.permits(command, rules.allow)

    def permits(self, command: str | Sequence[str], patterns: Sequence[str]) -> bool:
        """Whether all of a command that cannot be taken back is named by these patterns, each part by itself.

        What was not read to its end may do anything, so no pattern names it.
        """
        return self.judge(command).limit is None and all(
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
        from takeback.shell.paths import PathContext, place
        from takeback.shell.words import as_given

        ground, here = PathContext(self._root, self._home_folder(), real_path), self._here()
        found = [place(ground, as_given(path), here) for path in paths if path]
        return [Reached(at.path, at.really, perhaps=perhaps) for at in found if at is not None]


def with_what_is_there(judged: Judgement) -> Judgement:
    """The same where something is written that is more than a file with one name.

    A file of the workspace with other names may lie where nobody looks; whoever reads a pipe does what it is told.
    """
    from takeback.shell.judgement import Reach, Reason, worst

    for touched in judged.touched:
        if touched.names is not None or touched.deletes:
            continue
        path = touched.really or touched.path
        kind, links = _kind_and_names(path)
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
            rule, why = "(pipe)", f"writes to {path}, a pipe, and what its reader does is not known"
        elif stat.S_ISREG(kind) and links > 1 and touched.reach is Reach.RESTORABLE:
            rule = "(hard link)"
            why = f"writes {path}, a file with other names, which may lie outside the workspace"
        else:
            continue
        reasons = (*judged.reasons, Reason(Reach.UNKNOWN, "", rule, why))
        return msgspec.structs.replace(judged, reach=worst(one.reach for one in reasons), reasons=reasons)
    return judged


def _kind_and_names(path: str) -> tuple[int, int]:
    """What a path is, and how many names it has; zeros where there is nothing."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return 0, 0
    return found.st_mode, found.st_nlink


def with_local_irreversible(judged: Judgement) -> Judgement:
    """The same where also what stays with this session counts as irreversible."""
    from takeback.shell.judgement import Reach, worst

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


def foreseen(judged: Judgement, survey: Survey) -> Foreseen:
    """The effect of a command: what it says, and what of that is not captured."""
    if why := why_irreversible(judged) or why_uncaptured(survey):
        return Foreseen(e.Effect.IRREVERSIBLE, why)
    if why := _why(judged, e.Effect.UNKNOWN):
        return Foreseen(e.Effect.UNKNOWN, why)
    return Foreseen()


def why_irreversible(judged: Judgement) -> str:
    """Why a command is held: it cannot be taken back, or it was not read to its end and may be such a one."""
    return _why(judged, e.Effect.IRREVERSIBLE) or why_limited(judged)


def why_limited(judged: Judgement) -> str:
    """Why a command was not read to its end, if it was not."""
    if judged.limit is None:
        return ""
    where = f" ({judged.limit.where})" if judged.limit.where else ""
    return f"{judged.limit.why}{where}, so it is unknown what it does"


def _why(judged: Judgement, effect: e.Effect) -> str:
    """Why a command is judged to have this effect, if it is the worst of it."""
    reason = judged.main
    if reason is None or reason.reach != effect.value:
        return ""
    where = f" (rule {reason.rule}, {reason.where})" if reason.where else ""
    return (f"{redact(reason.command)} {reason.why}" if reason.command else reason.why) + where


class Typed(msgspec.Struct, frozen=True):
    """A command that is about to be started by `takeback run`."""

    name: str
    actor: str
    parent: str
    found: Foreseen
    autopilot: bool = False


def refuse_on_autopilot(ledger: Ledger, typed: Typed) -> None:
    """Refuse a command that cannot be taken back, with a record of it. On autopilot nobody can be asked."""
    if typed.found.effect is e.Effect.IRREVERSIBLE:
        _note_refused(ledger, typed, typed.found.why, "autopilot")
        raise RefusedError(
            f"{typed.name} was refused: {typed.found.why}, and that cannot be taken back. It was not started",
            hint="the rule is autopilot",
            how="run it without --autopilot",
        )


def refuse_by_rule(ledger: Ledger, typed: Typed, ruling: Decision, because: str = "") -> NoReturn:
    """Refuse a command because a rule says so, with a record of it; `because` says why nobody was asked."""
    why = ", ".join(filter(None, (ruling.why, because)))
    _note_refused(ledger, typed, why, ruling.rule)
    refused = RefusedError if typed.autopilot else RefusedByRule
    raise refused(
        f"{typed.name} was refused: {why}. It was not started",
        hint=f"the rule is {ruling.rule}",
        how=ruling.how,
    )


def _note_refused(ledger: Ledger, typed: Typed, why: str, rule: str) -> None:
    parent = typed.parent if typed.parent in ledger.refresh().actions else ""
    refused = e.ActionRefused(typed.name, typed.found.effect, why, rule)
    began = e.RunBegan(typed.name, actor=typed.actor, parent=parent, autopilot=typed.autopilot)
    (record,) = ledger.append([began])
    ledger.append([refused, e.RunEnded(e.Outcome.STOPPED, "its command was refused")], record.id)
