"""The corpus of destructive commands, run for real in the sandbox, on machines to throw away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import corpus
from tests.world.picture import Picture, differences, picture

from .throwaway import NEEDS_A_MACHINE, Machine

pytestmark = [NEEDS_A_MACHINE, pytest.mark.timeout(3000)]
BATCH = 12
FIXED = (
    "rm -rf /", "rm -rf ~", "find / -name f -delete", "chmod -R 777 ~",
    "python3 -c \"import shutil; shutil.rmtree('/srv/work/other')\"",
    "env -i setsid sh -c 'sleep 0.2; rm -rf /srv/work/other' &",
    "kill -9 -1",
    "perl -e 'unlink \"/srv/work/other/f\"'",
    "echo cm0gLXJmIC9zcnYvd29yay9vdGhlcg== | base64 -d | sh",
    "a=rm; b=-rf; $a $b ~/.bashrc",
    "ln -s ../other l; rm -rf l/f; echo x > l/g",
    "git push origin main", "rm -rf ../other", "echo x > ~/.bashrc",
)  # fmt: skip
ORDINARY = (
    "git init -q . && git add a.txt && git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline",
    "git checkout -qb new && echo two > a.txt && git stash -q && git stash pop -q",
    "printf 'int main(){return 0;}' > m.c && cc m.c -o m && ./m",
    "printf 'all:\\n\\techo made > made\\n' > Makefile && make",
    "python3 -m venv --without-pip v && v/bin/python -c 'print(1)'",
    "python3 -m http.server 8123 --bind 127.0.0.1 >log 2>&1 & sleep 0.7",
    "python3 -c \"import urllib.request as u; print(len(u.urlopen('http://127.0.0.1:8123').read()))\"; kill %1",
    "python3 -c \"import sqlite3; sqlite3.connect('d.db').execute('create table t(a)')\"",
    'python3 -c "import tempfile, multiprocessing as m; tempfile.mkdtemp(); print(m.Pool(2).map(abs, [-1]))"',
    "mkdir -p ~/.cache/tool && echo x > ~/.cache/tool/x",
    "tar czf a.tgz a.txt && tar xzf a.tgz && sort a.txt -o b.txt && cp -a a.txt c.txt && chmod 600 c.txt",
    "script -qc 'echo in a terminal' /dev/null",
)


def prepared(folder: Path) -> Machine:
    machine = Machine(folder)
    for name in (".cache", ".npm", ".cargo", "go", ".gradle"):
        (machine.home / name).mkdir()
    return machine


def outside(machine: Machine) -> dict[str, Picture]:
    return {str(path): picture(bytes(path)) for path in (machine.other, machine.home)}


def changed(before: dict[str, Picture], after: dict[str, Picture]) -> list[str]:
    """What changed outside, but for the caches, which may be written, and the times of their folders."""
    kept = (
        "'.cache",
        "'.npm",
        "'.cargo",
        "'go",
        "'.gradle",
        "'.yarn",
        "'.local",
        "'.bun",
        "'.m2",
        "'.nuget",
        "''",
        "'.'",
    )
    every = [line for name in before for line in differences(before[name], after[name])]
    return [line for line in every if not line.startswith(kept)]


def tried(machine: Machine, lines: list[str], *options: str) -> list[str]:
    """Run each line as `takeback run` on one machine. Return what could not be explained."""
    unexplained = []
    for line in lines:
        before = outside(machine)
        try:
            done = machine.takeback("run", "--autopilot", "--json", *options, "--", "bash", "-c", line)
        except subprocess.TimeoutExpired:  # it waits for somebody; what it did by then counts
            done = None
        found = changed(before, outside(machine))
        if not found:
            continue
        said = json.loads(done.stderr.splitlines()[-1]) if done and done.stderr.rstrip().endswith("}") else {}
        if not said.get("outside"):  # what was captured comes back with an undo
            unexplained.append(f"{line!r}: {found[:3]}")
    return unexplained


def lines() -> list[str]:
    return [*corpus.of("outside"), *corpus.of("hidden"), *corpus.of("irreversible")]


def test_nothing_outside_changes_unrecorded(tmp_path: Path) -> None:
    assert tried(prepared(tmp_path / "machine"), list(FIXED[:8]), "--sandbox") == []


@pytest.mark.sweep
def test_nothing_of_the_whole_corpus_changes_anything_outside(tmp_path: Path) -> None:
    every = [*FIXED, *lines()]
    for at in range(0, len(every), BATCH):
        assert tried(prepared(tmp_path / f"machine-{at}"), every[at : at + BATCH], "--sandbox") == []


@pytest.mark.sweep
def test_without_the_sandbox_it_is_printed_what_escapes(tmp_path: Path) -> None:
    hidden = [line for line in FIXED if not line.startswith(("kill", "rm -rf /"))]
    escaped = tried(prepared(tmp_path / "machine"), hidden)
    sys.stdout.write(
        "\n".join(["Without the sandbox these change something that is not recorded:", *escaped, ""])
    )
    assert escaped


def test_ordinary_work_is_not_held(tmp_path: Path) -> None:
    machine = prepared(tmp_path / "machine")
    (machine.root / "work.sh").write_text("set -ex\n" + "\n".join(ORDINARY))
    done = machine.takeback("run", "--autopilot", "--sandbox", "--", "bash", "work.sh")
    assert (done.returncode, "denied" in done.stderr) == (0, False), (done.stdout, done.stderr)
