"""Runs the examples of a document, so that what it shows is true.

All blocks of a document run one after the other in one folder, as a reader would type them:

- ```console: lines with "$ " are commands ("> " goes on with one); the lines below are what they print, where
  `…` stands for anything, within a line or as a line of its own for any number of lines. A command without
  lines below may print what it likes. It exits with 0, or as a last line like "(exit 3)" says.
- ```sh, ```bash, ```shell: a script that exits with 0.
- ```python: a program that exits with 0. With `<!-- save as: NAME -->` before it, a file that the reader saves.

An HTML comment before a block changes that: `<!-- not run: reason -->` leaves the next block out, and
`<!-- run first: commands -->` runs shell commands that the reader need not see.

`python -m tests.house.transcript DOCUMENT…` (`./dev transcripts`) runs the examples and writes into the documents
what their commands print now, where that is no longer what the documents show.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

STEP = re.compile(
    r"^<!-- (?P<remark>not run|run first|save as):(?P<text>.*?)-->[ ]*$"
    r"|^```(?P<language>[\w-]*)[^\n]*\n(?P<code>.*?)^```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
SHELLS = ("sh", "bash", "shell")


@dataclass
class Command:
    """One command of a console block, and what the document says about it."""

    line: str
    expected: list[str] = field(default_factory=list)
    exit_code: int = 0


@dataclass(frozen=True)
class Step:
    """A block to run, or one that is left out for a reason."""

    language: str
    code: str
    place: int
    not_run: str = ""
    file: str = ""


def steps(text: str) -> list[Step]:
    """The blocks of a document that can be run, in order."""
    found = []
    reason, reason_end, file = "", -1, ""
    for match in STEP.finditer(text):
        place = text.count("\n", 0, match.start()) + 1
        if match["remark"] == "not run":
            reason, reason_end = match["text"].strip() or "no reason given", match.end()
        elif match["remark"] == "run first":
            found.append(Step("sh", match["text"].strip(), place))
        elif match["remark"] == "save as":
            file = match["text"].strip()
        elif match["language"] in ("console", "python", *SHELLS):
            before = reason if not text[reason_end : match.start()].strip() and reason_end >= 0 else ""
            found.append(Step(match["language"], match["code"], place, before, file))
            reason, reason_end, file = "", -1, ""
    return found


def commands(code: str) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for line in code.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
            continue
        assert found, f"a console block begins with a command: {line!r}"
        if line.startswith("> ") and not found[-1].expected:
            found[-1].line += "\n" + line[2:]
        elif match := re.fullmatch(r"\(exit (\d+)\)", line.strip()):
            found[-1].exit_code = int(match[1])
        else:
            found[-1].expected.append(line)
    for command in found:
        while command.expected and not command.expected[-1].strip():
            command.expected.pop()
    return found


def matches(expected: list[str], printed: str) -> bool:
    """Whether the output is as the document shows it. Space at the end of a line does not count."""
    if not expected:
        return True
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.rstrip() + "\n") is not None


VOLATILE = (
    (re.compile(r"\S*/work(?=/)"), "…"),
    (re.compile(r" *\b(?:just now|\d+ (?:s|min|h) ago)"), " …"),
    (re.compile(r"(?m)^id +when +"), "id … "),  # as wide as the times below
    (re.compile(r"\b\d\d:\d\d\b"), "…"),
    (re.compile(r"\d+(?:\.\d+)?(?= s\b)"), "…"),
    (re.compile(r"\b[0-9a-f]{7}\b"), "…"),
    (re.compile(r"…(?:[ …]*…)+"), "…"),
)
"""What differs from run to run, and what stands for it."""


def shown(printed: str) -> list[str]:
    """Output as a document shows it."""
    for pattern, mark in VOLATILE:
        printed = pattern.sub(mark, printed)
    return [line.rstrip() for line in printed.rstrip().splitlines()]


def rewritten(text: str, reader: Reader) -> str:
    """The document with what its commands print now, where it shows something else."""
    for step in steps(text):
        if step.not_run:
            continue
        if step.language != "console":
            reader.follow(step)
            continue
        text = text.replace(step.code, _block(step, reader), 1)
    return text


def _block(step: Step, reader: Reader) -> str:
    lines = []
    for command in commands(step.code):
        code, printed = reader.shell(command.line)
        is_true = code == command.exit_code and matches(command.expected, printed)
        lines.append("$ " + command.line.replace("\n", "\n> "))
        lines += command.expected if is_true else shown(printed)
        lines += [f"(exit {code})"] if code else []
    return "\n".join(lines) + "\n"


class Reader:
    """Types the examples of a document into a shell, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self._cwd_file = folder / "cwd"
        # A person has neither our variables nor a terminal full of colours; `takeback` is the one under test.
        ours = ("TAKEBACK", "PYTEST")
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self._env |= {"TAKEBACK_HOME": str(folder / "home"), "NO_COLOR": "1", "COLUMNS": "120"}
        (folder / "user").mkdir()
        self._env["HOME"] = str(folder / "user")  # with the settings of nobody
        places = [self._env["HOME"] + "/.local/bin", str(Path(sys.executable).parent), os.environ["PATH"]]
        self._env["PATH"] = os.pathsep.join(places)

    def shell(self, line: str) -> tuple[int, str]:
        """Run a command; a `cd` in it holds for the next one."""
        script = f"{line}\ncode=$?; pwd > '{self._cwd_file}'; exit $code"
        done = self._run("bash", "-c", script)
        if self._cwd_file.exists():
            self.folder = Path(self._cwd_file.read_text().rstrip("\n"))
        return done

    def _run(self, *command: str) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout

    def follow(self, step: Step) -> None:
        """Do what a block says, and hold its words against what happens."""
        if step.language == "console":
            for command in commands(step.code):
                code, printed = self.shell(command.line)
                about, shown = f"line {step.place}: `{command.line}`", "\n".join(command.expected)
                assert code == command.exit_code, (
                    f"{about} exits with {code}, not {command.exit_code}:\n{printed}"
                )
                assert matches(command.expected, printed), (
                    f"{about} is shown with\n{shown}\nand prints\n{printed}"
                )
            return
        if step.file:
            (self.folder / step.file).write_text(step.code)
            return
        if step.language == "python":
            code, printed = self._run(sys.executable, "-c", step.code)
        else:
            code, printed = self.shell(f"set -e\n{step.code}")
        assert code == 0, f"line {step.place}: the {step.language} block exits with {code}:\n{printed}"


def main(names: Sequence[str]) -> int:
    """Write into each of these documents what its commands print now. Return the exit code."""
    for name in names:
        path = Path(name)
        before = path.read_text()
        with tempfile.TemporaryDirectory(prefix="takeback-transcript-") as folder:
            after = rewritten(before, Reader(Path(folder).resolve()))
        if after != before:
            path.write_text(after)
            said = f"written: {name}; look at the difference, and shorten with `…` what need not be shown\n"
            sys.stdout.write(said)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
