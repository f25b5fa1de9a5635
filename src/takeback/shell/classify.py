"""Judging a line: every simple command in it, in each folder in which it may run. The worst one counts."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Sequence

import msgspec

from takeback.shell import git_settings, parse, programs, repositories
from takeback.shell.constants import ALL, Constants, Way, resolved, several
from takeback.shell.evaluation import Evaluated, Evaluation
from takeback.shell.judgement import Judgement, Reach, Reason, Touched, worst
from takeback.shell.languages import program_text
from takeback.shell.languages.script_files import Scripts, SourcePosition, printed
from takeback.shell.links import links_made, physical, through
from takeback.shell.parse import Block, Doubt, Part, Simple
from takeback.shell.paths import PathContext, below, normal, place, shown
from takeback.shell.rules import changes_behaviour
from takeback.shell.sink import Folders, RunningProcess, Sink
from takeback.shell.words import HERE, HOLE, HOME, WILD, as_given, is_known

NESTED_MAX = 8
FOLDERS_MAX = 8
WORDS_MAX = 20_000
"""The most words of a line that are judged, counting repeats: this many take about a second."""
SETTINGS_COST = 10
"""The number of words that reading the settings of one repository counts for."""
SHOWN_MAX = 1000
"""Characters of a command that a reason quotes."""

_WHERE = {
    Reach.RESTORABLE: "in the workspace",
    Reach.OUTSIDE: "outside the workspace",
    Reach.UNKNOWN: "at an unknown place",
    Reach.IRREVERSIBLE: "which is not a file",
}


def classify(
    line: str | Sequence[str],
    *,
    root: str,
    cwd: str,
    home: str,
    real: Callable[[str], str] | None = None,
    read: Callable[[str], str | None] | None = None,
    exists: Callable[[str], bool] | None = None,
    running: Callable[[], Sequence[RunningProcess]] | None = None,
) -> Judgement:
    """Judge what a line would do, or a program with its arguments, which no shell reads.

    Nothing is run and, without `real`, `read`, `exists` and `running`, nothing is looked at.
    """
    walk = _Walk(PathContext(normal(root), normal(home), real, read, exists, running))
    if isinstance(line, str):
        walk.part(parse.read(line), (normal(cwd),))
    else:
        walk.simple(Simple(tuple(map(as_given, line))), (normal(cwd),), None)
    return walk.judgement()


def _steers_git(ground: PathContext, touched: Touched) -> bool:
    """Return whether writing there changes what git runs."""
    return any(repositories.steers_git(ground, at) for at in {touched.path, touched.really or touched.path})


class _After(msgspec.Struct, frozen=True):
    """The folders after a part of a line: if that part succeeded, and in any case."""

    well: Folders
    any: Folders


class _Walk(Sink):
    def __init__(self, ground: PathContext, *, nested: int = 0) -> None:
        self._ground = ground
        self._nested = nested
        self._functions: set[str] = set()
        self._reasons: dict[Reason, None] = {}
        self._typed: tuple[Sequence[str], str] = (), ""
        self._given: Sequence[str] = ()
        self._left = WORDS_MAX
        self._touched: dict[Touched, None] = {}
        self._background = False
        self._evaluation = Evaluation()
        self._links: dict[str, str] = {}
        """The links that the line makes, with their targets."""
        self._constants = Constants()
        self._scripts = Scripts(ground)
        self._place = SourcePosition()
        self._in_repository = False
        """True while judging what a repository makes git run: its settings are not read again for a git in it."""

    def judgement(self) -> Judgement:
        reasons = tuple(self._reasons)
        if changed := self._scripts.changed(self._touched):
            why = f"runs {changed}, which it also writes"
            reasons += (Reason(Reach.UNKNOWN, "", "(script)", why),)
        if self._evaluation.runs_something():
            why = "it evaluates a text, and that may run something"
            reasons += (Reason(Reach.UNKNOWN, "", "(shell)", why),)
        reach = worst(reason.reach for reason in reasons)
        return Judgement(reach, reasons, tuple(self._touched), self._background)

    # The parts of a line

    def part(self, part: Part, folders: Folders, feeder: Part | None = None) -> _After:
        match part:
            case Simple():
                return self.simple(part, folders, feeder)
            case Doubt(why, limit):
                self._doubt((), why, limit=limit)
                return _After(folders, folders)
            case Evaluated():
                self._evaluation.add(part)
                self._sets(part.hidden)
                return _After(folders, folders)
            case Block(kind=parse.AND) | Block(kind=parse.OR):
                return self._joined(part, folders)
            case Block(kind=parse.PIPE):
                for before, one in zip((None, *part.parts), part.parts, strict=False):
                    self._in_another_shell([one], folders, before)
                # Some shells run the last one themselves.
                self._constants.forget(self._constants.changed_in(part))
                return _After(folders, folders)
            case Block(kind=parse.APART):
                self._in_another_shell(part.parts, folders)
                return _After(folders, folders)
            case Block(kind=parse.BACKGROUND):
                self._background = True
                self._in_another_shell(part.parts, folders)
                return _After(folders, folders)
            case Block(kind=parse.REPEATED):
                return self._repeated(part, folders)
            case Block(kind=parse.BRANCHES):
                return self._branches(part, folders)
            case Block(kind=parse.FUNCTION):
                return self._function(part, folders)
            case _:
                return self._in_order(part.parts, folders, feeder)

    def _in_order(self, parts: Iterable[Part], folders: Folders, feeder: Part | None = None) -> _After:
        after = _After(folders, folders)
        for part in parts:
            after = self.part(part, after.any, feeder)
        return after

    def _in_another_shell(self, parts: Iterable[Part], folders: Folders, feeder: Part | None = None) -> None:
        """Judge parts that run in a subshell, whose folder and variables end with it."""
        before = self._constants.now()
        self._in_order(parts, folders, feeder)
        self._constants.back_to(before)

    def _joined(self, block: Block, folders: Folders) -> _After:
        """Judge `a && b`, where b runs only if a succeeded, and `a || b`, where it runs only if a failed."""
        after, passed = _After(folders, folders), [self._constants.now()]
        for part in block.parts:
            then = self.part(part, after.well if block.kind == parse.AND else after.any)
            well = then.well if block.kind == parse.AND else _both(after.well, then.well)
            after = _After(well, _both(after.any, then.any))
            passed.append(self._constants.now())
        self._constants.join(passed)
        return after

    def _branches(self, block: Block, folders: Folders) -> _After:
        after = _After(folders, folders)
        for part in block.parts:
            before = self._constants.now()
            after = self.part(part, after.any)
            self._constants.join([before])
        return after

    def _repeated(self, block: Block, folders: Folders) -> _After:
        if _moves(block):
            folders = (None,)
        changed = self._constants.changed_in(block)
        over = [text for word in block.words for text in self._over(word, folders)]
        self._constants.forget(changed)
        if block.name and not any(block.name in self._constants.changed_in(part) for part in block.parts):
            self._constants.set(block.name, over)
        after = self._in_order(block.parts, folders).any
        self._constants.forget(changed)
        return _After(folders, after)

    def _function(self, block: Block, folders: Folders) -> _After:
        """Judge the body of a function as if it ran, wherever it may be called."""
        self._functions.add(block.name)
        changed = {name for part in block.parts for name in self._constants.changed_in(part)}
        self._constants.forget(changed, for_good=True)
        before = self._constants.now()
        self._constants.forget([ALL])
        self._in_order(block.parts, (None,))
        self._constants.back_to(before)
        after: Folders = (None,) if _moves(block) else folders
        return _After(after, after)

    def simple(self, simple: Simple, folders: Folders, feeder: Part | None) -> _After:
        """Judge one command for each combination of values that its variables may have."""
        self._in_order(simple.inside, folders)
        ways = self._constants.ways(_texts_of(simple))
        if ways == [{}]:
            after = self._one_way(simple, folders, feeder)
        else:
            each = [self._one_way(_put_in(simple, way), folders, feeder) for way in ways]
            after = _After(
                _every(folder for one in each for folder in one.well),
                _every(folder for one in each for folder in one.any),
            )
        for name, value in simple.values:
            if value is None:
                self._constants.forget([name], for_good=name == ALL)
            else:
                self._constants.set(name, self._texts(value, folders))
        return after

    def _texts(self, text: str, folders: Folders) -> list[str]:
        """Return every value that a text may have with its variables replaced, where a shell does not split it."""
        found = [resolved(text, way, splits=False) for way in self._constants.ways([text])]
        return [one.replace(HERE, HOLE if at is None else at) for one in found for at in folders]

    def _over(self, word: str, folders: Folders) -> list[str]:
        """Return every value of a word that a loop iterates over, which a shell splits."""
        ways = self._constants.ways([word])
        return [text for way in ways for text in self._texts(resolved(word, way), folders)]

    def _one_way(self, simple: Simple, folders: Folders, feeder: Part | None) -> _After:
        if self._nested == self._place.nested:
            self.at(simple.line)
        # IFS before `read` says how lines are read.
        self._sets(name for name in simple.assigned if name != "IFS" or simple.words[:1] != ("read",))
        for redirect in simple.redirects:
            if redirect.writes:
                self.touch(redirect.path, folders, ("redirection", ">", redirect.path), "(redirection)")
            elif redirect.path.startswith(("/dev/tcp/", "/dev/udp/")):
                self.say(Reach.IRREVERSIBLE, (redirect.path,), "(redirection)", "opens a connection")
        self._constants.after(simple, simple.words)
        self._scripts.written(simple, read := _stdin(simple, feeder), folders)
        if not simple.words or simple.words[0] in self._functions:
            return _After(folders, folders)
        if (moved := self._moved(simple.words, folders)) is not None:
            return _After(moved, _both(folders, moved))
        if (
            read is None
            and (file := _file_read(simple, feeder))
            and any(map(programs.runs_input, simple.words))
        ):
            self._with_input(simple.words, folders, file)
        else:
            self._program(simple.words, folders, read)
        return _After(folders, folders)

    def _with_input(self, words: Sequence[str], folders: Folders, file: str) -> None:
        """Judge `bash < script` and `cat script | bash`, which read a file of the workspace."""
        found = self.text_of(file, folders)
        if found is None or not self._scripts.begin(*found, folders):
            self._program(words, folders, None)
            return
        outer, self._place = self._place, SourcePosition(self._scripts.name(found[0]), 0, self._nested + 1)
        self._program(words, folders, found[1])
        self._place = outer

    def _sets(self, names: Iterable[str]) -> None:
        """Judge the setting of variables."""
        for name in names:
            if not is_known(name):
                self.say(Reach.UNKNOWN, (), "(variable)", "which variable it sets is not known")
            elif changes_behaviour(name):
                why = f"{name} may change what the following commands run"
                self.say(Reach.UNKNOWN, (f"{name}=…",), "(variable)", why)

    def _program(self, words: Sequence[str], folders: Folders, stdin: str | None) -> None:
        if not self._goes_on_reading(1 + len(words)):
            return
        self._evaluation.given_words(word for word in words if re.match(r"[A-Za-z_]\w*=", word))
        if words:
            self._scripts.copied(words, folders)
        programs.judge(self, tuple(words), folders, stdin)
        for folder in folders:
            self._links |= links_made(self._ground, words, folder, self._links)

    # What the programs of the line are found to do

    def say(
        self,
        reach: Reach,
        words: Sequence[str],
        rule: str,
        why: str,
        back: str = "",
        *,
        limit: bool = False,
        local: bool = False,
    ) -> None:
        if reach is not Reach.NONE:
            if words is not self._typed[0]:
                # One command may be the reason for as many paths as it has words.
                self._typed = words, _as_typed(words)
            found = Reason(reach, self._typed[1], rule, why, back, self._place.shown(), limit, local)
            self._reasons[found] = None

    def running(self) -> Sequence[RunningProcess]:
        return self._ground.running() if self._ground.running else ()

    def folder_with(self, names: Sequence[str], folders: Folders) -> str:
        folder = folders[0] if len(folders) == 1 else None
        while self._ground.exists and folder and below(folder, self._ground.root):
            if any(self._ground.exists(f"{folder}/{name}") for name in names):
                return folder
            folder = folder.rpartition("/")[0]
        return ""

    def touch(
        self,
        word: str,
        folders: Folders,
        words: Sequence[str],
        rule: str,
        *,
        deletes: bool = False,
        somewhere: bool = False,
        makes: bool = False,
    ) -> None:
        """Record that a path is written or deleted."""
        if not self._goes_on_reading(1 + len(self._links) // 8):
            return
        for folder in folders:
            found = place(self._ground, self._followed(word, folder), folder, deletes=deletes)
            if found is None:
                continue
            if somewhere or (makes and found.names is not None):
                found = msgspec.structs.replace(found, exact=False, makes=makes)
            if not deletes and not rule.startswith("git") and _steers_git(self._ground, found):
                self.say(Reach.UNKNOWN, words, rule, "it may change what git runs")
            for one in (found, *through(self._ground, found, self._links, into=word.endswith("/"))):
                self._touched[one] = None
                does = "deletes" if deletes else "writes"
                self.say(one.reach, words, rule, f"{does} {one.path}, {_WHERE[one.reach]}")

    def _moved(self, words: Sequence[str], folders: Folders) -> Folders | None:
        """Return the folders that `cd`, `pushd` or `popd` leads to; None for any other command."""
        if words[0] == "popd":
            return (None,)
        if words[0] not in ("cd", "pushd"):
            return None
        targets = [word for word in words[1:] if word == "-" or not word.startswith("-")]
        if not targets:
            return (self._ground.home,) if words[0] == "cd" else (None,)
        return self.moved(targets[0], folders)

    def _followed(self, word: str, folder: str | None) -> str:
        """Return the real path of a word with `..` behind a link that the line itself made."""
        if not self._links or folder is None or ".." not in word.split("/") or not is_known(word):
            return word
        return word if word.startswith("~") else physical(posixpath.join(folder, word), self._links)

    def moved(self, word: str, folders: Folders) -> Folders:
        """Return the folders that a word leads to: as written, and as the kernel resolves it."""
        followed = [_into(self._followed(word, folder), (folder,), self._ground) for folder in folders]
        return _every((*_into(word, folders, self._ground), *(one for some in followed for one in some)))

    def repository(self, folders: Folders, words: Sequence[str], rule: str) -> None:
        """Record a write to the repository of a folder outside the workspace."""
        exists, read, real = self._ground.exists, self._ground.read, self._ground.real
        for folder in (real(folder) if real else folder for folder in folders if folder is not None):
            if below(folder, self._ground.root):
                continue
            top = folder
            while top and not (exists and exists(f"{top}/.git")):
                top = top.rpartition("/")[0]
            self.touch(top or folder, (folder,), words, rule, somewhere=True)
            if top and read and read(f"{top}/.git") is not None:
                self.say(
                    Reach.UNKNOWN, words, rule, f"writes to the repository of {top}, which lies elsewhere"
                )

    def argv(self, words: Sequence[str], folders: Folders, stdin: str | None = None) -> None:
        """Judge a command that another one runs."""
        if self._too_deep(words):
            return
        self._nested += 1
        self._program(words, folders, stdin)
        self._nested -= 1

    def line(self, text: str, folders: Folders, words: Sequence[str]) -> None:
        """Judge a line that a shell inside the line runs."""
        if self._too_deep(words):
            return
        if words is not self._given:
            self._given = words
            self._evaluation.given_words(word for word in words[1:] if word != text)
        if HOLE in text:
            self.say(Reach.UNKNOWN, words, "(shell)", "a part of the line that it runs is not known")
        self._nested += 1
        outer, self._constants = self._constants, Constants()
        plain = text.replace(HOLE, "${_}").replace(WILD, "*").replace(HOME, "$HOME").replace(HERE, "$PWD")
        self._in_order(parse.read(plain).parts, folders)
        self._constants = outer
        self._nested -= 1

    def source(self, text: str, language: str, folders: Folders, words: Sequence[str]) -> None:
        """Judge a program given as text."""
        if language == program_text.SHELL:
            self.line(text, folders, words)
        elif not self._too_deep(words):
            self._nested += 1
            program_text.judge(self, text, language, folders, tuple(words))
            self._nested -= 1

    def script(self, word: str, folders: Folders, words: Sequence[str], language: str = "") -> bool:
        """Judge a script in each folder in which it may be. Return whether it was found and read in all of them."""
        every = [(folder, self._scripts.text_of(word, folder)) for folder in folders]
        found = [self._script(text, (folder,), words, language) for folder, text in every if text is not None]
        return bool(found) and all(found) and (None not in folders or word.startswith("/"))

    def _script(self, found: tuple[str, str], folders: Folders, words: Sequence[str], language: str) -> bool:
        path, text = found
        language = language or program_text.language_of(text, path)
        if not language:
            return False
        if language != program_text.SHELL:
            self.say(Reach.UNKNOWN, words, "(script)", f"runs {self._scripts.name(path)}")
        if not self._scripts.begin(path, text, folders):
            return True  # it is being read, or was
        if self._scripts.too_many():
            self._doubt(words, "it runs too many scripts to read them all", limit=True)
            return True
        outer, self._place = self._place, SourcePosition(self._scripts.name(path), 0, self._nested + 1)
        self.source(text, language, folders, words)
        self._place = outer
        return True

    def text_of(self, word: str, folders: Folders) -> tuple[str, str] | None:
        """Return the path and text of a file of the workspace, as it is or as the line writes it before."""
        return next(filter(None, (self._scripts.text_of(word, folder) for folder in folders)), None)

    def git(
        self,
        hooks: Sequence[str],
        folders: Folders,
        words: Sequence[str],
        named: Sequence[tuple[str, Folders]] = (),
    ) -> None:
        """Judge what repositories make a git command run: their hooks, and programs in their settings."""
        if self._in_repository:
            return
        there = _Walk(self._ground, nested=self._nested + 1)
        there._scripts, there._in_repository = self._scripts.apart(), True
        ground, read = self._ground, there._text_at
        tops = repositories.given(ground, read, named) or repositories.around(ground, read, folders)
        if None in folders and not named:
            there.say(Reach.UNKNOWN, words, "(git)", "in which repository it runs is not known")
        recurses = any("submodule" in word for word in words)
        for one in tops:
            recurses |= there._runs_of(one, hooks, words)
        inner = repositories.submodules(ground, read, tops)
        for number, one in enumerate(inner):
            if number == repositories.SUBMODULES_MAX or not self._goes_on_reading(SETTINGS_COST):
                there.say(Reach.UNKNOWN, words, "(git)", "it may go into more submodules than are read")
                break
            there._runs_of(one, (*hooks, "post-checkout") if recurses else (), words)
        for reason in there._reasons:
            if reason.reach in (Reach.IRREVERSIBLE, Reach.UNKNOWN):
                self._reasons[reason] = None

    def _runs_of(
        self, repository: repositories.Repository, hooks: Sequence[str], words: Sequence[str]
    ) -> bool:
        """Judge what one repository makes git run. Return whether its settings recurse into submodules."""
        files = (f"{repository.common}/config", f"{repository.own}/config.worktree")
        found, folders = git_settings.settings(self._text_at, files, repository.top, words), (repository.top,)
        for name in (*hooks, git_settings.OF_EVERY_INDEX):
            self.script(f"{found.hooks}/{name}", folders, words)
        for one in found.runs:
            known = list(self._reasons)
            self.part_of(self._scripts.name(one.file), one.line, one.command, folders, words)
            if one.is_yours:
                self._reasons = {
                    r: None for r in self._reasons if r in known or r.reach is Reach.IRREVERSIBLE
                }
            else:
                why = f"{one.name} in {self._scripts.name(one.file)} makes git run something"
                self.say(Reach.UNKNOWN, words, "(git)", why)
        return found.recurses

    def _text_at(self, path: str) -> str | None:
        found = self._scripts.text_of(path, None)
        return found and found[1]

    def part_of(self, name: str, line: int, text: str, folders: Folders, words: Sequence[str]) -> None:
        outer, self._place = self._place, SourcePosition(name, line, -1)
        self.line(text, folders, words)
        self._place = outer

    def at(self, line: int) -> None:
        if line and self._place.file:
            self._place = msgspec.structs.replace(self._place, line=line)

    def elsewhere(self, words: Sequence[str], rule: str, run: Callable[[Sink], None]) -> None:
        """Judge a command on another machine or in a container, where no write can be taken back."""
        there = _Walk(PathContext("/\0nowhere", "/\0home"), nested=self._nested + 1)
        run(there)
        if there.judgement().reach is not Reach.NONE:
            self.say(Reach.IRREVERSIBLE, words, rule, "runs it elsewhere, where nothing is captured")

    def goes_on(self) -> None:
        self._background = True

    def _too_deep(self, words: Sequence[str]) -> bool:
        if self._nested >= NESTED_MAX:
            self._doubt(words, "it is nested too deeply", limit=True)
            return True
        return False

    def _goes_on_reading(self, words: int) -> bool:
        self._left -= words
        if self._left < 0:
            self._doubt((), "it is too long to be read completely", limit=True)
        return self._left >= 0

    def _doubt(self, words: Sequence[str], why: str, *, limit: bool) -> None:
        rule = "(limit)" if limit else "(shell)"
        self.say(Reach.UNKNOWN, words, rule, why, limit=limit)


def _as_typed(words: Sequence[str]) -> str:
    """Return a command as text for people, cut if it is very long."""
    found, left = list[str](), SHOWN_MAX
    for word in words:
        if left < 0:
            found.append("…")
            break
        found.append(shlex.quote(shown(word if len(word) <= SHOWN_MAX else f"{word[:SHOWN_MAX]}…")))
        left -= len(found[-1])
    return " ".join(found)


# Variables


def _texts_of(simple: Simple) -> Iterable[str]:
    return (*simple.words, *(redirect.path for redirect in simple.redirects), simple.stdin or "")


def _put_in(simple: Simple, way: Way) -> Simple:
    return msgspec.structs.replace(
        simple,
        words=tuple(one for word in simple.words for one in several(word, way)),
        redirects=tuple(msgspec.structs.replace(r, path=resolved(r.path, way)) for r in simple.redirects),
        stdin=None if simple.stdin is None else resolved(simple.stdin, way, splits=False),
    )


# Folders


def _both(one: Folders, other: Folders) -> Folders:
    return _every((*one, *other))


def _every(folders: Iterable[str | None]) -> Folders:
    every = tuple(dict.fromkeys(folders))
    return every if len(every) <= FOLDERS_MAX else (None,)


def _into(word: str, folders: Folders, ground: PathContext) -> Folders:
    if word == "-" or WILD in word:
        return (None,)
    goes_up = ".." in word.split("/")
    found = list[str | None]()
    for at in (place(ground, word, folder) for folder in folders):
        is_clear = at is not None and at.reach is not Reach.UNKNOWN
        found.append(at.path if at is not None and is_clear else None)
        if at is not None and is_clear and goes_up and at.really:
            found.append(at.really)  # `cd -P`, and what changes the folder without a shell
    return tuple(dict.fromkeys(found))


def _moves(part: Part) -> bool:
    """Return whether a part may change the current folder."""
    if isinstance(part, Simple):
        return bool(part.words) and (part.words[0] in ("cd", "pushd", "popd") or not is_known(part.words[0]))
    return isinstance(part, Block) and any(map(_moves, part.parts))


# What a command reads


def _stdin(simple: Simple, feeder: Part | None) -> str | None:
    """Return the standard input of a command if it is in the line itself: a here-document, or `echo … |`."""
    if simple.stdin is not None or not isinstance(feeder, Simple) or not feeder.words:
        return simple.stdin
    return None if feeder.redirects else printed(feeder)


def _file_read(simple: Simple, feeder: Part | None) -> str:
    """Return the file that a command reads as its standard input; empty if there is none."""
    if (
        isinstance(feeder, Simple)
        and len(feeder.words) == 2
        and feeder.words[0] == "cat"
        and not feeder.redirects
    ):
        return feeder.words[1]
    paths = [redirect.path for redirect in simple.redirects if not redirect.writes]
    return paths[0] if len(paths) == 1 and feeder is None else ""
