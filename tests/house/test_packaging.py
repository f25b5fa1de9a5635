"""Locks are complete and hashed, and the package says what it is."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.repository import ROOT, SOURCE

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def wanted(lock: str) -> list[Requirement]:
    """What pyproject.toml asks of a lock."""
    core, groups = project()["project"]["dependencies"], project()["dependency-groups"]
    lines = {**groups, "core": core, "dev": core + groups["dev"]}[lock]
    return [Requirement(line) for line in lines]


def read_lock(text: str) -> dict[str, tuple[str, int]]:
    """Read a lock as {name: (version, number of hashes)}; anything else in it is an error."""
    pins: dict[str, tuple[str, int]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if not (line := line.partition("#")[0].strip()):
            continue
        match = re.fullmatch(r"([\w.-]+)==(\S+?)(?:\s*;[^-]*?)?((?:\s+--hash=sha256:[0-9a-f]{64})*)", line)
        assert match, f"not a pinned requirement: {line}"
        pins[canonicalize_name(match[1])] = (match[2], match[3].count("--hash="))
    return pins


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_each_lock_is_pinned_and_hashed(path: Path) -> None:
    pins = read_lock(path.read_text(encoding="utf-8"))
    assert pins
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_each_lock_answers_pyproject(path: Path) -> None:
    pins = read_lock(path.read_text(encoding="utf-8"))
    for requirement in wanted(path.stem):
        version, _ = pins.get(canonicalize_name(requirement.name), ("", 0))
        assert version, f"{requirement} is not locked; run ./dev lock"
        assert requirement.specifier.contains(version), f"{requirement} is locked at {version}"


def test_tests_run_on_the_versions_that_users_get() -> None:
    dev, core = (read_lock((ROOT / f"requirements/{name}.txt").read_text()) for name in ("dev", "core"))
    assert {name: pin for name, pin in core.items() if dev.get(name) != pin} == {}


def test_a_lock_without_hash_or_pin_is_found() -> None:
    pinned = "click==8.0 \\\n    --hash=sha256:" + "0" * 64
    assert read_lock(pinned + "\n    # via takeback\n") == {"click": ("8.0", 1)}
    assert read_lock("click==8.0 ; sys_platform == 'win32'") == {"click": ("8.0", 0)}
    for line in ("click>=8", "-e .", "click @ file:///x", "--index-" + "url x"):
        with pytest.raises(AssertionError):
            read_lock(line)


def test_the_version_is_one() -> None:
    from takeback._version import __version__

    assert metadata.version("takeback") == __version__


def test_types_are_shipped() -> None:
    assert (SOURCE / "py.typed").exists()


def test_each_changelog_fragment_has_a_kind() -> None:
    kinds = "|".join(kind["directory"] for kind in project()["tool"]["towncrier"]["type"])
    names = {path.name for path in (ROOT / "changelog.d").iterdir()} - {"README.md"}
    assert [name for name in names if not re.fullmatch(rf"\+[\w-]+\.({kinds})(\.\d+)?\.md", name)] == []


def run_dev(*args: str, prefix: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run ./dev; `prefix` is done first, in the same interpreter."""
    start = "import runpy; runpy.run_path('dev', run_name='__main__')"
    code = f"import sys; {prefix}; sys.argv = {['dev', *args]!r}; {start}"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)


def test_dev_explains_itself() -> None:
    done = run_dev("--help")
    assert done.returncode == 0
    assert {word for word in ("demo", "test", "lint", "bench", "lock") if word not in done.stdout} == set()


def test_dev_refuses_what_it_does_not_know() -> None:
    done = run_dev("nonsense")
    assert done.returncode == 2
    assert "usage: ./dev" in done.stderr


def test_dev_tells_an_old_python_in_one_line() -> None:
    done = run_dev("--help", prefix="sys.version_info = (3, 10, 4)")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.11" in done.stderr
