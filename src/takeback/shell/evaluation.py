"""Texts that bash evaluates: as arithmetic, as the name of a variable, or as a prompt.

All three run the substitutions that they find, also those that were quoted when the text was written:
`x='a[$(git push)]'; ((x))` pushes. So it is not enough to see what stands where something is evaluated. Here the
values that the line gives its variables are followed to those places. What comes from the environment is taken to be
harmless: an attacker who controls it needs no disguise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from takeback.shell.words import HOLE, Misread, from_letters, is_known, word_of

if TYPE_CHECKING:
    from tree_sitter import Node

ARGUMENTS = "@"
"""The name that stands for each of `$1`, `$2`, `$@` and `$*`."""
_NUMBERS = {
    *("#", "?", "$", "!", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "UID", "EUID", "PPID"),
    *("BASHPID", "SHLVL", "PIPESTATUS"),
}
_ELSEWHERE = {
    *("_", "BASH_REMATCH", "BASH_COMMAND", "BASH_EXECUTION_STRING", "BASH_ARGV", "BASH_ARGV0", "BASH_SOURCE"),
    *("FUNCNAME", "DIRSTACK", "PWD", "OLDPWD", "REPLY", "MAPFILE", "OPTARG", "COPROC", "READLINE_LINE"),
}
"""Variables that the shell itself sets, to texts that may be anything."""
_ARE_NUMBERS = {"RANDOM", "SRANDOM", "SECONDS", "OPTIND", "HISTCMD", "LINENO"}
"""Variables for which every value is evaluated when it is assigned."""
_DECLARES = {"declare", "typeset", "local", "readonly", "export"}
_SETS = {"read", "mapfile", "readarray", "getopts", "wait", "printf"}
_COMPARES = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
_NAMES = {"-v", "-R"}
_LITERALS = {"word", "string_content", "number", "regex", "extglob_pattern", "test_operator", "heredoc_body"}
_NAME = re.compile(r"[A-Za-z_]\w*")


class Value(msgspec.Struct, frozen=True):
    """A text that is assigned to a variable, or evaluated."""

    names: frozenset[str] = frozenset()
    """The variables whose values it contains, or which it names."""
    open: bool = False
    """True if it contains something that runs when it is evaluated, or comes from an unknown source."""


class Evaluated(msgspec.Struct, frozen=True):
    """What a text of shell assigns to variables, and what it evaluates."""

    given: tuple[tuple[str, Value], ...] = ()
    evaluated: tuple[Value, ...] = ()
    calls: tuple[tuple[str, Value], ...] = ()
    """The commands by name, each with its arguments: those of a function become `$1`."""
    functions: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()
    """Variables that are declared to be numbers."""
    hidden: tuple[str, ...] = ()
    """Variables that are set otherwise than by `NAME=value`."""


class Evaluation:
    """All assignments and evaluated texts of a line and of the lines inside it."""

    def __init__(self) -> None:
        self._given: dict[str, list[Value]] = {}
        self._evaluated: list[Value] = []
        self._calls: list[tuple[str, Value]] = []
        self._functions: set[str] = {"set"}
        self._integers: set[str] = set(_ARE_NUMBERS)

    def add(self, found: Evaluated) -> None:
        for name, value in found.given:
            self._given.setdefault(name, []).append(value)
        self._evaluated += found.evaluated
        self._calls += found.calls
        self._functions |= set(found.functions)
        self._integers |= set(found.integers)

    def given_words(self, words: Iterable[str]) -> None:
        """Words of a command: they may be its variables, or the arguments of a text that it runs."""
        for word in words:
            name, equals, text = word.partition("=")
            if equals and _NAME.fullmatch(name):
                self._given.setdefault(name, []).append(of_text(text))
            else:
                self._given.setdefault(ARGUMENTS, []).append(of_text(word))

    def runs_something(self) -> bool:
        """Return whether evaluating may run anything that is not a command in the line."""
        for name, value in self._calls:
            if name in self._functions or not is_known(name):
                self._given.setdefault(ARGUMENTS, []).append(value)
        evaluated = [
            *self._evaluated,
            *(value for name in self._integers for value in self._given.get(name, ())),
        ]
        pending, seen = list(evaluated), set[str]()
        while pending:
            value = pending.pop()
            if value.open:
                return True
            for name in value.names - seen:
                seen.add(name)
                pending += self._given.get(name, ())
        return False


def of_text(text: str) -> Value:
    """Return the value of a word, parts of which may be known only to the running shell."""
    return Value(frozenset(_NAME.findall(text)), HOLE in text or "$" in text or "`" in text)


def evaluated(root: Node) -> Evaluated | None:
    """Return what the tree of a line evaluates; None if it neither evaluates nor sets anything."""
    reading = _Reading()
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type == "function_definition" and (name := node.child_by_field_name("name")) is not None:
            reading.functions.append(_text(name))
        pending.extend(node.children)
    pending = [root]
    while pending:
        node = pending.pop()
        reading.read(node)
        pending.extend(node.children)
    return reading.found()


class _Reading:
    def __init__(self) -> None:
        self.functions: list[str] = []
        self._given: list[tuple[str, Value]] = []
        self._evaluated: list[Value] = []
        self._calls: list[tuple[str, Value]] = []
        self._integers: list[str] = []
        self._hidden: list[str] = []

    def found(self) -> Evaluated | None:
        if not (self._given or self._evaluated or self._hidden or self._calls):
            return None
        return Evaluated(
            tuple(self._given),
            tuple(self._evaluated),
            tuple(self._calls),
            tuple(self.functions),
            tuple(self._integers),
            tuple(self._hidden),
        )

    def read(self, node: Node) -> None:
        match node.type:
            case "arithmetic_expansion":
                self._evaluate_inside(node)
            case "compound_statement" if node.children[0].type == "((":
                self._evaluate_inside(node)
            case "c_style_for_statement":
                self._evaluate_inside(node, but="do_group")
            case "subscript":
                self._evaluate(node.children_by_field_name("index"))
            case "expansion":
                self._expansion(node)
            case "variable_assignment":
                self._assignment(node)
            case "for_statement":
                self._for(node)
            case "declaration_command":
                self._declaration(node.children[1:])
            case "unset_command":
                self._named(node.children[1:])
            case "test_command":
                self._test(node)
            case "command":
                self._command(node)

    def _evaluate(self, nodes: Iterable[Node]) -> None:
        self._evaluated.append(self._value(nodes))

    def _evaluate_inside(self, node: Node, but: str = "") -> None:
        odd = any("$" in gap or "`" in gap for gap in _gaps(node))
        value = self._value(child for child in node.named_children if child.type != but)
        self._evaluated.append(Value(value.names, value.open or odd))

    def _named(self, nodes: Iterable[Node]) -> None:
        """Words that are the names of variables. A plain name is not evaluated; an index in it is."""
        for node in nodes:
            word = _word(node).partition("=")[0]
            if "[" in word or not is_known(word):
                self._evaluated.append(self._value([node]))

    def _set_by(self, nodes: Iterable[Node]) -> None:
        """Note words that name variables whose new values are unknown here."""
        for node in nodes:
            name = _word(node).partition("=")[0].partition("[")[0]
            if _NAME.fullmatch(name):
                self._given.append((name, Value(open=True)))
                self._hidden.append(name)
            elif not is_known(name):
                self._hidden.append(HOLE)

    # The places

    def _expansion(self, node: Node) -> None:
        text = _text(node)
        operators = {child.type for child in node.children if not child.is_named}
        first, rest = (node.named_children[:1], node.named_children[1:])
        only_names = re.fullmatch(r"\$\{!\w+(?:\[[@*]\]|[@*])\}", text)
        if text.endswith("@P}") or (text.startswith("${!") and not only_names):
            self._evaluate(node.named_children)
        elif ":" in operators:
            self._evaluate(rest)
        elif operators & {"=", ":="} and first:
            name = _text(first[0]).partition("[")[0]
            self._given.append((name, self._value(rest)))
            self._hidden.append(name)

    def _assignment(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return
        values = [value] if value is not None else []
        self._given.append((_text(name).partition("[")[0], self._value(values)))
        if value is not None and value.type == "array":
            self._evaluate(child for child in value.named_children if _text(child).startswith("["))

    def _for(self, node: Node) -> None:
        variable = node.child_by_field_name("variable")
        values = node.children_by_field_name("value")
        given = self._value(values) if values else Value(frozenset({ARGUMENTS}))
        if variable is not None:
            self._given.append((_text(variable), given))
            self._hidden.append(_text(variable))

    def _declaration(self, nodes: Sequence[Node]) -> None:
        flags = "".join(_text(node) for node in nodes if node.type == "word" and _text(node)[:1] in "-+")
        # A flag that only the running shell knows may be any.
        unclear = any(
            node.type in ("simple_expansion", "expansion", "command_substitution") for node in nodes
        )
        for node in nodes:
            if node.type == "variable_assignment":
                name = node.child_by_field_name("name")
                if "i" in flags or unclear:
                    self._integers.append(_text(name).partition("[")[0] if name else HOLE)
                if set("naA") & set(flags) or unclear:
                    self._evaluate(node.children_by_field_name("value"))
                if "n" in flags:
                    # What is given to a reference, the variable that it names gets.
                    self._hidden += _NAME.findall(_text(node).partition("=")[2])
            elif node.type == "variable_name":
                self._integers += [_text(node)] if "i" in flags else []
            elif not _text(node).startswith(("-", "+")):
                if set("inaA") & set(flags) or unclear:
                    self._evaluate([node])
                self._named([node])
                self._set_by([node])

    def _test(self, node: Node) -> None:
        """`[[ x -eq 1 ]]` evaluates both sides; `-v` its name. `[` splits words that are not in quotes."""
        single = node.children[0].type != "[["
        pending = list(node.named_children)
        while pending:
            here = pending.pop()
            parts = here.children
            operator = next((_text(part) for part in parts if part.type == "test_operator"), "")
            if operator in _COMPARES and not single:
                self._evaluate(part for part in parts if part.type != "test_operator")
            elif operator in _NAMES:
                self._named(part for part in parts if part.type != "test_operator")
            if single and here.type in (
                "simple_expansion",
                "expansion",
                "command_substitution",
                "concatenation",
            ):
                self._evaluate([here])
            elif here.type in (
                "binary_expression",
                "unary_expression",
                "parenthesized_expression",
                "negation_expression",
            ):
                pending += here.named_children
            elif here.type not in ("string", "raw_string", *_LITERALS):
                pending += here.named_children if not single else []

    def _command(self, node: Node) -> None:
        words = [child for child in node.children if child.is_named and not child.type.endswith("_redirect")]
        words = [child for child in words if child.type != "variable_assignment"]
        while len(words) > 1 and _word(words[0]) in ("command", "builtin"):
            words.pop(0)
        if not words:
            return
        name, rest = _word(words[0]), words[1:]
        match name:
            case "let":
                self._evaluate(rest)
            case "test" | "[":
                self._test_words(rest)
            case "unset":
                self._named(rest)
            case "printf":
                first = _word(rest[0]) if rest else ""
                if len(rest) > 1 and (first.startswith("-v") or not is_known(first[:2])):
                    self._named(rest[:2])
                    self._set_by(node for node in rest[:2] if first == "-v" or is_known(_word(node)))
            case _ if name in _SETS:
                self._named(rest)
                self._set_by(rest)
            case _ if name in _DECLARES:
                self._evaluate(rest)
                self._set_by(rest)
            case _ if name == "set" or name in self.functions or not is_known(name):
                self._calls.append((name, self._value(rest)))

    def _test_words(self, nodes: Sequence[Node]) -> None:
        for before, node in zip((None, *nodes), nodes, strict=False):
            asked = before is not None and (_word(before) in _NAMES or not is_known(_word(before)))
            in_the_middle = (
                len(nodes) == 3 and node is nodes[2] and _word(nodes[1]).startswith(("=", "!", "-"))
            )
            if node.type not in ("string", "raw_string", *_LITERALS) or (asked and not in_the_middle):
                self._evaluate([node])

    # Values

    def _value(self, nodes: Iterable[Node]) -> Value:
        names, is_open = set[str](), False
        pending = list(nodes)
        while pending:
            node = pending.pop()
            match node.type:
                case "arithmetic_expansion" | "process_substitution":
                    continue  # a number, which is evaluated where it stands; or the name of a pipe
                case "command_substitution":
                    is_open |= not self._is_number(node)
                case "simple_expansion":
                    names.add(_text(node)[1:])
                case "variable_name" | "special_variable_name":
                    names.add(_text(node))
                case "raw_string" | "ansi_c_string":
                    literal = _word(node)
                    is_open |= bool(re.search(f"[$`{HOLE}]", literal))
                    names |= set(_NAME.findall(literal))
                case kind if kind in _LITERALS and not node.named_child_count:
                    literal = _text(node)
                    is_open |= "$" in literal or "`" in literal
                    names |= set(_NAME.findall(literal))
                case "expansion" if re.search(r"[/\\'\"^,@]", re.sub(r"\[@\]", "", _text(node))):
                    is_open = True  # it may make any text of what it is given
                case _:
                    is_open |= any("$" in gap or "`" in gap for gap in _gaps(node))
                    pending += node.children
        names = {ARGUMENTS if re.fullmatch(r"\d+|[@*]", name) else name for name in names} - _NUMBERS
        return Value(frozenset(names), is_open or bool(names & _ELSEWHERE))

    def _is_number(self, node: Node) -> bool:
        """Return whether a substitution is known to produce a number."""
        if self.functions or len(node.named_children) != 1:
            return False
        last = node.named_children[0]
        while last.type in ("pipeline", "redirected_statement") and last.named_children:
            last = last.named_children[-1 if last.type == "pipeline" else 0]
        words = [_word(child) for child in last.named_children] if last.type == "command" else [""]
        match words:
            case ["wc", *rest]:
                return all(re.fullmatch(r"-[lcwmL]+", word) for word in rest)
            case ["date", *rest]:
                return all(re.fullmatch(r"-u|\+(?:%-?[sYmdHMSjNuwye]|\d)+", word) for word in rest)
            case (
                ["nproc", *_]
                | ["tput", "cols" | "lines"]
                | ["id", "-u" | "-g"]
                | ["git", "rev-list", "--count", *_]
            ):
                return True
            case ["stat", "-c", form, *_]:
                return re.fullmatch(r"%[sYaugi]", form) is not None
        return False


def _gaps(node: Node) -> Iterator[str]:
    """Yield the text of a node between its children; a sign that opens a known child belongs to the child."""
    source, at = node.text or b"", 0
    for child in node.children:
        yield from_letters(source[at : child.start_byte - node.start_byte])
        if not child.is_named and child.type not in ("${", "$((", "$[", "$(", "`", '$"'):
            yield _text(child)
        at = child.end_byte - node.start_byte
    yield from_letters(source[at:])


def _word(node: Node) -> str:
    try:
        return word_of(node)
    except Misread:
        return HOLE


def _text(node: Node) -> str:
    return from_letters(node.text)
