"""Files that a command writes beside those that it names outside the workspace: all come back, byte for byte."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .picture import differences
from .test_outside import Beside

V = "../other"

COMMANDS = {
    "gzip over another": f"gzip -f {V}/a.txt",
    "gunzip over another": f"gunzip -f {V}/c.gz",
    "gzip of several": f"gzip -f {V}/*.txt",
    "bzip2": f"bzip2 -f {V}/a.txt",
    "xz": f"xz -f {V}/a.txt",
    "zstd": f"zstd -q -f {V}/a.txt",
    "sed with a backup": f"sed -i.bak s/a/z/ {V}/a.txt",
    "sed with a backup of another name": f"cd {V} && sed -i'old-*' s/a/z/ a.txt",
    "cp with a backup": f"cp --backup plan.md {V}/a.txt",
    "cp with a numbered backup": f"cp --backup=numbered plan.md {V}/a.txt; cp --backup=t plan.md {V}/a.txt",
    "cp with a suffix": f"cp -S .old plan.md {V}/a.txt",
    "mv with a backup": f"echo n > n; mv -b n {V}/a.txt",
    "install with a backup": f"install -b plan.md {V}/a.txt",
    "patch": f"patch -b {V}/a.txt < fix",
    "patch that is rejected": f"patch -f {V}/a.txt < wrong || true",
    "split": f"split -l 1 lines {V}/part-",
    "csplit": f"csplit -s -f {V}/cut- lines 2",
    "tar into a folder of its own": f"tar xf a.tar --one-top-level={V}/deep",
    "git checkout-index": f"git checkout-index -q -f --prefix={V}/ -a",
    "git checkout-index with a beginning": f"git checkout-index -q -f --prefix={V}/new- -a",
    "written through a hard link": f"ln {V}/a.txt h; echo x > h",
    "written through a hard link that cp made": f"cp -l {V}/a.txt h; echo x > h",
    "perl in place": f"perl -pi.bak -e s/a/z/ {V}/a.txt",
    "sort": f"sort -o {V}/a.txt lines",
    "tee": f"tee {V}/a.txt {V}/new < lines",
    "braces": f"rm {V}/{{a.txt,c.gz}}",
    "a variable": f'D={V}; rm "$D/a.txt"',
    "a loop": f"for n in a.txt c.gz; do rm {V}/$n; done",
    "a template": f"mktemp {V}/new-XXXXXX",
    "zip without an ending": f"zip -q {V}/out plan.md",
    "cpio": f"echo plan.md | cpio -pdu --quiet {V}/deep",
    "sqlite": f"sqlite3 {V}/app.db 'CREATE TABLE t (a)'",
    "a folder behind a link": f"ln -s {V} l; rm -r l/ || true",
    "above a link": f"ln -s {V}/deep l; cd l; rm ../a.txt",
    "a hard link of another name": f"ln {V}/a.txt h; mv h k; echo x > k",
    "git rm elsewhere": f"git -C {V}/repo rm -q tracked",
    "git mv elsewhere": f"cd {V}/repo && git mv tracked moved",
    "git add below the top": f"echo x > {V}/repo/sub/new; git -C {V}/repo/sub add new",
    "git reset below the top": f"cd {V}/repo/sub && git reset -q --hard HEAD~",
    "git with its folder named": f"git --git-dir={V}/repo/.git --work-tree=$PWD add plan.md",
    "rename": f"rename .txt .md {V}/a.txt",
}
PROGRAMS = {name: command.split()[0] for name, command in COMMANDS.items()}
PROGRAMS |= {
    "mv with a backup": "mv",
    "sed with a backup of another name": "sed",
    "braces": "rm",
    "a variable": "rm",
    "a loop": "rm",
    "cpio": "cpio",
    "above a link": "ln",
    "git mv elsewhere": "git",
    "git add below the top": "git",
    "git reset below the top": "git",
}


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    made = Beside(tmp_path)
    other, work = tmp_path / "other", made.world.root
    for name in (
        "a.txt.gz",
        "a.txt.bz2",
        "a.txt.xz",
        "a.txt.zst",
        "a.txt.bak",
        "a.txt~",
        "a.txt.old",
        "old-a.txt",
    ):
        (other / name).write_text(f"{name}, which somebody needs\n")
    for name in ("a.txt.~1~", "a.txt.orig", "a.txt.rej", "part-aa", "cut-00", "plan.md", "new-plan.md", "c"):
        (other / name).write_text(f"{name}, which somebody needs\n")
    (other / "deep/plan.md").write_text("theirs\n")
    made.world.human("lines", "1\n2\n3\n")
    made.world.human("fix", "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n")
    made.world.human("wrong", "--- a\n+++ b\n@@ -1 +1 @@\n-q\n+b\n")
    made.run(
        "run",
        "--",
        "sh",
        "-c",
        "printf 'c\\n' | gzip > c.gz; tar cf a.tar plan.md; git init -q; git add plan.md",
    )
    shutil.copy(work / "c.gz", other / "c.gz")
    repository(other / "repo")
    made.world.save()
    return made


def repository(folder: Path) -> None:
    """A repository beside the workspace, with two commits."""
    (folder / "sub").mkdir(parents=True)
    for text in ("one", "two"):
        (folder / "tracked").write_text(text)
        (folder / "sub/inner").write_text(text)
        git = ["git", "-C", str(folder)]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", text]):
            subprocess.run([*git, *words], check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_stands_beside_a_named_path_comes_back(
    name: str, beside: Beside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[name]
    if name == "rename" and (of_util_linux := shutil.which("rename.ul")):
        # Debian calls it so, and has another program, or none, under its own name.
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/rename").symlink_to(of_util_linux)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    if shutil.which(program) is None:
        pytest.skip(f"not on this platform: there is no {program}")
    before = beside.look()
    done = beside.run("run", "--name", "agent", "--", "bash", "-c", COMMANDS[name])
    assert done.code == 0, done
    assert differences(before["other"], beside.look()["other"]), "the command did nothing there"
    beside.undo()
    after = beside.look()
    assert not differences(before["other"], after["other"])
    assert not differences(before["work"], after["work"])


UNKNOWN = {
    "a database written into another file": f"sqlite3 :memory: \"VACUUM INTO '{V}/made.db'\"",
    "a patch that may lead out": f"git apply --unsafe-paths --directory={V} outward",
    "a worktree's repository": f"cd {V}/tree && git add .",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_written_where_nobody_looks_is_unknown(name: str, beside: Beside) -> None:
    other = beside.folder / "other"
    beside.world.human("outward", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n")
    subprocess.run(
        ["git", "-C", str(other / "repo"), "worktree", "add", "-q", str(other / "tree")], check=True
    )
    (other / "tree/new").write_text("x")
    before = beside.look()["other"]
    beside.agent(UNKNOWN[name])
    assert differences(before, beside.look()["other"]), "the command did nothing there"
    assert beside.run("undo", "--json").json["verdict"] == "unknown"


@pytest.mark.parametrize("command", ["echo x > h", "mv h k; echo x > k", "mv h src; echo x > src/h"])
def test_what_an_earlier_command_linked_is_not_said_to_be_known(command: str, beside: Beside) -> None:
    """Its other name may lie outside, where nobody looks: then the verdict must not be clean."""
    (beside.world.root / "src").mkdir()
    beside.agent(f"ln {V}/a.txt h")
    beside.agent(command)
    report = beside.run("undo", "--json").json
    assert report["verdict"] == "unknown"
    beside.agent("echo plain > plan.md")
    assert beside.run("undo", "--json").json["verdict"] == "clean"
