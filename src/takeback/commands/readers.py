"""Programs whose words are a language of their own, which a table of options cannot tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from takeback.commands import sql
from takeback.commands.judgement import Reach
from takeback.commands.options import Given, sort_words
from takeback.commands.scripts import is_plain_awk, is_plain_sed
from takeback.commands.words import HOLE, WILD, is_known

Folders = tuple[str | None, ...]
Words = Sequence[str]
Reader = Callable[[Any, Words, Given, Folders, str], None]


# find

_FIND_SKIPS = """name iname path ipath wholename iwholename regex iregex type xtype size mtime mmin atime amin ctime
    cmin newer anewer cnewer user group uid gid perm maxdepth mindepth links inum samefile fstype lname ilname printf
    regextype used context newermt newerct""".split()
_FIND_FLAGS = """print print0 ls prune quit depth d true false empty readable writable executable mount xdev not a o
    and or follow daystart nouser nogroup noleaf ignore_readdir_race noignore_readdir_race warn nowarn H L P""".split()
_FIND_WRITES = ("fprint", "fprint0", "fls", "fprintf")
_FIND_RUNS = ("exec", "execdir", "ok", "okdir")


def find(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    rest = list(words[1:])
    while rest and rest[0] in ("-H", "-L", "-P"):
        rest.pop(0)
    roots = []
    while rest and not rest[0].startswith(("-", "(", "!")):
        roots.append(rest.pop(0))
    roots = roots or ["."]
    while rest:
        word = rest.pop(0)
        name = word.removeprefix("-")
        if name in _FIND_SKIPS:
            del rest[:1]
        elif name in _FIND_RUNS:
            ends = [n for n, w in enumerate(rest) if w == ";" or (w == "+" and rest[n - 1] == "{}")]
            inner, rest = (rest[: ends[0]], rest[ends[0] + 1 :]) if ends else (rest, [])
            for root in roots:
                sink.argv([w.replace("{}", f"{root}/{WILD}") for w in inner], folders)
        elif name == "delete":
            for root in roots:
                sink.touch(root, folders, words, rule, deletes=True, somewhere=True)
        elif name in _FIND_WRITES:
            sink.touch(rest.pop(0) if rest else HOLE, folders, words, rule)
            del rest[: 1 if name == "fprintf" else 0]
        elif name not in _FIND_FLAGS and word not in ("(", ")", "!", ","):
            sink.say(Reach.UNKNOWN, words, rule, f"what {word} does is not known")


# sed and awk


def sed(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    scripts = given.values("sed")
    files = list(given.operands)
    if not scripts and not given.has("file"):
        scripts, files = files[:1], files[1:]
    if given.has("file") or not all(map(is_plain_sed, scripts)):
        sink.say(Reach.UNKNOWN, words, rule, "its script may write or run something")
    if given.has("inplace"):
        for file in files:
            sink.touch(file, folders, words, rule)


def awk(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    if given.has("file") or not all(map(is_plain_awk, given.operands[:1])):
        sink.say(Reach.UNKNOWN, words, rule, "its program may write or run something")


# Copying and packing


def dd(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    for word in words[1:]:
        if word.startswith("of="):
            sink.touch(word[3:], folders, words, rule)
        elif word.startswith(HOLE):
            sink.say(Reach.UNKNOWN, words, rule, "where it writes is not known")


_TAR = {
    "-c --create -r --append -u --update -A --catenate --concatenate --delete": "packs",
    "-x --extract --get": "unpacks",
    "-t --list -d --diff --compare --test-label": "reads",
    "-f --file": "value archive",
    "-C --directory --cd": "chdir",
    "-I --use-compress-program -F --info-script --to-command --checkpoint-action --rsh-command": "value runs",
    "-P --absolute-names": "unknown",
    "--remove-files": "removes",
    "-b -T -X -g -K -N -V -H -L --files-from --exclude --exclude-from --transform --strip-components": "value",
    "--owner --group --mode --mtime --format --newer --listed-incremental --label": "value",
}


def tar(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    given = sort_words(_new_style(list(words[1:])), _TAR, ())
    for folder in given.values("chdir"):
        folders = sink.moved(folder, folders)
    if given.has("runs") or given.has("unknown") or given.unclear:
        sink.say(Reach.UNKNOWN, words, rule, "it may run something, or write anywhere")
    if given.has("unpacks"):
        sink.touch(".", folders, words, rule, somewhere=True)
    elif given.has("packs"):
        for archive in given.values("archive"):
            if re.match(r"[\w.@-]+:", archive):
                sink.say(Reach.IRREVERSIBLE, words, rule, f"writes to {archive}, on another machine")
            elif archive != "-":
                sink.touch(archive, folders, words, rule)
    elif not given.has("reads"):
        sink.say(Reach.UNKNOWN, words, rule, "what it is to do is not known")
    if given.has("removes"):
        for file in given.operands:
            sink.touch(file, folders, words, rule, deletes=True)


def _new_style(words: list[str]) -> list[str]:
    """`tar xzf a.tgz` as `tar -x -z -f a.tgz`."""
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

_PLAIN_SETTINGS = re.compile(
    r"(?:user\.(?:name|email|signingkey)|color\..*|advice\..*|column\..*|init\.defaultbranch|push\..*|pull\..*|"
    r"fetch\.(?:prune|all)|merge\.(?:ff|conflictstyle|renamelimit)|rebase\.(?:autosquash|autostash)|"
    r"core\.(?:autocrlf|eol|quotepath|filemode|ignorecase|longpaths|safecrlf|abbrev|bare)|commit\.gpgsign|"
    r"tag\.gpgsign|log\..*|status\..*|branch\..*|remote\..*\.(?:url|fetch|pushurl)|safe\.directory|gc\..*|"
    r"diff\.(?:algorithm|renames|renamelimit|context|nopager)|http\.(?:postbuffer|version)|protocol\.version|"
    r"submodule\..*\.(?:url|branch)|rerere\.enabled|help\.autocorrect|extensions\..*|feature\..*)(?:=.*)?",
    re.IGNORECASE | re.DOTALL,
)


def is_plain_setting(text: str) -> bool:
    """Whether a setting of git makes no other program run."""
    return is_known(text.partition("=")[0]) and _PLAIN_SETTINGS.fullmatch(text) is not None


_CONFIG_WORDS = {"set", "get", "list", "unset", "rename-section", "remove-section", "edit", "get-all"}


def git_config(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    operands = list(given.operands)
    verb = operands.pop(0) if operands and operands[0] in _CONFIG_WORDS else ""
    reads = verb in ("get", "list", "get-all") or given.has("gets")
    if reads or (not verb and len(operands) < 2 and not given.has("sets")):
        return
    if not operands or not is_plain_setting(operands[0]):
        sink.say(Reach.UNKNOWN, words, rule, "this setting may make other commands of what follows")
    file = next(iter(given.values("file")), "")
    if given.has("global"):
        file = "~/.gitconfig"
    elif given.has("system"):
        file = "/etc/gitconfig"
    sink.touch(file or ".git/config", folders, words, rule)


# Databases and requests


def sqlite(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    file, *statements = given.operands or [":memory:"]
    statements += given.values("sql")
    if not statements:
        sink.say(Reach.UNKNOWN, words, rule, "what it reads from its input is not known")
    for text in statements:
        if text.startswith("."):
            if not re.fullmatch(r"\.(?:tables|schema|dump|indexes|databases|mode|headers)\b[\w\s%.]*", text):
                sink.say(Reach.UNKNOWN, words, rule, f"what {text.split()[0]} does is not known")
            continue
        reach, why = sql.judge(text)
        if re.search(r"attach|load_extension|writefile|edit\s*\(", text, re.IGNORECASE):
            sink.say(Reach.UNKNOWN, words, rule, "it may write other files")
        elif reach is Reach.IRREVERSIBLE and file != ":memory:":
            sink.touch(file, folders, words, rule)
        elif reach is Reach.UNKNOWN:
            sink.say(reach, words, rule, why)


def httpie(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    operands = list(given.operands)
    method = operands.pop(0).upper() if operands and operands[0].isalpha() and len(operands) > 1 else ""
    data = any(re.match(r"[^:/?]+(?::?=|@)(?!=)", word) for word in operands[1:])
    if not all(is_known(word) for word in operands[:1]):
        sink.say(Reach.UNKNOWN, words, rule, "which request it makes is not known")
    if (method or ("POST" if data else "GET")) not in ("GET", "HEAD", "OPTIONS"):
        sink.say(Reach.IRREVERSIBLE, words, rule, f"sends a {method or 'POST'} request")


# The shell's own


def alias(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    for word in given.operands:
        name, equals, line = word.partition("=")
        if equals:
            sink.say(Reach.UNKNOWN, words, rule, f"{name} is another command from now on")
            sink.line(line, folders, words)


def arithmetic(sink: Any, words: Words, given: Given, folders: Folders, rule: str) -> None:
    """Names of variables are evaluated, and an index in them may hold a command: `let 'a[$(rm x)]'`."""
    if any("$(" in word or "`" in word for word in words[1:]):
        sink.say(Reach.UNKNOWN, words, rule, "it may run what its arguments say")


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
    "arithmetic": arithmetic,
}
