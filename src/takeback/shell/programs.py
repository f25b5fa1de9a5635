"""One command: the rule for its program, and what its words mean by that rule."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from takeback.shell.companions import BESIDE, companions, made_of
from takeback.shell.judgement import Reach, worst
from takeback.shell.languages import program_text, readers
from takeback.shell.local import more_of, stays_here
from takeback.shell.options import REST, Given, sort_words, with_roles
from takeback.shell.paths import shown
from takeback.shell.rules import Rule, RuleNode, changes_behaviour, program, reach_of
from takeback.shell.sink import Folders, Sink
from takeback.shell.words import HOLE, WILD, is_known

SYSTEM = re.compile(r"(?:/usr)?(?:/local)?/s?bin|/opt/homebrew/bin")
READS = {"GET", "HEAD", "OPTIONS"}
LOCAL = re.compile(r"\W*(?:proxycommand|localcommand|permitlocal|knownhostscommand|match)", re.IGNORECASE)
"""Settings of ssh that run something on this machine."""
SERIOUS = {"irreversible", "unknown", "line", "argv", "method", "write", "delete", "form", "config"}


def judge(sink: Sink, words: Sequence[str], folders: Folders, stdin: str | None) -> None:
    """Report what a command does."""
    if not words:
        return
    known, strange = _program(words[0])
    is_path = "/" in words[0] and is_known(words[0])
    if strange and not (is_path and sink.script(words[0], folders, words)):
        sink.say(Reach.UNKNOWN, words, "(program)", strange)
    if known is None:
        return
    _Command(sink, words, folders, stdin).judge(known)


NOT_IN_A_REPOSITORY = {"git config", "git init", "git clone", "git help", "git version", "git rev-parse"}
"""What runs nothing that the settings of a repository say."""


def runs_input(word: str) -> bool:
    """Return whether a program of this name runs what it reads."""
    known = _program(word)[0] if is_known(word) else None
    rule = known.rule if known is not None else None
    return rule is not None and (rule.stdin == "shell" or bool(rule.language))


def _program(word: str) -> tuple[RuleNode | None, str]:
    """Return what is known about a program by its name, and why that may be wrong."""
    if not is_known(word):
        return None, "only the running shell knows which program this is"
    folder, slash, name = word.rpartition("/")
    known, unversioned = program(name), re.sub(r"(?<=[a-z])-?[0-9][0-9.]*$", "", name)
    if known is None and unversioned != name:
        known = program(unversioned)
        if known and known.rule and known.rule.effect == "none" and not known.rule.language:
            # python3.12 is python and gcc-13 is gcc; but ls0 may be anything.
            return known, f"there is no rule for {name}, which may differ from {unversioned}"
    if known is None:
        return None, f"there is no rule for {name or word}"
    if slash and not SYSTEM.fullmatch(folder):
        return known, f"{word} may not be the usual {name}"
    return known, ""


class _Command:
    def __init__(self, sink: Sink, words: Sequence[str], folders: Folders, stdin: str | None) -> None:
        self._sink = sink
        self._words = words
        self._folders = folders
        self._stdin = stdin
        self._writes = False
        self._local = False
        self._beyond = False
        self._repositories: list[tuple[str, Folders]] = []

    def judge(self, known: RuleNode) -> None:
        """Go down to the subcommand, then apply its rule. What stood on the way counts too."""
        rest, everywhere = list(self._words[1:]), dict[str, str]()
        last, left = known, rest
        while known.below or known.patterns or known.rule:
            rule = known.rule or Rule("unknown")
            everywhere |= rule.everywhere
            if known.rule is not None:
                # A group of subcommands has no rule; then that of the program counts, with all its words.
                last, left = known, rest
            given = sort_words(rest, {**everywhere, **rule.options}, (), first=True)
            below = known.next(given.operands[0]) if given.operands else None
            if below is None:
                break
            self._options(known, rule, given)
            self._beyond |= given.has("beyond")
            if given.undeclared:
                self._say(Reach.UNKNOWN, known, f"{given.undeclared[0]} may take the word that follows it")
            known, rest = below, given.rest
        rule = last.rule or Rule("unknown")
        self._apply(last, rule, left, {**everywhere, **rule.options})

    def _apply(self, known: RuleNode, rule: Rule, rest: list[str], options: dict[str, str]) -> None:
        if rest in (["--help"], ["--version"], ["-V"]):
            return
        roles = rule.operands.split()
        given = sort_words(rest, options, roles)
        if rule.background:
            self._sink.goes_on()
        if rule.local and not self._beyond:
            self._local = stays_here(rule.local, self._words, given, self._folders, self._sink)
        self._options(known, rule, given)
        self._unclear(known, rule, given, options)
        instead = _only_shows(given)
        if rule.alone and not (given.rest if set(roles) & REST else rest):
            instead = Reach(rule.alone)
        if known.name.partition(" ")[0] == "git" and known.name not in NOT_IN_A_REPOSITORY:
            hooks = rule.hooks.split() if instead is None else ()
            self._sink.git(hooks, self._folders, self._words, self._repositories)
        if instead is not None:
            self._say(instead, known, "what it would run is not known")
            return
        more = "" if self._local else more_of(rule.local, self._words)
        self._say(reach_of(rule.effect), known, (rule.why or _no_rule(known)) + more, rule.back)
        if rule.verbs:
            self._verbs(known, rule, given)
        self._program_of(rule, given)
        if rule.reader:
            told = readers.ReadCommand(
                self._sink, self._words, given, self._folders, known.name, options, self._stdin
            )
            readers.READERS[rule.reader](told)
        self._operands(known, rule, roles, given)
        if rule.writes:
            self._written(known, rule)
        rest_role = next((role for role in roles if role in REST), "argv" if given.rest else "")
        if rest_role:
            self._inner(known, rule, rest_role, given)
        if rule.stdin and not given.rest and not given.has("sql"):
            self._from_stdin(known, rule)

    def _written(self, known: RuleNode, rule: Rule) -> None:
        """Note what a command writes by its rule alone, beside the paths among its words."""
        if not self._writes:
            self._touch(known, rule.writes, somewhere=True)
        if known.name.startswith("git "):
            self._repository(known)

    def _say(self, reach: Reach, known: RuleNode, why: str, back: str = "") -> None:
        local = self._local and reach is Reach.IRREVERSIBLE
        reach = Reach.UNKNOWN if local else reach
        self._sink.say(reach, self._words, known.name or "(no rule)", why, back, local=local)

    def _touch(
        self,
        known: RuleNode,
        word: str,
        *,
        deletes: bool = False,
        somewhere: bool = False,
        makes: bool = False,
    ) -> None:
        self._writes = True
        if word == "-":
            return  # the usual name of the standard output
        self._sink.touch(
            word,
            self._folders,
            self._words,
            known.name,
            deletes=deletes,
            somewhere=somewhere,
            makes=makes,
        )

    def _repository(self, known: RuleNode) -> None:
        """Report git's writes to its repository: around the folder, or where an option says."""
        if not self._repositories:
            self._sink.repository(self._folders, self._words, known.name)
        for word, folders in self._repositories:
            self._sink.touch(word, folders, self._words, known.name, somewhere=True)

    # Options

    def _options(self, known: RuleNode, rule: Rule, given: Given) -> None:
        for option, meaning, value in given.options:
            for word in meaning:
                self._acting_option(known, rule, word, value)
                if said := _reach_of_option(option, word, value, given):
                    reach, why = said
                    self._say(reach, known, f"{why}: {rule.why}" if rule.why else why)

    def _acting_option(self, known: RuleNode, rule: Rule, meaning: str, value: str) -> None:
        """Judge an option that names a path, a folder, or something to run."""
        match meaning:
            case "write" if value.startswith("|"):
                self._sink.line(value[1:], self._folders, self._words)
            case "write" | "delete" if value:
                self._touch(known, value, deletes=meaning == "delete")
            case "prefix" if value:
                self._touch(known, value + WILD, makes=True)
            case "here":
                self._touch(known, ".", somewhere=True)
            case "chdir":
                self._folders = self._sink.moved(value, self._folders)
            case "repository":
                self._repositories.append((value, self._folders))
            case "sql":
                self._sql(known, value)
            case "background":
                self._sink.goes_on()
            case _:
                self._running_option(known, rule, meaning, value)

    def _running_option(self, known: RuleNode, rule: Rule, meaning: str, value: str) -> None:
        match meaning:
            case "line" if rule.remote:
                self._elsewhere(known, lambda there: there.line(value, (None,), self._words))
            case "line":
                self._sink.line(value, self._folders, self._words)
            case "config" | "sshoption":
                # A setting that runs something names it, if at all, after an equals sign.
                if _reach_of_option("", meaning, value, Given()):
                    self._sink.line(value.partition("=")[2].lstrip("! "), self._folders, self._words)
            case "exec":
                self._sink.line(value.removeprefix("exec="), self._folders, self._words)

    def _unclear(self, known: RuleNode, rule: Rule, given: Given, options: dict[str, str]) -> None:
        # A wildcard becomes options only if files have such names, so only options that run something count.
        known_start = all(word.startswith(WILD) for word in given.unclear)
        feared = SERIOUS - {"write", "delete"} if known_start else SERIOUS
        serious = any(feared & set(meaning.split()) for meaning in options.values())
        if given.unclear and (serious or rule.verbs or rule.reader):
            self._say(Reach.UNKNOWN, known, "only the running shell knows which options it gets")

    def _verbs(self, known: RuleNode, rule: Rule, given: Given) -> None:
        for word in given.operands:
            found = [Reach(effect) for verb, effect in rule.verbs.items() if fnmatchcase(word, verb)]
            self._say(worst(found), known, f"{shown(word)}: {rule.why or 'changes something elsewhere'}")

    # Operands

    def _operands(self, known: RuleNode, rule: Rule, roles: list[str], given: Given) -> None:
        roles = [role for role in roles if role not in REST]
        for word, role in with_roles(given.operands, roles):
            if role in BESIDE or given.has("inplace"):
                for beside in companions(rule, given, word):
                    self._touch(known, beside, makes=True)
            self._operand(known, role, word, given)

    def _operand(self, known: RuleNode, role: str, word: str, given: Given) -> None:
        if named := made_of(role, word):
            self._touch(known, named, makes=True)
        match role:
            case "edited" if given.has("inplace"):
                self._touch(known, word)
            case "write" | "delete":
                self._touch(known, word, deletes=role == "delete")
            case "maybe" if word.startswith(("/", "../", "~")) or word == "..":
                self._touch(known, word, somewhere=True)
            case "into":
                self._touch(known, word, somewhere=True)
            case "target" if re.match(r"[\w.@\[\]-]+:|\w+://", word):
                self._say(Reach.IRREVERSIBLE, known, f"writes to {word}, on another machine")
            case "target" if word.startswith(HOLE):
                self._say(Reach.UNKNOWN, known, "where it writes is not known")
            case "target":
                self._touch(known, word, somewhere=True)
            case "irreversible" | "unknown":
                self._say(Reach(role), known, f"given {word}" if is_known(word) else "given a file")
            case "sql":
                self._sql(known, word)
            case "code":
                self._sink.line(word, self._folders, self._words)

    def _sql(self, known: RuleNode, text: str) -> None:
        from takeback.shell.languages import sql

        reach, why = sql.judge(text)
        self._say(reach, known, why)

    # What it runs

    def _inner(self, known: RuleNode, rule: Rule, role: str, given: Given) -> None:
        inner = list(given.rest)
        if rule.assigns:
            matches = [re.match(r"([A-Za-z_]\w*)=", word) for word in inner]
            set_first = list(itertools.takewhile(bool, matches))
            for name in dict.fromkeys(match[1] for match in set_first if match):
                if changes_behaviour(name):
                    self._say(Reach.UNKNOWN, known, f"{name} may change what the following commands run")
            inner = inner[len(set_first) :]
        if rule.appends:
            placeholder = next(iter(given.values("placeholder")), "{}" if given.has("braces") else "")
            inner = self._appended(inner, placeholder)
        if not inner:
            return
        if role == "script":
            self._script(known, inner[0], given)
        elif rule.remote:
            self._remote(known, role, inner)
        elif role == "line":
            self._sink.line(" ".join(inner), self._folders, self._words)
        else:
            self._sink.argv(inner, self._folders, self._stdin)

    def _appended(self, inner: list[str], placeholder: str) -> list[str]:
        """Return the words of a command with those that it reads from its input, if these are known."""
        read = (self._stdin or "").strip()
        is_plain = re.fullmatch(r"[\w ./:@=,+-]+", read) is not None
        if placeholder:
            return [word.replace(placeholder, read if is_plain else HOLE) for word in inner]
        return [*inner, *(read.split() if is_plain else [HOLE])] if inner else []

    def _remote(self, known: RuleNode, role: str, inner: list[str]) -> None:
        # ssh joins its words to a line; who typed them may have meant them apart.
        if role == "line":
            self._elsewhere(known, lambda there: there.line(" ".join(inner), (None,), self._words))
        if role == "argv" or len(inner) > 1:
            self._elsewhere(known, lambda there: there.argv(inner, (None,)))

    def _elsewhere(self, known: RuleNode, run: Callable[[Sink], None]) -> None:
        self._sink.elsewhere(self._words, known.name, run)

    def _script(self, known: RuleNode, word: str, given: Given) -> None:
        """Judge what a shell runs: a line with -c, otherwise a file."""
        if given.has("command") and not word.startswith("+"):
            self._sink.line(word, self._folders, self._words)
        elif word in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
            self._from_stdin(known, Rule("none", stdin="shell"))
        elif not self._sink.script(word, self._folders, self._words, program_text.SHELL):
            self._say(Reach.UNKNOWN, known, f"runs {shown(word)}, and what that does is not known")

    def _program_of(self, rule: Rule, given: Given) -> None:
        """The program of an interpreter. That it is unknown what else it does, the rule says."""
        if not rule.language:
            return
        texts = given.values("source")
        for text in texts:
            self._sink.source(text, rule.language, self._folders, self._words)
        if texts:
            return
        if given.rest:
            # python -m package.module
            named = given.rest[0].replace(".", "/")
            for word in (f"{named}.py", f"{named}/__main__.py"):
                self._sink.script(word, self._folders, self._words, rule.language)
        elif given.operands and given.operands[0] != "-":
            self._sink.script(given.operands[0], self._folders, self._words, rule.language)
        elif self._stdin is not None:
            self._sink.source(self._stdin, rule.language, self._folders, self._words)

    def _from_stdin(self, known: RuleNode, rule: Rule) -> None:
        if self._stdin is None:
            self._say(Reach.UNKNOWN, known, "runs what it reads, and that is not known")
        elif rule.stdin == "sql":
            self._sql(known, self._stdin)
        elif rule.remote:
            line = self._stdin
            self._elsewhere(known, lambda there: there.line(line, (None,), self._words))
        else:
            self._sink.line(self._stdin, self._folders, self._words)


