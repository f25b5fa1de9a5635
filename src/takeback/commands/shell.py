"""A shell line as a small tree of commands.

The parser is that of editors: it never fails, it guesses. So its work is checked here, and wherever it may have
seen something else than a shell would, the tree has a `Doubt`: then the line is unknown, whatever else is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from takeback.commands.words import HOLE, Misread, word_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEPTH_MAX = 200
BYTES_MAX = 100_000


class Redirect(msgspec.Struct, frozen=True):
    path: str
    writes: bool


class Simple(msgspec.Struct, frozen=True):
    """One command: its words, what it is given beside them, and what stands inside its words."""

    words: tuple[str, ...]
    assigned: tuple[str, ...] = ()
    """Names of variables that are set for it."""
    redirects: tuple[Redirect, ...] = ()
    stdin: str | None = None
    """What it reads from a here-document, where that is known."""
    inside: tuple[Part, ...] = ()
    """Substitutions: they run before it."""


class Block(msgspec.Struct, frozen=True):
    """Several parts. `kind` says how they belong together: see `Kind`."""

    kind: str
    parts: tuple[Part, ...]
    name: str = ""


class Doubt(msgspec.Struct, frozen=True):
    """Something that could not be read with certainty."""

    why: str


Part = Simple | Block | Doubt

SEQUENCE, AND, OR, PIPE = "sequence", "and", "or", "pipe"
APART = "apart"
"""In a shell of its own: what it does to the folder ends with it."""
REPEATED = "repeated"
FUNCTION = "function"
BACKGROUND = "background"


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def read(text: str) -> Block:
    """The line, as far as it can be understood."""
    doubts: list[Part] = []
    if len(text) > BYTES_MAX:
        return Block(SEQUENCE, (Doubt(f"it is longer than {BYTES_MAX:,} characters"),))
    plain = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "", text)
    if plain != text:
        doubts.append(Doubt("it has control characters in it"))
    source = plain.encode("utf-8", "replace")
    root = _parser().parse(source).root_node
    if root.has_error:
        doubts.append(Doubt("it cannot be parsed as a shell line"))
    doubts += [Doubt(why) for why in _oversights(root, source)]
    try:
        return Block(SEQUENCE, (*doubts, *_children(root, 0)))
    except RecursionError:
        return Block(SEQUENCE, (*doubts, Doubt("it is nested too deeply")))


# What the parser may have overlooked


def _oversights(root: Node, source: bytes) -> Iterator[str]:
    """Text that belongs to no token, comments that are none, and here-documents that end elsewhere."""
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
    """The parts below a node, each where a shell would run it."""
    found: list[Part] = []
    for child in node.children:
        if child.type == "&" and found:
            found[-1] = Block(BACKGROUND, (found[-1],))
        elif child.is_named:
            found += _parts(child, depth + 1)
    return tuple(found)


def _parts(node: Node, depth: int) -> Iterator[Part]:
    if depth > DEPTH_MAX:
        yield Doubt("it is nested too deeply")
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
        case "while_statement" | "for_statement" | "c_style_for_statement":
            yield Block(REPEATED, _children(node, depth))
        case "function_definition":
            name = node.child_by_field_name("name")
            yield Block(FUNCTION, _children(node, depth), _text(name) if name else HOLE)
        case "variable_assignment":
            yield Simple((), (_assigned(node),), inside=_children(node, depth))
        case "declaration_command" | "unset_command" | "test_command" | "compound_statement":
            if node.type != "compound_statement" or _text(node).startswith("(("):
                yield from _evaluated(node)
            yield from _children(node, depth)
        case _:
            yield from _children(node, depth)


def _apart(node: Node, depth: int) -> Iterator[Part]:
    text = _text(node).strip()
    if text.startswith("`") and "\\" in text:
        yield Doubt("backticks with a backslash in them")
    yield Block(APART, _children(node, depth))


def _evaluated(node: Node) -> Iterator[Part]:
    """Names and numbers are evaluated, and an index in them may hold a command, also one in quotes."""
    if re.search(r"['\"][^'\"]*(?:\$\(|`)", _text(node)):
        yield Doubt("something in quotes that may be evaluated")


def _list(node: Node, depth: int) -> Iterator[Part]:
    kind = AND if any(child.type == "&&" for child in node.children) else OR
    yield Block(kind, _children(node, depth))


def _simple(node: Node, redirects: list[Node], depth: int) -> Simple:
    words: list[str] = []
    assigned: list[str] = []
    inside: list[Part] = []
    around = list(redirects)
    last = None
    for child in node.children:
        if child.type == "variable_assignment":
            assigned.append(_assigned(child))
        elif child.type.endswith("_redirect"):
            around.append(child)
            continue
        elif child.is_named or child.type not in ("(", ")"):
            _add_word(words, child, last)
            last = child
        inside += _parts(child, depth + 1) if child.named_child_count or child.type == "ERROR" else ()
    paths, stdin, more = _redirects(around, depth, words)
    return Simple(tuple(words), tuple(assigned), tuple(paths), stdin, (*inside, *more))


def _add_word(words: list[str], node: Node, last: Node | None) -> None:
    """A line may go on after a backslash in the middle of a word; the parser takes that for two."""
    word = word_of(node)
    if last is not None and last.end_point.row < node.start_point.row and not node.start_point.column:
        parent = node.parent
        source, start = (parent.text or b"", parent.start_byte) if parent else (b"", 0)
        if source[last.end_byte - start : node.start_byte - start] in (b"\\\n", b"\\\r\n"):
            words[-1] += word
            return
    words.append(word)


def _assigned(node: Node) -> str:
    name = node.child_by_field_name("name")
    return re.match(r"\w*", _text(name) if name else "")[0]  # type: ignore[index]


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
    yield Simple(tuple(words), redirects=tuple(paths), stdin=stdin, inside=tuple(inside))
    if body is not None:
        parts = tuple(_parts(body, depth + 1))
        yield from _after_heredoc(Block(SEQUENCE, parts), redirects, depth)


def _after_heredoc(first: Part, redirects: list[Node], depth: int) -> Iterator[Part]:
    """What stands on the line after `<<END` belongs to the line; the parser puts it below the here-document."""
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
    """A further command; or further words of the command before, which are then not where they belong."""
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
    for node in nodes:
        if node.type == "heredoc_redirect":
            stdin = _heredoc(node, inside, depth)
            below_it = [child for child in node.children if child.type.endswith("_redirect")]
            more, _, below = _redirects(below_it, depth, words)
            paths += more
            inside += below
            continue
        inside += _children(node, depth)
        if node.type == "herestring_redirect":
            stdin = word_of(node.named_children[-1]) + "\n"
        elif node.type == "file_redirect":
            paths += _file(node, words)
    return paths, stdin, inside


def _file(node: Node, words: list[str]) -> Iterator[Redirect]:
    operator = next((child.type for child in node.children if not child.is_named), "")
    # The parser gives all words that follow to the redirection; a shell gives it only the first.
    target, *more = [*map(word_of, node.children_by_field_name("destination"))] or [""]
    words += more
    if operator not in (">&", "<&", ">&-", "<&-") or not re.fullmatch(r"\d*-?", target):
        yield Redirect(target, operator not in ("<", "<&", "<&-"))


def _heredoc(node: Node, inside: list[Part], depth: int) -> str | None:
    """The text of a here-document, and what is run inside it."""
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
    return None if re.search(r"[`$\\]", text) else "\n".join(lines)


def _text(node: Node) -> str:
    return (node.text or b"").decode()
