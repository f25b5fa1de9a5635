"""What the documents show is true: its examples run. How to write them is said in transcript.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.repository import document
from tests.house.transcript import Reader, Step, commands, main, matches, shown, steps

DOCUMENTS = [
    "README.md",
    "docs/CODING_AGENTS.md",
    "docs/MOMENTS.md",
    "docs/PYTHON.md",
    "docs/TOUR.md",
    "docs/WORKFLOWS.md",
]
NOT_RUN_MAX = 4  # an example that cannot run is a promise on trust


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_examples_run(name: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    run = [step for step in steps(document(name)) if not step.not_run]
    assert run, f"{name} has no example that runs"
    for step in run:
        reader.follow(step)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_few_examples_are_left_out_and_each_for_a_reason(name: str) -> None:
    reasons = [step.not_run for step in steps(document(name)) if step.not_run]
    assert len(reasons) <= NOT_RUN_MAX, reasons
    assert "no reason given" not in reasons


SAMPLE = """
<!-- run first: mkdir shop -->
```console
$ cd shop && echo one two
one …
$ printf 'a\\nb\\nc\\nd\\n'
a
…
d
$ sh -c 'exit 3'
(exit 3)
```
```python
print(__name__)
```
```json
{}
```
<!-- not run: needs a network -->

```sh
false
```
```sh
false
```
"""


def test_blocks_are_found_with_their_remarks() -> None:
    found = steps(SAMPLE)
    assert [(step.language, step.not_run) for step in found] == [
        ("sh", ""),
        ("console", ""),
        ("python", ""),
        ("sh", "needs a network"),
        ("sh", ""),
    ]


def test_blocks_run_in_order_in_one_folder(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    *good, left_out, bad = steps(SAMPLE)
    for step in good:
        reader.follow(step)
    assert reader.folder == tmp_path / "work/shop"
    assert left_out.not_run
    with pytest.raises(AssertionError, match="exits with 1"):
        reader.follow(bad)


@pytest.mark.parametrize("code", ["$ echo no\nyes", "$ false", "$ true\n(exit 1)", "$ printf 'a\\nb'\na"])
def test_a_false_example_is_found(tmp_path: Path, code: str) -> None:
    with pytest.raises(AssertionError):
        Reader(tmp_path).follow(Step("console", code, place=1))


def test_a_false_program_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        Reader(tmp_path).follow(Step("python", "1 / 0", place=1))


def test_a_command_may_go_on_over_lines() -> None:
    (command,) = commands("$ cat <<END\n> text\n> END\ntext\n\n")
    assert (command.line, command.expected) == ("cat <<END\ntext\nEND", ["text"])


def test_a_block_may_be_a_file(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    first, second = steps(
        "<!-- save as: a.py -->\n```python\nN = 1\n```\n```python\nimport a; assert a.N == 1\n```\n"
    )
    reader.follow(first)
    reader.follow(second)
    assert (reader.folder / "a.py").read_text() == "N = 1\n" and not second.file


def test_an_ellipsis_stands_for_anything() -> None:
    assert matches(["Took back …", "…", "Verified 2 of 2."], "Took back a7\n  x\n  y\nVerified 2 of 2.\n")
    assert matches(["…", "end"], "end\n")
    assert not matches(["Took back …"], "Took back a7\nand more\n")


def test_what_is_no_longer_true_is_written_anew_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```console\n$ echo old\nsomething else\n$ echo kept\nk…t\n$ sh -c 'echo bad; exit 4'\n"
        "(exit 3)\n```\n\n```sh\ntrue\n```\n"
    )
    assert main([str(page)]) == 0
    written = page.read_text()
    assert written == (
        "# A page\n\n```console\n$ echo old\nold\n$ echo kept\nk…t\n$ sh -c 'echo bad; exit 4'\nbad\n"
        "(exit 4)\n```\n\n```sh\ntrue\n```\n"
    )
    for number, step in enumerate(steps(written)):
        (tmp_path / str(number)).mkdir()
        Reader(tmp_path / str(number)).follow(step)


def test_what_differs_from_run_to_run_is_left_out() -> None:
    printed = (
        "id   when       who\na4   2 s ago    you   in /tmp/x/work/shop, at 4885e3e after 0.3 s\n09:12  go \n"
    )
    assert shown(printed) == ["id … who", "a4 …    you   in …/shop, at … after … s", "…  go"]
