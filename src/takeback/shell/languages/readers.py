"""Programs whose words are a language of their own, which a table of options cannot describe."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from takeback.shell.companions import in_place_backups
from takeback.shell.judgement import Reach
from takeback.shell.languages import program_text
from takeback.shell.local import is_loopback
from takeback.shell.options import Given, sort_words, spelling, takes_value
from takeback.shell.paths import shown
from takeback.shell.rules import is_plain
from takeback.shell.sink import Folders, Sink
from takeback.shell.words import HOLE, WILD, is_known


class ReadCommand(msgspec.Struct, frozen=True):
    """A command, as a reader gets it."""

    sink: Sink
    words: Sequence[str]
    given: Given
    folders: Folders
    rule: str
    options: Mapping[str, str]
    stdin: str | None = None

    def means(self, word: str) -> tuple[str, ...]:
        """Return what the rule says of a word that is an option."""
        return spelling(self.options).meaning.get(word, ())

    def say(self, reach: Reach, why: str, *, local: bool = False) -> None:
        self.sink.say(reach, self.words, self.rule, why, local=local)

    def touch(
        self,
        word: str,
        folders: Folders = (),
        *,
        deletes: bool = False,
        somewhere: bool = False,
        makes: bool = False,
    ) -> None:
        """Report a path that it writes, here or in other folders."""
        where = folders or self.folders
        self.sink.touch(word, where, self.words, self.rule, deletes=deletes, somewhere=somewhere, makes=makes)


Reader = Callable[[ReadCommand], None]


# find


def find(told: ReadCommand) -> None:
    words = told.words[1:]
    at = 0
    while at < len(words) and words[at] in ("-H", "-L", "-P"):
        at += 1
    first = at
    while at < len(words) and not words[at].startswith(("-", "(", "!")):
        at += 1
    roots = words[first:at] or ["."]
    while at < len(words):
        word, at = words[at], at + 1
        meaning = told.means(word)
        if "runs" in meaning:
            end = next((n for n in range(at, len(words)) if _ends_exec(words, n)), len(words))
            for root in roots:
                told.sink.argv([w.replace("{}", f"{root}/{WILD}") for w in words[at:end]], told.folders)
            at = end + 1
        elif "deletes" in meaning:
            for root in roots:
                told.touch(root, deletes=True, somewhere=True)
        elif not meaning and word not in ("(", ")", "!", ","):
            told.say(Reach.UNKNOWN, f"what {shown(word)} does is not known")
        at += 2 if "two" in meaning else takes_value(meaning)


def _ends_exec(words: Sequence[str], at: int) -> bool:
    return words[at] == ";" or (words[at] == "+" and words[at - 1] == "{}")


# sed and awk


def sed(told: ReadCommand) -> None:
    from takeback.shell.languages.sed_awk import commands_of_sed, files_of_sed, is_plain_sed

    scripts = told.given.values("sed")
    files = list(told.given.operands)
    if not scripts and not told.given.has("file"):
        scripts, files = files[:1], files[1:]
    if told.given.has("file") or not all(map(is_plain_sed, scripts)):
        told.say(Reach.UNKNOWN, "its script may write or run something")
        for script in scripts:
            for command in commands_of_sed(script):
                told.sink.line(command, told.folders, told.words)
            for file in files_of_sed(script):
                told.touch(file)
    if told.given.has("inplace"):
        for file in files:
            told.touch(file)
            for suffix in filter(None, told.given.values("inplace")):
                for backup in in_place_backups(file, suffix):
                    told.touch(backup, makes=True)


def awk(told: ReadCommand) -> None:
    from takeback.shell.languages.sed_awk import is_plain_awk

    if told.given.has("file") or not all(map(is_plain_awk, told.given.operands[:1])):
        told.say(Reach.UNKNOWN, "its program may write or run something")
        if told.given.has("file"):
            for file in told.given.values("file"):
                told.sink.script(file, told.folders, told.words, program_text.AWK)
        else:
            for program in told.given.operands[:1]:
                told.sink.source(program, program_text.AWK, told.folders, told.words)


# Copying and packing


def dd(told: ReadCommand) -> None:
    for word in told.words[1:]:
        if word.startswith("of="):
            told.touch(word[3:])
        elif word.startswith(HOLE):
            told.say(Reach.UNKNOWN, "where it writes is not known")


def tar(told: ReadCommand) -> None:
    given = sort_words(_new_style(list(told.words[1:])), told.options, ())
    folders = told.folders
    for folder in given.values("folder"):
        folders = told.sink.moved(folder, folders)
    if given.has("runs") or given.has("unknown") or given.unclear:
        told.say(Reach.UNKNOWN, "it may run something, or write anywhere")
    if given.has("unpacks"):
        for folder in (*filter(None, given.values("top")), "."):
            told.touch(folder, folders, somewhere=True)
    elif given.has("packs"):
        for archive in given.values("archive"):
            if re.match(r"[\w.@-]+:", archive):
                told.say(Reach.IRREVERSIBLE, f"writes to {archive}, on another machine")
            elif archive != "-":
                told.touch(archive)
    elif not given.has("reads"):
        told.say(Reach.UNKNOWN, "what it is to do is not known")
    _tar_beside(told, given, folders)


def _tar_beside(told: ReadCommand, given: Given, folders: Folders) -> None:
    """Report what tar writes or deletes in addition to its archive and the archive's content."""
    for file in given.values("notes"):
        told.touch(file)
    if given.has("removes"):
        for file in given.operands:
            told.touch(file, folders, deletes=True)


