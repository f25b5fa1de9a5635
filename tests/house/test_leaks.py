"""No file tells where it was made: no package host, no path of a machine, no word on who typed it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.house.repository import ROOT, files

# The dots are escaped and the words broken up, so that this file does not find itself.
PACKAGE_HOST = re.compile(
    rb"\bpypi\.(?:org|io|python)|\bpythonhosted\.org|\bnpmjs\.(?:org|com)|\b(?:deb|security|ftp|snapshot)\.debian\.org"
    rb"|\bcrates\.io|\banaconda\.org|\bpackagecloud\.io|\bartifactory\."
    rb"|https?://[^\s/'\"]+/(?:[\w.-]+/)*simple\b|^\s*--(?:extra-)?index-[u]rl|^\s*--find-[l]inks",
    re.IGNORECASE | re.MULTILINE,
)
HOME_PATH = re.compile(
    # The names are those that an example may use.
    rb"(?<![\w.~/-])(?:(?:/home/|/Users/|[A-Z]:\\Users\\)(?!you\b|user\b|me\b|alice\b|bob\b)\w|/[r]oot/\S)"
)
AUTHORSHIP = re.compile(
    rb"co[-]authored[-]by|generated [w]ith"
    rb"|(?:generated|written|made) [b]y (?:an? )?(?:AI|LLM|claude|gpt|chatgpt|copilot|language model)\b",
    re.IGNORECASE,
)


def leaks(paths: list[Path], root: Path) -> list[str]:
    """Name each place that tells too much."""
    here = re.compile(re.escape(str(root).encode()) + rb"\b")
    found = []
    for path in paths:
        data = path.read_bytes()
        for what, pattern in (
            ("package host", PACKAGE_HOST),
            ("path of a machine", HOME_PATH),
            ("path of this checkout", here),
            ("authorship", AUTHORSHIP),
        ):
            for match in pattern.finditer(data):
                line = data.count(b"\n", 0, match.start()) + 1
                text = match[0].decode(errors="replace").strip()
                found.append(f"{path.relative_to(root)}:{line}: {what}: {text}")
    return found


def test_no_file_tells_where_it_was_made() -> None:
    assert leaks(files(), ROOT) == []


def test_no_commit_message_names_a_machine_as_author() -> None:
    log = subprocess.run(["git", "log", "--format=%an %ae%n%B"], cwd=ROOT, capture_output=True)
    assert not AUTHORSHIP.search(log.stdout)


def test_each_kind_of_leak_is_found(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    planted = {
        "host": "see https://{}.org/project/takeback".format("pypi"),
        "mirror": "https://mirror.example/{}/".format("simple"),
        "lock": "--index-{} x".format("url"),
        "home": "/home/{}/notes".format("jane"),
        "root": "cd /{}/x".format("root"),
        "here": f"{tmp_path}/x",
        "credit": "Co-Authored-{}: someone".format("By"),
        "maker": "Generated {} love".format("with"),
    }
    for name, text in planted.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "harmless").write_text(
        "Works with Claude Code. Files under /home/you/shop, src/root/x.py, a simple thing."
    )
    assert {line.partition(":")[0] for line in leaks(files(tmp_path), tmp_path)} == set(planted)
