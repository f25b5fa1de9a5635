"""Adding to a human's JSON text, and removing the addition again, with every other byte unchanged.

An addition is one piece of text in one place; nothing else is rewritten. So it can be found from the text alone: of
all ways to cut something out, the right one is that from which adding leads back to this text. To make this certain,
a value added to an existing empty object begins with a blank, and one whose object was created for it does not.

Comments and commas before a closing bracket, as editors allow them in settings, are understood and kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
COMMENT = re.compile(rf"{STRING.pattern}|//[^\n]*|/\*.*?\*/", re.DOTALL)
DEPTH_MAX = 100


class NotJson(Exception):
    """The text is not JSON; the message says where."""


class Node(msgspec.Struct):
    """A value, and its position. In an object each child is a value with its key."""

    start: int
    end: int
    value: Any
    children: list[Node] = msgspec.field(default_factory=list)
    key: str = ""
    key_start: int = -1
    comma: int = -1
    """The position of the comma after it, if there is one."""

    @property
    def first(self) -> int:
        """The position of its beginning, including its key."""
        return self.start if self.key_start < 0 else self.key_start

    def child(self, key: str) -> Node | None:
        """Return the member with this key; the last one counts, as in other parsers."""
        return next((child for child in reversed(self.children) if child.key == key), None)


def parse(text: str) -> Node:
    """Return the value of the whole text."""
    start = _skip(text, 0)
    node = _value(text, start, 0)
    if (rest := _skip(text, node.end)) != len(text):
        raise NotJson(_where(text, rest))
    return node


def oddity(text: str, *, comments: bool) -> str:
    """Return what is not strict JSON in a text that can be read here, or ""; with `comments` these are allowed."""
    plain = text.removeprefix("\ufeff")
    if comments:
        plain = COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", plain)
    try:
        json.loads(plain)
    except ValueError:
        has = any(found[0][0] == "/" for found in COMMENT.finditer(plain))
        return "comments" if has else "a comma before a closing bracket"
    return ""


def _skip(text: str, at: int) -> int:
    found = BLANK.match(text, at)
    return found.end() if found else at


def _where(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"


def _value(text: str, at: int, depth: int) -> Node:
    if depth > DEPTH_MAX:
        raise NotJson(f"{_where(text, at)}, which is nested too deeply")
    if text[at : at + 1] in ("{", "["):
        return _container(text, at, depth)
    found = STRING.match(text, at) or SCALAR.match(text, at)
    if not found:
        raise NotJson(_where(text, at))
    return Node(at, found.end(), _plain(text, found))


def _plain(text: str, found: re.Match[str]) -> Any:
    try:
        return json.loads(found[0])
    except ValueError:
        raise NotJson(_where(text, found.start())) from None


def _container(text: str, at: int, depth: int) -> Node:
    opening, node = text[at], Node(at, at, [] if text[at] == "[" else {})
    closing, place = "]" if opening == "[" else "}", _skip(text, at + 1)
    while text[place : place + 1] != closing:
        if node.children and node.children[-1].comma < 0:
            raise NotJson(_where(text, place))
        key, key_start = "", -1
        if opening == "{":
            found = STRING.match(text, place)
            colon = _skip(text, found.end()) if found else place
            if not found or text[colon : colon + 1] != ":":
                raise NotJson(_where(text, place))
            key, key_start, place = str(_plain(text, found)), place, _skip(text, colon + 1)
        child = _value(text, place, depth + 1)
        child.key, child.key_start = key, key_start
        node.children.append(child)
        if opening == "{":
            node.value[key] = child.value
        else:
            node.value.append(child.value)
        place = _skip(text, child.end)
        if text[place : place + 1] == ",":
            child.comma = place
            place = _skip(text, place + 1)
    node.end = place + 1
    return node


# --- Adding ---


def added(text: str, container: Node, key: str, value: Any) -> str:
    """Return the text with one more value at the end of a container, under this key if it is an object."""
    blank = _blank_before(text, container)
    name = f"{json.dumps(key)}: " if key else ""
    written = name + _written(text, value, _indent(text, container, blank))
    if not container.children:
        place, piece = container.start + 1, f" {written}"
    elif (last := container.children[-1]).comma >= 0:
        place, piece = last.comma + 1, f"{blank}{written},"
    else:
        place, piece = last.end, f",{blank}{written}"
    return text[:place] + piece + text[place:]


def _blank_before(text: str, container: Node) -> str:
    """Return the blanks before the last child, for use before one more."""
    if not container.children:
        return ""
    end = container.children[-1].first
    return text[len(text[:end].rstrip(" \t\r\n")) : end]


def _indent(text: str, container: Node, blank: str) -> str:
    """Return the indentation for the lines of a new child."""
    if "\n" in blank:
        return blank.rpartition("\n")[2]
    line = text[text.rfind("\n", 0, container.start) + 1 : container.start]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _written(text: str, value: Any, indent: str) -> str:
    """Return a value in the style of the text: on one line, or on lines indented like the others."""
    if "\n" not in text.strip():
        return json.dumps(value, ensure_ascii=False)
    found = re.search(r"\n([ \t]+)\S", text)
    written = pretty(value, found[1] if found else "  ")
    return written.replace("\n", ("\r\n" if "\r\n" in text else "\n") + indent)


def pretty(value: Any, step: str = "  ") -> str:
    """Return a value with one line for each member of an object, so that a diff of settings is easy to read."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False)
    members = (
        f"{json.dumps(key, ensure_ascii=False)}: {pretty(inner, step)}" for key, inner in value.items()
    )
    lines = [member.replace("\n", f"\n{step}") for member in members]
    return "{\n" + step + f",\n{step}".join(lines) + "\n}"


# --- Taking out ---


def without(text: str, path: Sequence[Node], add: Callable[[str], str]) -> str:
    """Return the text without the last node of a path from the root, and without parents that become empty.

    `add` is the function that put it there; it returns another text for input that is not JSON. If nothing else was
    changed since, the result is exactly the earlier text.
    """
    for candidate in _candidates(text, path):
        if add(candidate) == text:
            return candidate
    # The text was rewritten or extended. Remove the largest part that contains nothing else.
    place = len(path) - 1
    while place > 1 and len(path[place - 1].children) == 1:
        place -= 1
    return _plainly(text, path[place - 1], path[place])


def _candidates(text: str, path: Sequence[Node]) -> Iterator[str]:
    yield ""  # the file did not exist
    for place in range(len(path) - 1, 0, -1):
        container, node = path[place - 1], path[place]
        index = next(i for i, child in enumerate(container.children) if child is node)
        if index:
            before = container.children[index - 1]
            yield text[: before.end] + text[node.end :]
            if node.comma >= 0:
                yield text[: before.comma + 1] + text[node.comma + 1 :]
        else:
            yield text[: container.start + 1] + text[node.end :]
        if len(container.children) > 1:
            return


def _plainly(text: str, container: Node, node: Node) -> str:
    index = next(i for i, child in enumerate(container.children) if child is node)
    if index:
        return text[: container.children[index - 1].end] + text[node.end :]
    if len(container.children) > 1:
        return text[: node.first] + text[container.children[1].first :]
    return text[: container.start + 1] + text[container.end - 1 :]