def _new_style(words: list[str]) -> list[str]:
    """Return `tar xzf a.tgz` as `tar -x -z -f a.tgz`."""
    if not words or words[0].startswith("-"):
        return words
    letters, rest = words[0], words[1:]
    if not letters.isalnum():
        return words
    sorted_out = []
    for letter in letters:
        sorted_out.append(f"-{letter}")
        if letter in "fCIFbTXgKNVHL" and rest:
            sorted_out.append(rest.pop(0))
    return sorted_out + rest


# git


def is_plain_setting(text: str) -> bool:
    """Return whether a setting of git, with or without a value, makes no other program run."""
    name = text.partition("=")[0]
    return is_known(name) and is_plain(name.lower())


_CONFIG_WORDS = {"set", "get", "list", "unset", "rename-section", "remove-section", "edit", "get-all"}


def git_config(told: ReadCommand) -> None:
    operands = list(told.given.operands)
    verb = operands.pop(0) if operands and operands[0] in _CONFIG_WORDS else ""
    reads = verb in ("get", "list", "get-all") or told.given.has("gets")
    if reads or (not verb and len(operands) < 2 and not told.given.has("sets")):
        return
    if not operands or not is_plain_setting(operands[0]):
        told.say(Reach.UNKNOWN, "this setting may change what the following commands run")
    file = next(iter(told.given.values("file")), "")
    if told.given.has("global"):
        file = "~/.gitconfig"
    elif told.given.has("system"):
        file = "/etc/gitconfig"
    told.touch(file or ".git/config")


# Databases and requests


def sqlite(told: ReadCommand) -> None:
    from takeback.shell.languages import sql

    file, *statements = told.given.operands or [":memory:"]
    statements += told.given.values("sql")
    if not statements:
        told.say(Reach.UNKNOWN, "what it reads from its input is not known")
    for text in statements:
        if text.startswith("."):
            if not re.fullmatch(r"\.(?:tables|schema|dump|indexes|databases|mode|headers)\b[\w\s%.]*", text):
                told.say(Reach.UNKNOWN, f"what {text.split()[0]} does is not known")
            continue
        reach, why = sql.judge(text)
        if re.search(r"attach|load_extension|writefile|edit\s*\(|vacuum\b[^;]*\binto\b", text, re.IGNORECASE):
            told.say(Reach.UNKNOWN, "it may write other files")
        elif reach is Reach.IRREVERSIBLE and file != ":memory:":
            for end in ("", "-journal", "-wal", "-shm"):
                told.touch(file + end)
        elif reach is Reach.UNKNOWN:
            told.say(reach, why)