def _reach_of_option(option: str, meaning: str, value: str, given: Given) -> tuple[Reach, str] | None:
    """Return how far an option makes a command reach."""
    match meaning:
        case "irreversible" | "unknown":
            return Reach(meaning), f"given {option}"
        case "method" if not is_known(value):
            return Reach.UNKNOWN, f"{option}: which request it makes is not known"
        case "method" if value.upper() not in READS:
            return Reach.IRREVERSIBLE, f"sends a {value.upper()} request"
        case "form" if not given.has("get") and not given.has("method"):
            return Reach.IRREVERSIBLE, f"sends data by {option}"
        case "config" if not readers.is_plain_setting(value):
            return Reach.UNKNOWN, f"{option} {shown(value)} may change what the following commands run"
        case "sshoption" if LOCAL.match(value):
            return Reach.UNKNOWN, f"{option} {shown(value)} runs something here"
    return None


def _only_shows(given: Given) -> Reach | None:
    """Return the reach of a dry run; None if the command really acts. The last option on this counts."""
    said: Reach | None = None
    for name, meaning, value in given.options:
        if "harmless" in meaning or "rehearsal" in meaning:
            real = value.lower() in ("none", "false", "no", "0") or not is_known(value)
            said = None if real else Reach.NONE if "harmless" in meaning else Reach.UNKNOWN
        elif name.startswith("--no-"):
            said = None
    lists = given.has("shows") and all({"shows", "flag"} & set(meaning) for _, meaning, _ in given.options)
    return Reach.NONE if lists and (given.has("list") or not given.operands) else said


def _no_rule(known: RuleNode) -> str:
    return (
        f"there is no rule for this use of {known.name}"
        if known.name
        else "there is no rule for this subcommand"
    )
