"""Programs in plain text: which language they are in, and what they say that they run.

A shell script is read like a line, and Python by its own grammar. Of other languages only the calls are found that
run a command which stands there as a text; so the caller always treats such a program as unknown too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from takeback.shell.judgement import Reach
from takeback.shell.sink import Folders, Sink
from takeback.shell.words import HOLE, as_given

SHELL, PYTHON = "shell", "python"
SCRIPT, PERL, AWK = "script", "perl", "awk"
"""JavaScript and its kin; languages in which backticks run a command; and awk."""

_LANGUAGES = {
    SHELL: r"(?:ba|da|z|k|a|mk|ya)?sh",
    PYTHON: r"(?:i?python|pypy)[\d.]*",
    SCRIPT: r"node|nodejs|bun|deno|ts-node|tsx",
    PERL: r"perl|ruby|php|lua|julia",
    AWK: r"[gmn]?awk",
}
_TEXT = r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|`((?:[^`\\]|\\.)*)`"
_CALL = re.compile(
    r"(?<![\w.$])(?:[\w$.:]*[.:])?(?:execSync|execFileSync|execFile|exec|spawnSync|spawn|system|popen[23]?|shell_exec|passthru"
    r"|proc_open|capture[23]e?|run|readpipe|Popen|execute|io\.popen)\s*\(?\s*((?:(?:"
    + _TEXT
    + r")\s*,?\s*\[?\s*)+)"
)
_BACKTICKS = re.compile(
    r"`((?:[^`\\]|\\.)*)`|(?:%x|qx)\s*(?:\{([^}]*)\}|\(([^)]*)\)|\[([^\]]*)\]|/([^/]*)/|!([^!]*)!)"
)
_AWK = re.compile(
    r"system\s*\(\s*\"((?:[^\"\\]|\\.)*)\"|\|&?\s*\"((?:[^\"\\]|\\.)*)\"|\"((?:[^\"\\]|\\.)*)\"\s*\|&?\s*getline"
)
_AWK_FILE = re.compile(r">>?\s*\"((?:[^\"\\]|\\.)*)\"")
_SENDS = re.compile(
    r"method\s*:\s*['\"](POST|PUT|PATCH|DELETE)['\"]|\b(?:axios|got|ky)\.(post|put|patch|delete)\s*\(",
    re.IGNORECASE,
)
_DELETES = re.compile(
    r"(?:unlinkSync|rmSync|rmdirSync|unlink|rm_rf|rm_r|remove_tree|rmtree|File\.delete|rmdir)\s*\(?\s*(?:"
    + _TEXT
    + ")"
)
_WRITES = re.compile(
    r"(?:writeFileSync|appendFileSync|writeFile|File\.write|file_put_contents|mkdirSync)\s*\(?\s*(?:"
    + _TEXT
    + ")"
)
CALLS_MAX = 500
SOURCE_MAX = 100_000


def language_of(text: str, name: str = "") -> str:
    """Return the language of a script by its first line, or by its file extension; shell if it has neither."""
    first = text[:200].partition("\n")[0]
    if first.startswith("#!"):
        words = re.sub(r"^#!\s*(?:\S*/)?(?:env\s+(?:-S\s*|-\S+\s+|\w+=\S*\s+)*)?", "", first).split()
        program = words[0].rpartition("/")[2] if words else ""
        return next((kind for kind, names in _LANGUAGES.items() if re.fullmatch(names, program)), "")
    return "" if re.search(r"\.(?:js|mjs|cjs|ts|rb|pl|php|lua|awk|py)$", name) else SHELL


def judge(sink: Sink, text: str, language: str, folders: Folders, words: tuple[str, ...]) -> None:
    """Report what a program in another language than the shell does, as far as it can be found."""
    if len(text) > SOURCE_MAX:
        sink.say(Reach.UNKNOWN, words, "(limit)", "its program is too long to be read", limit=True)
        return
    if language == PYTHON:
        from takeback.shell.languages import python

        python.judge(sink, text, folders, words)
        return
    for found, (line, arguments) in enumerate(_commands(text, language)):
        if found == CALLS_MAX:
            sink.say(Reach.UNKNOWN, words, "(limit)", "its program runs too much to be read", limit=True)
            break
        sink.at(line)
        if len(arguments) == 1:
            sink.line(arguments[0], folders, words)
        else:
            sink.argv(arguments, folders)
    for match in _AWK_FILE.finditer(text) if language == AWK else ():
        sink.touch(_plain(match[1], language), folders, words, "awk")
    if language in (SCRIPT, PERL):
        _files(sink, text, language, folders, words)


def _files(sink: Sink, text: str, language: str, folders: Folders, words: tuple[str, ...]) -> None:
    for deletes, pattern in ((True, _DELETES), (False, _WRITES)):
        for match in pattern.finditer(text):
            path = _plain(next(group for group in match.groups() if group is not None), language)
            sink.at(_line_at(text, match.start()))
            sink.touch(path, folders, words, "(source)", deletes=deletes, somewhere=deletes)
    for match in _SENDS.finditer(text):
        sink.at(_line_at(text, match.start()))
        sink.say(Reach.IRREVERSIBLE, words, "(source)", f"sends a {(match[1] or match[2]).upper()} request")


def _commands(text: str, language: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each command in a program, with its line number: a text for the shell, or a program and its words."""
    if language == AWK:
        for match in _AWK.finditer(text):
            yield _line_at(text, match.start()), [_plain(next(filter(None, match.groups()), ""), language)]
        return
    for match in _CALL.finditer(text):
        texts = [
            next(group for group in part.groups() if group is not None)
            for part in re.finditer(_TEXT, match[1])
        ]
        yield _line_at(text, match.start()), [_plain(part, language) for part in texts]
    for match in _BACKTICKS.finditer(text) if language == PERL else ():
        yield _line_at(text, match.start()), [_plain(next(filter(None, match.groups()), ""), language)]


