"""Judging what a command would do in this workspace, before it begins."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from takeback.core import events as e
from takeback.core.policy import FORESEEN, Decision, Foreseen, Use, fits, worsened
from takeback.core.redact import redact
from takeback.core.rules import Local, Rules
from takeback.engine.ledger import Ledger
from takeback.errors import RefusedByRule, RefusedError
from takeback.ports.foresight import Reached, Survey, Surveyor

if TYPE_CHECKING:
    from takeback.shell.judgement import Judgement, Reason
    from takeback.shell.sink import RunningProcess


PATTERN_CHARS_MAX = 80
SCRIPT_MAX = 100_000
"""Bytes of a script that are read before it runs. A longer script needs approval."""

Command = str | Sequence[str]
"""A line of shell, or a program with its arguments."""


class ForeseenAction(msgspec.Struct, frozen=True):
    """What an action would do, computed once before it begins."""

    effect: e.Effect = e.Effect.NONE
    """Its own effect, or a worse one because of a command among its arguments or an uncaptured path."""
    commands: tuple[tuple[Command, Foreseen], ...] = ()
    """The commands among its arguments, each with what is known about it."""
    touched: tuple[Reached, ...] = ()
    """Every path that it says it writes, inside the workspace and outside."""
    survey: Survey = Survey()
    """Which of its paths outside the workspace are captured."""

    @property
    def uncaptured(self) -> str:
        """The reason, if the paths that it names keep it from being taken back as a whole."""
        return why_uncaptured(self.survey)

    def of_command(self, command: Command) -> Foreseen:
        """Return what is known about one of its commands."""
        return next(found for given, found in self.commands if given == command)


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
        """Judge commands for the workspace at `root`.

        `here` returns the folder in which a command would run, and is called for each one; `home` too, if callable.
        `running` returns the processes of this machine: without it every signal counts as one to a foreign process.
        """
        self._root = os.path.realpath(root)
        self._home = home
        self._surveyor = surveyor
        self._here = here
        self._rules = rules
        self._running = running

    def judge(self, command: Command) -> Judgement:
        """Judge a line as a shell would read it, or a program with its arguments, run in the current folder."""
        from takeback.shell.classify import classify

        judged = classify(
            command,
            root=self._root,
            cwd=self._here(),
            home=self._home_folder(),
            real=real_path,
            read=script_text,
            exists=os.path.exists,
            running=self._running,
        )
        judged = with_what_is_there(judged)
        is_strict = self._rules().effects.local is Local.IRREVERSIBLE
        return with_local_irreversible(judged) if is_strict else judged

    def _home_folder(self) -> str:
        return os.fspath(self._home() if callable(self._home) else self._home)

    def __call__(self, command: Command) -> Foreseen:
        """Return the effect of a command, with the reason where it is irreversible or unknown."""
        judged = self.judge(command)
        return foreseen(judged, self.survey(reached(judged)))

    def action(
        self,
        effect: e.Effect,
        commands: Iterable[Command],
        paths: Iterable[str] = (),
        sure: Iterable[str] = (),
        known: Sequence[str] = (),
    ) -> ForeseenAction:
        """Find out what an action with these commands would do.

        It may write `paths` and certainly writes `sure`. `known` are places that are looked at anyway.
        """
        judged = [(command, self.judge(command)) for command in commands]
        if effect not in FORESEEN:
            # It declares how it is taken back. What it writes still matters, because others may have locked it.
            return ForeseenAction(effect, touched=_touched(judged, self._named(paths, sure)))
        surveys = [self.survey(reached(one), known) for _, one in judged]
        each = tuple(
            (command, foreseen(one, survey)) for (command, one), survey in zip(judged, surveys, strict=True)
        )
        effect = worsened(Use("", effect), (found for _, found in each)).effect
        if effect is e.Effect.NONE:
            return ForeseenAction(effect, each)
        named = self._named(paths, sure)
        if len(surveys) == 1 and not named:
            survey = surveys[0]
        else:
            survey = self.survey([*(place for _, one in judged for place in reached(one)), *named], known)
        effect = e.Effect.IRREVERSIBLE if survey.missed else effect
        return ForeseenAction(effect, each, _touched(judged, named), survey)

    def is_allowed(self, command: Command, found: Foreseen) -> bool:
        """Return whether a rule allows this command by its words, and no `ask` or `deny` rule matches it."""
        rules = self._rules().commands
        line = command if isinstance(command, str) else " ".join(command)
        if not rules.allow or any(fits(pattern, line) for pattern in (*rules.ask, *rules.deny)):
            return False
        return bool(found.irreversible) and found.is_permitted(rules.allow)

    def survey(self, named: Iterable[Reached], known: Sequence[str] = ()) -> Survey:
        """Return which of these paths are captured before an action begins. `known` are looked at anyway."""
        every = tuple(named)
        return self._surveyor(every, known) if every and self._surveyor else Survey()

    def _named(self, paths: Iterable[str], sure: Iterable[str]) -> list[Reached]:
        """Read a tool's paths in the same way as those of a command: writing to /dev/null does nothing."""
        given = [(path, perhaps) for some, perhaps in ((sure, False), (paths, True)) for path in some if path]
        if not given:
            return []
        from takeback.shell.paths import PathContext, place
        from takeback.shell.words import as_given

        ground, here = PathContext(self._root, self._home_folder(), real_path), self._here()
        found = [(place(ground, as_given(path), here), perhaps) for path, perhaps in given]
        return [Reached(at.path, at.really, perhaps=perhaps) for at, perhaps in found if at is not None]


