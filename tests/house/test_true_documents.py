"""What the documents say of the code is so: versions of formats, signatures, modules, and the list of decisions."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import takeback
from takeback.core.events import EVENTS_VERSION
from takeback.engine.stage.card import FORMAT as STAGE_FORMAT
from takeback.resources.files.outside import scope
from takeback.resources.files.tree import cache as files_cache
from takeback.resources.files.tree import tree
from takeback.resources.git.look import manifest
from takeback.resources.git.look import observer as git_observer
from takeback.resources.postgres import guard
from takeback.resources.sqlite import cache as sqlite_cache
from takeback.storage.content.packs.format import catalog, index, record
from takeback.storage.conversations.postgres import store as conversations_schema
from takeback.storage.conversations.sqlite import store as conversations_file
from takeback.storage.index import stored_index
from takeback.storage.journal.postgres import schema
from takeback.storage.journal.sqlite import file
from takeback.storage.state import location, registry
from tests.house.repository import ROOT, SOURCE, document, files

# --- docs/FORMAT.md: the versions of what is on disk ---


def _line(magic: bytes) -> int:
    return int(magic.split()[-1])


# The rows of the table, with what the code writes.
WRITTEN = {
    "workspace card": registry.CARD_FORMAT,
    "journal database": file.FORMAT,
    "events": EVENTS_VERSION,
    "view": STAGE_FORMAT,
    "packs, index runs, catalog": max(record.PACK_VERSION, index._VERSION, catalog._VERSION),
    "trees": tree.DELTA,
    "conversations.db": conversations_file.FORMAT,
    "conversations in a PostgreSQL store": conversations_schema.FORMAT,
    "guard of a PostgreSQL database": guard.VERSION,
    "index.db": stored_index.FORMAT,
    "files.index": _line(files_cache.MAGIC),
    "sqlite.index": _line(sqlite_cache.MAGIC),
    "git.index": _line(git_observer.MAGIC),
    "picture of a repository": manifest.FORMAT,
    "picture of paths outside": scope.FORMAT,
}


def versions(text: str) -> dict[str, int]:
    """The rows of the table of formats, each with its number."""
    return {name: int(n) for name, n in re.findall(r"^\| ([^|]+?) \| (\d+) \|", text, re.MULTILINE)}


def test_the_versions_of_formats_are_those_of_the_code() -> None:
    text = document("docs/FORMAT.md")
    assert versions(text) == WRITTEN
    assert f"the number of the format, now {schema.FORMAT}." in text
    assert f"`format` ({location.STORE_FORMAT}; " in text


def test_a_version_is_found() -> None:
    assert versions("| a format | 3 | here | refused |\n|---|---|\n| b | x |\n") == {"a format": 3}


# --- docs/PYTHON.md: the signatures of the public API ---

# A type that a document spells out, where the code has a name for it.
SPELLED_OUT = {
    "Approve": "Callable[[Approval], bool | None]",
    "AnyHandler": "Callable[[Call], object] | BoundHandler",
    "Function": "Callable[[Call], object]",
    "Recorded": "RecordedRun",
}
OWNERS = (takeback.Workspace, takeback.Run, takeback.Session, takeback.Thread)
SPOKEN = {
    "tb": takeback.Workspace,
    "run": takeback.Run,
    "session": takeback.Session,
    "thread": takeback.Thread,
    "takeback": takeback,
}


def documented(text: str) -> Iterator[ast.FunctionDef]:
    """The functions in the pyi blocks of a page."""
    for block in re.findall(r"^```pyi\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        whole = re.sub(r"^(?:\)|def .*\)) -> .*$", r"\g<0>: ...", block, flags=re.MULTILINE)
        yield from (node for node in ast.parse(whole).body if isinstance(node, ast.FunctionDef))


def function_of(node: ast.FunctionDef) -> Callable[..., Any]:
    """What a documented function is in the code: a method if it has a self, else a name of the package."""
    is_method = bool(node.args.args) and node.args.args[0].arg == "self"
    owners = OWNERS if is_method else (takeback,)
    found: Callable[..., Any] = next(
        getattr(owner, node.name) for owner in owners if hasattr(owner, node.name)
    )
    return found


def signature(function: Callable[..., Any]) -> str:
    """A function's signature as a document writes it: without names that are the code's own."""
    node = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    assert isinstance(node, ast.FunctionDef)
    known = inspect.signature(function).parameters
    for arguments, defaults in (
        (node.args.args[len(node.args.args) - len(node.args.defaults) :], node.args.defaults),
        (node.args.kwonlyargs, node.args.kw_defaults),
    ):
        for place, (argument, default) in enumerate(zip(arguments, defaults, strict=True)):
            if isinstance(default, ast.Name | ast.Attribute):
                value = known[argument.arg].default
                defaults[place] = ast.Constant(... if callable(value) else value)
    text = shown(node)
    for name, whole in SPELLED_OUT.items():
        text = re.sub(rf"\b{name}\b", whole, text)
    is_block = function is not inspect.unwrap(function)  # decorated as a context manager
    return text.replace("-> Iterator", "-> ContextManager") if is_block else text


def shown(node: ast.FunctionDef) -> str:
    return f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else ''}"


def wrong_signatures(text: str) -> dict[str, tuple[str, str]]:
    """For each function that is documented otherwise than it is: what the page says, and what is so."""
    found = {}
    for node in documented(text):
        said, so = shown(node), signature(function_of(node))
        if said != so:
            found[node.name] = (said, so)
    return found


def spoken(text: str) -> Iterator[tuple[str, str, ast.arguments]]:
    """The calls that a page writes as signatures, such as `run.step(name, retries=0)`: owner, name, parameters."""
    for owner, name, inside in re.findall(r"`(?:with )?(\w+)\.(\w+)\(([^()`]*)\)", text):
        try:
            tree = ast.parse(f"lambda {inside}: 0", mode="eval").body
        except SyntaxError:
            continue
        if owner in SPOKEN and isinstance(tree, ast.Lambda):
            yield owner, name, tree.args


def wrong_calls(text: str) -> list[str]:
    """Name the parameters that a page writes and the function does not have, or has with another default."""
    found = []
    for owner, name, args in spoken(text):
        known = inspect.signature(getattr(SPOKEN[owner], name)).parameters
        is_signature = bool(args.vararg) or bool(args.args[: len(args.args) - len(args.defaults)])
        defaults = dict(zip([a.arg for a in reversed(args.args)], reversed(args.defaults), strict=False))
        defaults |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d}
        for parameter, default in defaults.items():
            if parameter not in known:
                found.append(f"{owner}.{name}({parameter}=)")
            elif is_signature and isinstance(default, ast.Constant):
                if known[parameter].default != default.value:
                    found.append(f"{owner}.{name}({parameter}={default.value!r})")
    return found


def test_the_signatures_of_python_md_are_those_of_the_package() -> None:
    assert len(list(documented(document("docs/PYTHON.md")))) > 20
    assert wrong_signatures(document("docs/PYTHON.md")) == {}


def test_the_calls_in_python_md_can_be_made() -> None:
    assert len(list(spoken(document("docs/PYTHON.md")))) > 5
    assert wrong_calls(document("docs/PYTHON.md")) == []


def test_a_wrong_signature_is_found() -> None:
    page = "```pyi\ndef save(self, message: str = 'x') -> Checkpoint\ndef redo(\n    self,\n) -> None\n```\n"
    assert wrong_signatures(page).keys() == {"save", "redo"}
    assert wrong_calls("`run.step(name, retries=1)`, `with run.lock(name, until=1)`, `tb.undo('a')`") == [
        "run.step(retries=1)",
        "run.lock(until=)",
    ]


# --- Every document: the modules that it names ---

# A module's path as documents write it: from the repository, or from the package on.
MODULE = re.compile(
    r"(?<![\w./-])(?:\.\./)*(?:src/takeback/[\w/]+(?:\.\w+)?|(?:tests|tools|scripts|benchmarks)/[\w/]+\.(?:py|sql))"
)
ROOM = re.compile(r"(?<![\w./-])(?P<room>[a-z_]+)/[a-z_/\d]+(?:\.py|\.sql)?(?![\w-])")


@cache
def rooms() -> frozenset[str]:
    return frozenset(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")


def missing_modules(text: str, folder: Path) -> list[str]:
    """Name the files and packages of the source that a document in `folder` names and that are not there."""
    named = {name for name in MODULE.findall(text) if not _exists(folder, name)}
    for code in re.findall(r"`([^`\n]+)`|\[([^\]\n]+)\]\(", text):
        for match in ROOM.finditer(code[0] or code[1]):
            if match["room"] in rooms() and not _is_in_package(match[0]):
                named.add(match[0])
    return sorted(named)


def _exists(folder: Path, name: str) -> bool:
    return (folder / name if name.startswith("..") else ROOT / name).exists()


def _is_in_package(name: str) -> bool:
    """Whether it is a module or a folder of the package, or a name in one: `engine/runs`, `core/ids.py`."""
    path = SOURCE / name
    return path.exists() or path.with_suffix(".py").exists()


def test_each_module_that_a_document_names_is_there() -> None:
    pages = [path for path in files() if path.suffix == ".md" and "changelog.d" not in path.parts]
    stale = {
        path.relative_to(ROOT).as_posix(): missing
        for path in pages
        if path.name != "CHANGELOG.md"
        and (missing := missing_modules(path.read_text(encoding="utf-8"), path.parent))
    }
    assert stale == {}


def test_a_missing_module_is_found() -> None:
    text = "See `core/ids.py`, `engine/seam`, [x](../src/takeback/ports.py), `engine/runs`, `src/a.py`."
    assert missing_modules(text, ROOT / "docs") == ["../src/takeback/ports.py", "engine/seam"]


# --- docs/ARCHITECTURE.md: the list of decisions ---


def listed_decisions(text: str) -> list[str]:
    return re.findall(r"^\| \[\d{4}\]\(adr/([^)]+)\) \|", text, re.MULTILINE)


def test_each_decision_is_listed_once() -> None:
    made = sorted(path.name for path in (ROOT / "docs/adr").glob("*.md"))
    assert listed_decisions(document("docs/ARCHITECTURE.md")) == made


def test_no_document_says_a_heading_twice() -> None:
    for path in (ROOT / "docs").glob("*.md"):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        headings = re.findall(r"^## .*", text, re.MULTILINE)
        assert len(headings) == len(set(headings)), path.name


def test_a_listed_decision_is_found() -> None:
    assert listed_decisions("| [0007](adr/0007-x.md) | y |\n| 0008 | z |\n") == ["0007-x.md"]