def _line_at(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _plain(text: str, language: str) -> str:
    """Return the content of a quoted text. What is inserted when the program runs is a hole."""
    holes = {SCRIPT: r"\$\{[^}]*\}", PERL: r"#\{[^}]*\}|[$@]\{?\w+(?:\[\w*\])?\}?"}.get(language)
    plain = as_given(re.sub(holes, HOLE, text) if holes else text)
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), plain)


# What other files say is to be run


def npm_scripts(text: str, name: str) -> list[tuple[str, str]]:
    """Return the lines of package.json that run for a script, in their order, each with its name."""
    try:
        scripts = json.loads(text).get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return []
    every = (f"pre{name}", name, f"post{name}") if isinstance(scripts, dict) else ()
    return [(one, scripts[one]) for one in every if isinstance(scripts.get(one), str)]


_TARGET = re.compile(r"^([^\s#:=][^#:=]*):(?!=)([^=].*|)$")
_VARIABLE = re.compile(r"^\s*(?:export\s+|override\s+)*([A-Za-z_]\w*)\s*[:?+]{0,2}=\s*(.*)$")


def recipes(text: str, targets: list[str]) -> list[tuple[int, str]]:
    """Return the lines of a makefile that run for these targets, or for its first one, with what they need before."""
    needs, lines, variables = dict[str, list[str]](), dict[str, list[tuple[int, str]]](), dict[str, str]()
    here: list[str] = []
    for number, line in _logical_lines(text):
        if line.startswith("\t"):
            for name in here:
                lines.setdefault(name, []).append((number, line.strip().lstrip("@-+ ")))
        elif match := _TARGET.match(line):
            before, _, recipe = match[2].partition(";")
            here = match[1].split()
            for name in here:
                needs.setdefault(name, []).extend(before.replace("|", " ").split())
                lines.setdefault(name, []).extend([(number, recipe.strip().lstrip("@-+ "))] if recipe else [])
        elif variable := _VARIABLE.match(line):
            variables[variable[1]] = variable[2].strip()
    first = next((name for name in needs if not name.startswith(".") and "%" not in name), "")
    pending, seen, found = [*targets] or [first], set[str](), list[tuple[int, str]]()
    while pending:
        name = pending.pop(0)
        if name not in seen:
            seen.add(name)
            pending += needs.get(name, [])
            found += [(number, _made(line, variables)) for number, line in lines.get(name, ())]
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines joined with their continuations, each with the number of its first line."""
    begun, parts = 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        begun = begun if parts else number
        parts.append(line.removesuffix("\\") if parts == [] else line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            yield begun, " ".join(parts)
            parts = []
    if parts:
        yield begun, " ".join(parts)


def _made(line: str, variables: dict[str, str]) -> str:
    """Return a line of a recipe, with the variables that the makefile sets to a plain text."""

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        value = variables.get(match[1] or match[2] or "", "$")
        return value if "$" not in value else HOLE

    return re.sub(r"\$(?:\$|\((\w+)\)|\{(\w+)\}|\([^)]*\)|\{[^}]*\}|.)", one, line)
