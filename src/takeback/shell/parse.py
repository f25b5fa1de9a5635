"""A shell line as a small tree of commands.

The parser is that of editors: it never fails, it guesses. So its work is checked here, and wherever it may have
seen something else than a shell would, the tree has a `Doubt`: then the line is unknown, whatever else is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from takeback.shell.evaluation import Evaluated, evaluated
from takeback.shell.words import (
    HOLE,
    Misread,
    as_letters,
    from_letters,
    target_and_words,
    value_of,
    word_of,
    words_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEPTH_MAX = 200
BYTES_MAX = 100_000
INTRICATE_MAX = 1000
"""Of what makes the parser try many ways, each of which may go on to the end: this many take a tenth of a second."""
_INTRICATE = re.compile(r"=\(|<<|\||\$\{")
_SETS_BY_THE_WAY = re.compile(r"\(\(|\$\[|\$\{[^}]*=|\[\[[^\]]*-(?:eq|ne|lt|le|gt|ge)\b")
"""What may set a variable inside a word or a test."""
STATEMENTS = {
    *(
        "command",
        "variable_assignment",
        "variable_assignments",
        "redirected_statement",
        "declaration_command",
    ),
    *(
        "unset_command",
        "test_command",
        "subshell",
        "compound_statement",
        "pipeline",
        "list",
        "negated_command",
    ),
}


class Redirect(msgspec.Struct, frozen=True):
    path: str
    writes: bool
    appends: bool = False


class Simple(msgspec.Struct, frozen=True):
    """One command: its words, its other input, and the substitutions inside its words."""

    words: tuple[str, ...]
    assigned: tuple[str, ...] = ()
    """Names of variables that are set for it."""
    redirects: tuple[Redirect, ...] = ()
    stdin: str | None = None
    """What it reads from a here-document, where that is known."""
    inside: tuple[Part, ...] = ()
    """Substitutions: they run before it."""
    values: tuple[tuple[str, str | None], ...] = ()
    """Variables that the shell itself sets, each with its text; None where that is not known, `*` for any."""
    line: int = 0
    """Where it stands in the text."""


class Block(msgspec.Struct, frozen=True):
    """Several parts. `kind` says how they belong together: see `Kind`."""

    kind: str
    parts: tuple[Part, ...]
    name: str = ""
    """The function that it is, or the variable that it goes on with."""
    words: tuple[str, ...] = ()
    """What that variable holds, one after the other."""


class Doubt(msgspec.Struct, frozen=True):
    """Something that could not be read with certainty."""

    why: str
    limit: bool = False
    """Whether it was not read at all, because it is more than is read."""


Part = Simple | Block | Doubt | Evaluated

SEQUENCE, AND, OR, PIPE = "sequence", "and", "or", "pipe"
APART = "apart"
"""In a shell of its own: what it does to the folder ends with it."""
REPEATED = "repeated"
BRANCHES = "branches"
"""Of its parts, some run and others do not."""
FUNCTION = "function"
BACKGROUND = "background"


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def read(text: str) -> Block:
    """Parse a line, as far as it can be understood."""
    doubts: list[Part] = []
    if len(text) > BYTES_MAX:
        return Block(SEQUENCE, (Doubt(f"it is longer than {BYTES_MAX:,} characters", limit=True),))
    if len(_INTRICATE.findall(text)) > INTRICATE_MAX:
        return Block(SEQUENCE, (Doubt("it is too intricate", limit=True),))
    plain = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "", text)
    if plain != text:
        doubts.append(Doubt("it has control characters in it"))
    if _SETS_BY_THE_WAY.search(plain):
        doubts.append(Simple((), values=(("*", None),)))
    source = as_letters(plain).encode("ascii")
    root = _parser().parse(source).root_node
    if root.has_error:
        doubts.append(Doubt("it cannot be parsed as a shell line"))
    doubts += [Doubt(why) for why in _oversights(root, source)]
    try:
        doubts += filter(None, [evaluated(root)])
        overlooked = (*_read_again(root, source), *_inside_texts(root))
        return Block(SEQUENCE, (*doubts, *_children(root, 0), *overlooked))
    except RecursionError:
        return Block(SEQUENCE, (*doubts, Doubt("it is nested too deeply", limit=True)))


def _read_again(root: Node, source: bytes) -> tuple[Part, ...]:
    """Parse a line that was not understood once more, with unsupported syntax replaced by an equivalent.

    `((` that is not arithmetic opens two subshells, as in `((git push) )`; and after `<<END` a line may go on.
    """
    if not root.has_error:
        return ()
    others = [re.sub(rb"\((?=\()", b"( ", source)] if b"((" in source else []
    others += re.findall(rb"<<-?\s*['\"]?\w+['\"]?\s*[;&|]+([^\n]*)", source)[:DEPTH_MAX]
    return tuple(part for other in others for part in _children(_parser().parse(other).root_node, 0))


# What the parser may have overlooked

_TEXTS = {"raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_content"}
"""What a shell takes as it stands. Here-documents are looked at elsewhere."""
_SUBSTITUTION = re.compile(rb"(?<!\\)(?:\\\\)*(?:`|\$[({\[]|[<>]\()")


def _inside_texts(root: Node) -> Iterator[Part]:
    """Yield substitutions that the parser took for text, as in `${x%$(git push)}` and `[[ x =~ (`git push`) ]]`."""
    pending = [root]
    while pending:
        here = pending.pop()
        pending.extend(here.children)
        text = b"" if here.child_count or not here.is_named or here.type in _TEXTS else here.text or b""
        if _SUBSTITUTION.search(text):
            yield Doubt("a substitution inside a pattern or a default")
            yield from _as_quoted(text)


def _as_quoted(text: bytes) -> tuple[Part, ...]:
    """Return what is run in a text that is expanded like one in double quotes."""
    quoted = b': "' + text.replace(b'"', b"'") + b'"'
    return _children(_parser().parse(quoted).root_node, 0)


def _oversights(root: Node, source: bytes) -> Iterator[str]:
    """Yield text outside all tokens, false comments, and here-documents that end elsewhere."""
    at = 0
    for leaf in _leaves(root):
        if re.search(rb"[^ \t\r\n\\]|\\(?!\r?\n)", source[at : leaf.start_byte]):
            yield "a part of it was not understood"
        if leaf.type == "comment" and not re.match(
            rb"[\s;&|()]", source[leaf.start_byte - 1 : leaf.start_byte] or b" "
        ):
            yield "a comment begins inside a word"
        if leaf.type == "comment" and b"\n" in (leaf.text or b""):
            yield "a comment has several lines"
        at = max(at, leaf.end_byte)
    if source[at:].strip():
        yield "a part of it was not understood"


def _leaves(node: Node) -> Iterator[Node]:
    pending = [node]
    while pending:
        here = pending.pop()
        # A here-document is data; its substitutions are looked at elsewhere.
        if here.child_count and here.type != "heredoc_body":
            pending.extend(reversed(here.children))
        elif here is not node:
            yield here


# From the parser's tree to ours


def _children(node: Node, depth: int) -> tuple[Part, ...]:
    """Return the parts below a node, each where a shell would run it."""
    return _in_a_row(node.children, depth)


def _in_a_row(nodes: Iterable[Node], depth: int) -> tuple[Part, ...]:
    found: list[Part] = []
    last: Node | None = None
    for child in nodes:
        if child.type == "&" and found:
            found[-1] = Block(BACKGROUND, (found[-1],))
        elif child.is_named:
            if (
                last is not None
                and {last.type, child.type} <= STATEMENTS
                and last.end_byte == child.start_byte
            ):
                found.append(Doubt("two commands without anything between them"))
            found += _parts(child, depth + 1)
        last = child
    return tuple(found)


def _parts(node: Node, depth: int) -> Iterator[Part]:
    if depth > DEPTH_MAX:
        yield Doubt("it is nested too deeply", limit=True)
        return
    try:
        yield from _converted(node, depth)
    except Misread as misread:
        yield Doubt(f"{misread} was not understood")
        yield from _children(node, depth)


def _converted(node: Node, depth: int) -> Iterator[Part]:
    match node.type:
        case "command":
            yield _simple(node, [], depth)
        case "redirected_statement":
            yield from _redirected(node, depth)
        case "list":
            yield from _list(node, depth)
        case "pipeline":
            yield Block(PIPE, _children(node, depth))
        case "subshell" | "command_substitution" | "process_substitution":
            yield from _apart(node, depth)
        case "for_statement" | "while_statement" | "c_style_for_statement":
            yield _loop(node, depth)
        case "if_statement" | "elif_clause" | "case_statement":
            yield Block(BRANCHES, tuple(_branches(node, depth)))
        case "function_definition":
            name = node.child_by_field_name("name")
            yield Block(FUNCTION, _children(node, depth), _text(name) if name else HOLE)
        case "variable_assignment":
            set_to = (_assigned(node), _value(node))
            yield Simple((), set_to[:1], inside=_children(node, depth), values=(set_to,))
        case kind if kind.endswith("_redirect"):
            # One that is not a command's: of a function, whenever it runs.
            words: list[str] = []
            paths, stdin, inside = _redirects([node], depth, words)
            yield Simple(tuple(words), redirects=tuple(paths), stdin=stdin, inside=tuple(inside))
        case "declaration_command" | "unset_command" | "test_command" | "compound_statement":
            yield from _redeclared(node)
            yield from _children(node, depth)
        case _:
            yield from _children(node, depth)


def _value(node: Node) -> str | None:
    """Return the text that a variable is set to; None for an array, a part of one, or an append (`+=`)."""
    value = node.child_by_field_name("value")
    kinds = {child.type for child in node.children}
    if "subscript" in kinds or "=" not in kinds or (value is not None and value.type == "array"):
        return None
    return "" if value is None else value_of(value)


def _redeclared(node: Node) -> Iterator[Part]:
    """With `declare -n`, `-i` or `-u` a variable does not hold what it is set to; a constant keeps what it held."""
    if re.match(r"\w+\s+-|unset|readonly", _text(node)):
        yield Simple((), values=(("*", None),))


def _loop(node: Node, depth: int) -> Block:
    """Return a loop, perhaps over words. Without `in`, `for` goes over the arguments of the shell."""
    if node.type != "for_statement":
        return Block(REPEATED, _children(node, depth))
    variable = node.child_by_field_name("variable")
    named = words_of(node.children_by_field_name("value"))
    words = named if any(child.type == "in" for child in node.children) else [HOLE]
    return Block(REPEATED, _children(node, depth), _text(variable) if variable else HOLE, tuple(words))


def _branches(node: Node, depth: int) -> Iterator[Part]:
    """Yield each condition, and each part that runs only under one."""
    arm: list[Node] = []
    for child in node.children:
        if child.type in ("then", "elif_clause", "else_clause", "case_item"):
            yield Block(SEQUENCE, _in_a_row(arm, depth))
            arm = []
        arm.append(child)
    yield Block(SEQUENCE, _in_a_row(arm, depth))


def _apart(node: Node, depth: int) -> Iterator[Part]:
    text = _text(node).strip()
    if text.startswith("`") and "\\" in text:
        yield Doubt("backticks with a backslash in them")
    yield Block(APART, _children(node, depth))


def _list(node: Node, depth: int) -> Iterator[Part]:
    yield Block(_kind_of_list(node), _children(node, depth))


def _kind_of_list(node: Node) -> str:
    return AND if any(child.type == "&&" for child in node.children) else OR


def _simple(node: Node, redirects: list[Node], depth: int) -> Simple:
    words: list[Node] = []
    assigned: list[str] = []
    around = list(redirects)
    inner: list[Node] = []
    end, is_word = -1, True  # of the child before
    for child in node.children:
        begins_inside = not is_word and end == child.start_byte
        end, is_word = child.end_byte, False
        if child.type.endswith("_redirect"):
            around.append(child)
        else:
            inner.append(child)
            if child.type == "variable_assignment":
                assigned.append(_assigned(child))
            elif child.is_named or child.type not in ("(", ")"):
                if begins_inside:
                    raise Misread("a word that begins inside another")
                words.append(child)
                is_word = True
    # What is misread is found before anything inside it is looked at: then it is looked at only once.
    named = words_of(words)
    paths, stdin, more = _redirects(around, depth, named)
    inside = [part for child in inner if child.child_count for part in _within(child, depth + 1)]
    at = node.start_point.row + 1
    return Simple(tuple(named), tuple(assigned), tuple(paths), stdin, (*inside, *more), line=at)


def _within(node: Node, depth: int) -> Iterable[Part]:
    # A variable that is set for this command only is the command's own.
    return _children(node, depth) if node.type == "variable_assignment" else _parts(node, depth)


def _assigned(node: Node) -> str:
    name = _text(found) if (found := node.child_by_field_name("name")) else ""
    if not name.isascii():
        raise Misread("a name that is none")  # to a shell, this is a command
    return name.partition("[")[0]


# Redirections


def _redirected(node: Node, depth: int) -> Iterator[Part]:
    body = node.child_by_field_name("body")
    redirects = [child for child in node.children if child.type.endswith("_redirect")]
    if body is not None and body.type == "command":
        command: Part = _simple(body, redirects, depth)
        yield from _after_heredoc(command, redirects, depth)
        return
    words: list[str] = []
    paths, stdin, inside = _redirects(redirects, depth, words)
    target = Simple(tuple(words), redirects=tuple(paths), stdin=stdin, inside=tuple(inside))
    if body is not None and body.type == "list":
        # It is that of the last command, which runs in the folder that those before it lead to.
        block = Block(_kind_of_list(body), (*_children(body, depth), target))
        yield from _after_heredoc(block, redirects, depth)
        return
    yield target
    if body is not None:
        parts = tuple(_parts(body, depth + 1))
        yield from _after_heredoc(Block(SEQUENCE, parts), redirects, depth)


def _after_heredoc(first: Part, redirects: list[Node], depth: int) -> Iterator[Part]:
    """Yield what follows `<<END` on its line; the parser wrongly puts it below the here-document."""
    piped: list[Part] = [first]
    others: list[Part] = []
    for redirect in redirects:
        if redirect.type == "heredoc_redirect":
            for child in redirect.named_children:
                if child.type == "pipeline":
                    piped += _children(child, depth)
                elif child.type in ("heredoc_start", "heredoc_body", "heredoc_end") or child.type.endswith(
                    "_redirect"
                ):
                    continue
                else:
                    others += _more_after(child, depth)
    yield Block(PIPE, tuple(piped)) if len(piped) > 1 else first
    yield from others


def _more_after(child: Node, depth: int) -> Iterator[Part]:
    """Yield a further command; or further words of the command before, which are then not where they belong."""
    if child.type in (
        "word",
        "string",
        "raw_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "number",
    ):
        yield Doubt("words after a here-document")
    yield from _parts(child, depth + 1)


def _redirects(
    nodes: list[Node], depth: int, words: list[str]
) -> tuple[list[Redirect], str | None, list[Part]]:
    """Where a command writes, what it reads, what runs for that; further words of it are added to `words`."""
    paths: list[Redirect] = []
    stdin: str | None = None
    inside: list[Part] = []
    for node in _each(nodes):
        if node.type == "herestring_redirect":
            stdin = word_of(node.named_children[-1]) + "\n"
        elif node.type == "file_redirect":
            paths += _file(node, words)
    for node in _each(nodes):
        if node.type == "heredoc_redirect":
            stdin = _heredoc(node, inside, depth)
        else:
            inside += _children(node, depth)
    return paths, stdin, inside


def _each(nodes: list[Node]) -> Iterator[Node]:
    """Yield redirections, including those that the parser puts below a here-document."""
    for node in nodes:
        yield node
        if node.type == "heredoc_redirect":
            yield from _each([child for child in node.children if child.type.endswith("_redirect")])


def _file(node: Node, words: list[str]) -> Iterator[Redirect]:
    operator = next((child.type for child in node.children if not child.is_named), "")
    # The parser gives all words that follow to the redirection; a shell gives it only the first.
    target, more = target_and_words(node.children_by_field_name("destination"))
    words += more
    if operator not in (">&", "<&", ">&-", "<&-") or not re.fullmatch(r"\d*-?", target):
        yield Redirect(target, operator not in ("<", "<&", "<&-"), operator in (">>", "&>>"))


def _heredoc(node: Node, inside: list[Part], depth: int) -> str | None:
    """Return the text of a here-document, and what is run inside it."""
    parts = {child.type: child for child in node.children}
    body, start = parts.get("heredoc_body"), parts.get("heredoc_start")
    named = re.fullmatch(r"(['\"]?)(\\?)([\w.-]+)\1", _text(start) if start else "")
    if body is None or named is None or "heredoc_end" not in parts:
        inside.append(Doubt("a here-document without a plain end"))
        return None
    text, end = _text(body), named[3]
    lines = [line.lstrip("\t") if "<<-" in parts else line for line in text.split("\n")]
    if end in lines or _text(parts["heredoc_end"]).strip() != end:
        inside.append(Doubt("a here-document that may end elsewhere"))
    if named[1] or named[2]:
        return "\n".join(lines)
    found = _children(body, depth)
    inside += found
    if re.search(r"`|\$\(", text) and not found:
        inside.append(Doubt("a substitution in a here-document"))
        inside += _as_quoted(as_letters(text).encode("ascii"))
    return None if re.search(r"[`$\\]", text) else "\n".join(lines)


def _text(node: Node) -> str:
    return from_letters(node.text)
