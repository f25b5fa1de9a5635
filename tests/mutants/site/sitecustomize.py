"""What a Python that a test starts reads first: so it has the fault too, or says which lines it comes to.

`TAKEBACK_MUTANTS` names a folder. In it, `fault` has the path of a file and the text to read instead of it; `files`
has the paths of those of which each line that is reached is written to `reached`.
"""

import os
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

FOLDER = Path(os.environ.get("TAKEBACK_MUTANTS", os.devnull))


def _read(name: str) -> str:
    try:
        return (FOLDER / name).read_text(encoding="utf-8")
    except OSError:
        return ""


def have_fault(path: str, text: str) -> None:
    whole = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        if self.path == path:
            return compile(text, path, "exec", dont_inherit=True)
        return whole(self, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def say_lines(files: set[str]) -> None:
    said: set[tuple[int, str, int]] = set()

    def trace(frame: FrameType, _event: str, _value: object) -> Any:
        if (path := frame.f_code.co_filename) not in files:
            return None
        place = (os.getpid(), path, frame.f_lineno)
        if place not in said:
            said.add(place)
            with (FOLDER / "reached").open("a", encoding="utf-8") as reached:
                reached.write(f"{frame.f_lineno} {path}\n")
        return trace

    threading.settrace(trace)
    sys.settrace(trace)


if fault := _read("fault"):
    have_fault(*fault.split("\n", 1))
if files := _read("files"):
    say_lines(set(files.splitlines()))