def httpie(told: ReadCommand) -> None:
    operands = list(told.given.operands)
    method = operands.pop(0).upper() if operands and operands[0].isalpha() and len(operands) > 1 else ""
    data = any(re.match(r"[^:/?]+(?::?=|@)(?!=)", word) for word in operands[1:])
    if not all(is_known(word) for word in operands[:1]):
        told.say(Reach.UNKNOWN, "which request it makes is not known")
    if (method or ("POST" if data else "GET")) not in ("GET", "HEAD", "OPTIONS"):
        here = any(word.startswith(":") or is_loopback(word) for word in operands[:1])
        local = here and not told.given.has("beyond")
        told.say(
            Reach.UNKNOWN if local else Reach.IRREVERSIBLE, f"sends a {method or 'POST'} request", local=local
        )


# What files of the workspace say is to be run


def sourced(told: ReadCommand) -> None:
    """Judge a sourced file: its variables and its folder apply to what follows."""
    file = told.given.operands[0] if told.given.operands else ""
    if file in ("/dev/stdin", "/dev/fd/0") and told.stdin is not None:
        told.sink.line(told.stdin, told.folders, told.words)
    elif not file or not told.sink.script(file, told.folders, told.words, program_text.SHELL):
        told.say(Reach.UNKNOWN, "runs a file in this shell")
    else:
        told.say(Reach.UNKNOWN, "a file may change what the commands after it mean")


_NPM_RUNS = {"run", "run-script", "rum", "urn"}
_NPM_NAMED = {
    "test": "test",
    "t": "test",
    "tst": "test",
    "start": "start",
    "stop": "stop",
    "restart": "restart",
}


def npm(told: ReadCommand) -> None:
    """Judge `npm run NAME` and other programs that run scripts of package.json."""
    operands = [word for word in told.given.operands if is_known(word)]
    name = operands[0] if operands else ""
    if name in _NPM_RUNS:
        name = operands[1] if len(operands) > 1 else ""
    else:
        name = _NPM_NAMED.get(name, name)
    folders = told.folders
    for folder in told.given.values("prefix"):
        folders = told.sink.moved(folder, folders)
    found = told.sink.text_of("package.json", folders)
    for script, line in program_text.npm_scripts(found[1], name) if found else ():
        told.sink.part_of(f"package.json, script {script}", 0, line, folders, told.words)


def make(told: ReadCommand) -> None:
    """Judge the recipes of a makefile for the named targets."""
    folders = told.folders
    for folder in told.given.values("folder"):
        folders = told.sink.moved(folder, folders)
    files = told.given.values("file") or ["GNUmakefile", "makefile", "Makefile"]
    texts = filter(None, (told.sink.text_of(file, folders) for file in files))
    targets = [word for word in told.given.operands if "=" not in word]
    for path, text in texts:
        for number, line in program_text.recipes(text, targets):
            told.sink.part_of(posixpath.basename(path), number, line, folders, told.words)
        break


# The shell's own


def alias(told: ReadCommand) -> None:
    for word in told.given.operands:
        name, equals, line = word.partition("=")
        if equals:
            told.say(Reach.UNKNOWN, f"{name} becomes another command")
            told.sink.line(line, told.folders, told.words)


READERS: dict[str, Reader] = {
    "find": find,
    "sed": sed,
    "awk": awk,
    "dd": dd,
    "tar": tar,
    "git-config": git_config,
    "sqlite": sqlite,
    "httpie": httpie,
    "alias": alias,
    "sourced": sourced,
    "npm": npm,
    "make": make,
}
