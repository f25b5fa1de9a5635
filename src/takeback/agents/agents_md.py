"""The start-up section in AGENTS.md and CLAUDE.md: written once, kept up to date, removed without a trace."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.errors import BackendError
from takeback.system.exchange import exchange

FILES = ("AGENTS.md", "CLAUDE.md")
BEGIN, END = b"<!-- takeback:workflows begin -->", b"<!-- takeback:workflows end -->"
BLOCK = re.compile(re.escape(BEGIN) + rb".*?" + re.escape(END) + rb"(?:\r?\n)?", re.DOTALL)
RULE = (
    "Restart-safe workflow rule: On startup, check `memory/checkpoints/*.json` for unfinished workflows. If found, "
    "acquire the resume lock, validate checkpoint schema/hash, and continue from the last completed idempotent step."
)
TEXT = f"""\
{RULE}

1. `takeback workflow resume --owner-pid $PPID` does all of this, for `agents/*/memory/checkpoints/*.json`, too, and
   prints the checkpoint as JSON. `NO_CHECKPOINT` means that nothing is waiting. If Takeback is not installed, use
   `python3 scripts/checkpoint_tool.py resume --owner-pid $PPID`.
2. Continue after the last step in `completedSteps`, at `currentStep`. Never repeat a completed step. An interrupted
   step may have taken effect: check that first, or send with `idempotencyKey` and the step's name as the key.
3. After each step: `takeback workflow update --complete STEP --step NEXT`. At the last step:
   `takeback workflow complete`. If you hold several, name one with `--workflow ID`.

Before work in several steps, and before anything that may restart you:
`takeback workflow start --workflow ID --step FIRST --remaining SECOND THIRD --owner-pid $PPID`.
Never write secrets into a checkpoint. A line `INVALID …` is for a human: leave that file alone.
"""

_Change = Callable[[bytes | None], bytes | None]
_Edit = tuple[str, Path, bytes | None, bytes | None]


def write_section(root: Path) -> list[str]:
    """Write the section into AGENTS.md, and into CLAUDE.md if it exists. Return the names of the files written."""
    return _each(root, _with_section, create=True)


def remove_section(root: Path) -> list[str]:
    """Remove the section; all other text stays byte for byte. A file with nothing else in it is deleted."""
    return _each(root, _without_section, create=False)


def section_files(root: Path, *, remove: bool) -> list[str]:
    """Return the files that writing the section, or removing it, would change."""
    change = _without_section if remove else _with_section
    return [name for name, _, old, new in _edits(root, change, create=not remove) if new != old]


def leading_out(root: Path) -> dict[str, Path]:
    """Return the files that are links out of the workspace, which are not followed, with their targets."""
    found = {name: Path(os.path.realpath(root / name)) for name in FILES}
    return {name: real for name, real in found.items() if not _is_inside(root, real)}


def _is_inside(root: Path, real: Path) -> bool:
    return real.is_relative_to(os.path.realpath(root))


def _with_section(old: bytes | None) -> bytes:
    newline = b"\r\n" if old and b"\r\n" in old else b"\n"
    block = newline.join([BEGIN, *TEXT.encode().splitlines(), END, b""])
    if old is None:
        return block
    if BLOCK.search(old):
        return BLOCK.sub(lambda _: block, old, count=1)
    return old + newline + block


def _without_section(old: bytes | None) -> bytes | None:
    if old is None or not (found := BLOCK.search(old)):
        return old
    before = old[: found.start()]
    # One line break was added before the section, except in a file that was created for it.
    if not before and found.end() == len(old):
        return None
    kept = before.removesuffix(b"\r\n") if before.endswith(b"\r\n") else before.removesuffix(b"\n")
    return kept + old[found.end() :]


def _each(root: Path, change: _Change, *, create: bool) -> list[str]:
    written = []
    for name, real, old, new in _edits(root, change, create=create):
        if new != old:
            with _named(root / name):
                exchange(real, old, new)
            written.append(name)
    return written


def _edits(root: Path, change: _Change, *, create: bool) -> Iterator[_Edit]:
    """Yield each file as it is, and as it should be."""
    seen = set()
    for name in FILES:
        real = Path(os.path.realpath(root / name))
        if real in seen or not _is_inside(root, real):
            continue  # a link to the other file, or out of the workspace
        seen.add(real)
        with _named(root / name):
            old = real.read_bytes() if real.exists() else None
        if old is not None or (create and name == FILES[0]):
            yield name, real, old, change(old)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackendError(
            f"{path} cannot be written: {error.strerror}; it is unchanged", hint="check its permissions"
        ) from error