def _touched(judged: Sequence[tuple[Command, Judgement]], named: Sequence[Reached]) -> tuple[Reached, ...]:
    return (*(place for _, one in judged for place in written(one)), *named)


def with_what_is_there(judged: Judgement) -> Judgement:
    """Return the judgement, made unknown if a pipe, a socket or a file with several hard links is written.

    A hard link may be outside the workspace, and the reader of a pipe may do anything.
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
            why = f"writes {path}, a file with other hard links, which may be outside the workspace"
        else:
            continue
        reasons = (*judged.reasons, Reason(Reach.UNKNOWN, "", rule, why))
        return msgspec.structs.replace(judged, reach=worst(one.reach for one in reasons), reasons=reasons)
    return judged


def _kind_and_names(path: str) -> tuple[int, int]:
    """Return the mode and the number of hard links of a path; zeros if nothing is there."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return 0, 0
    return found.st_mode, found.st_nlink


def with_local_irreversible(judged: Judgement) -> Judgement:
    """Return the judgement with effects that stay with this session counted as irreversible."""
    from takeback.shell.judgement import Reach, worst

    reasons = tuple(
        msgspec.structs.replace(reason, reach=Reach.IRREVERSIBLE) if reason.local else reason
        for reason in judged.reasons
    )
    return msgspec.structs.replace(judged, reach=worst(one.reach for one in reasons), reasons=reasons)


def reached(judged: Judgement) -> list[Reached]:
    """Return the paths outside the workspace that a command says it writes."""
    return written(judged, "outside")


def written(judged: Judgement, reach: str = "") -> list[Reached]:
    """Return the paths that a command says it writes: all, or those with this reach."""
    return [
        Reached(t.path, t.really, somewhere=not t.exact, names=t.names, deletes=t.deletes, makes=t.makes)
        for t in judged.touched
        if reach in ("", t.reach)
    ]


def why_uncaptured(survey: Survey) -> str:
    """Return why an action that writes outside the workspace cannot be taken back as a whole; empty if it can."""
    if not survey.missed:
        return ""
    more = f", and {len(survey.missed) - 1} more" if len(survey.missed) > 1 else ""
    return f"it writes outside the workspace, and {survey.missed[0]}{more}"


def foreseen(judged: Judgement, survey: Survey) -> Foreseen:
    """Return the effect of a command, from its words and from what would not be captured."""
    reasons = _irreversible(judged, survey)
    # A command that was not read to its end may do anything, so no pattern permits it.
    words = None if judged.limit is not None else tuple(reason.command for reason in reasons)
    pattern = _pattern(reasons)
    if why := why_irreversible(judged) or why_uncaptured(survey):
        return Foreseen(e.Effect.IRREVERSIBLE, why, words, pattern)
    if why := _why(judged, e.Effect.UNKNOWN):
        return Foreseen(e.Effect.UNKNOWN, why, words, pattern)
    return Foreseen(irreversible=words, pattern=pattern)


def _irreversible(judged: Judgement, survey: Survey) -> list[Reason]:
    kinds = ("irreversible", "outside") if survey.missed else ("irreversible",)
    return [reason for reason in judged.reasons if reason.reach.value in kinds]


def _pattern(reasons: Iterable[Reason]) -> str:
    """Return a pattern that would permit the first of these; empty if there is none."""
    for reason in reasons:
        plain = " ".join(re.sub(r"[\"'\\]", "", reason.command).split())
        if plain and "*" not in plain:
            # A command that is long or may contain a secret is better named by its rule.
            is_plain = redact(reason.command) == reason.command and len(plain) <= PATTERN_CHARS_MAX
            return plain if is_plain or reason.rule.startswith("(") else reason.rule
    return ""


def why_irreversible(judged: Judgement) -> str:
    """Return why a command needs approval: it cannot be taken back, or could not be read to its end."""
    return _why(judged, e.Effect.IRREVERSIBLE) or why_limited(judged)


def why_limited(judged: Judgement) -> str:
    """Return why a command was not read to its end; empty if it was."""
    if judged.limit is None:
        return ""
    where = f" ({judged.limit.where})" if judged.limit.where else ""
    return f"{judged.limit.why}{where}, so it is unknown what it does"


def _why(judged: Judgement, effect: e.Effect) -> str:
    """Return why a command has this effect, if this is its worst one."""
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
    """Refuse a command that cannot be taken back, and record that. On autopilot there is no human to ask."""
    if typed.found.effect is e.Effect.IRREVERSIBLE:
        _note_refused(ledger, typed, typed.found.why, "autopilot")
        raise RefusedError(
            f"{typed.name} was refused: {typed.found.why}, and that cannot be taken back. It was not started",
            hint="the rule is autopilot",
            how="run it without --autopilot",
        )


def refuse_by_rule(ledger: Ledger, typed: Typed, ruling: Decision, because: str = "") -> NoReturn:
    """Refuse a command because of a rule, and record that. `because` says why no human was asked."""
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


def script_text(path: str) -> str | None:
    """Return the text of a script, or the beginning of a long one; None if it is not text in a regular file."""
    try:
        # O_NONBLOCK: opening a pipe would block.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        content = os.pread(opened, SCRIPT_MAX + 4, 0)
    finally:
        os.close(opened)
    text = content.decode("utf-8", "surrogateescape")
    return None if "\0" in text else text


def real_path(path: str) -> str:
    """Return a path with all links resolved."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        # No file can have such a name; the path is judged as written.
        return path
