"""`takeback.open(root, store="memory")`: everything works, and nothing outlives the process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import takeback
from takeback.errors import RefusedError, UsageError
from takeback.settings import environment


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, with nothing in it but ours."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was\n")
    return folder


@pytest.fixture
def tb(root: Path, temporary: Path) -> Iterator[takeback.Workspace]:
    with takeback.open(root, store="memory") as opened:
        yield opened
    assert list(temporary.iterdir()) == []


def test_undo_redo_and_restore(tb: takeback.Workspace, root: Path) -> None:
    first = tb.save("first")
    with tb.recording("agent"):
        (root / "kept.txt").write_text("changed\n")
        (root / "new.bin").write_bytes(os.urandom(5 << 20))
    assert tb.undo().verdict == "clean"
    assert (root / "kept.txt").read_text() == "as it was\n" and not (root / "new.bin").exists()
    assert tb.redo().verdict == "clean"
    assert (root / "kept.txt").read_text() == "changed\n" and (root / "new.bin").stat().st_size == 5 << 20
    tb.restore(first)
    assert [path.name for path in root.iterdir()] == ["kept.txt"]
    assert "kept.txt" in str(tb.diff(first.id)) or not str(tb.diff(first.id))
    assert tb.verify(deep=True) == []


def test_a_run_that_fails_is_taken_back_whole(tb: takeback.Workspace, root: Path) -> None:
    with pytest.raises(ZeroDivisionError), tb.run("fails") as run:  # noqa: PT012  what fails is its last line
        with run.step("write"):
            (root / "kept.txt").unlink()
        run.memory["goal"] = "tidy"
        1 / 0  # noqa: B018
    assert run.report is not None and run.report.verdict == "clean"
    assert (root / "kept.txt").read_text() == "as it was\n"


@takeback.action(effect="none")
def counted(values: list[int]) -> int:
    values.append(1)
    return len(values)


def test_a_key_gives_recorded_results(tb: takeback.Workspace) -> None:
    for _ in range(2):
        with tb.run("again", key="k") as run:
            assert run.call(counted, []) == 1
    assert len(tb.history.runs) == 1


def test_what_is_deferred_is_delivered_or_cancelled(tb: takeback.Workspace, tmp_path: Path) -> None:
    sent = tmp_path / "sent.txt"
    command = [sys.executable, "-c", f"open({str(sent)!r}, 'a').write('sent')"]
    with pytest.raises(ZeroDivisionError), tb.run("fails") as run:  # noqa: PT012  what fails is its last line
        run.defer("command", command, key="one")
        1 / 0  # noqa: B018
    with tb.run("commits", deliver=True) as run:
        run.defer("command", command, key="two")
    assert sent.read_text() == "sent"


def test_a_lock_is_held_and_released(tb: takeback.Workspace) -> None:
    with tb.run("locks") as run:
        with run.lock("kept.txt"):
            assert [lease.holder for lease in tb.leases.live()]
        assert not tb.leases.live()


def test_repositories_and_databases_are_taken_back(tb: takeback.Workspace, root: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    git("add", "kept.txt")
    git("commit", "-qm", "one")
    before = git("rev-parse", "HEAD")
    with pytest.raises(ZeroDivisionError), tb.run("fails") as run:  # noqa: PT012  what fails is its last line
        with run.database("app.db") as db:
            db.execute("CREATE TABLE t (n)")
        git("commit", "-q", "--allow-empty", "-m", "two")
        1 / 0  # noqa: B018
    assert git("rev-parse", "HEAD") == before and not (root / "app.db").exists()


def test_old_content_is_pruned(tb: takeback.Workspace, root: Path) -> None:
    for n in range(3):
        (root / "big.bin").write_bytes(bytes([n]) * 300_000)
        tb.save(str(n))
    tb.gc()
    assert tb.verify(deep=True) == []


# What it leaves, and what it is not


def test_nothing_is_registered_or_written_outside_of_it(root: Path, temporary: Path) -> None:
    with takeback.open(root, store="memory") as tb:
        tb.save("one")
        (home,) = temporary.iterdir()
        assert home.stat().st_mode & 0o077 == 0
        names = {path.name for path in home.rglob("*")}
        assert not names & {"journal.db", "journal.anchor", "packs"}
    assert not environment.state_home().exists() and list(temporary.iterdir()) == []


def test_a_process_that_never_closes_it_leaves_nothing(root: Path, temporary: Path) -> None:
    code = "import sys, takeback; tb = takeback.open(sys.argv[1], store='memory'); tb.save('one')"
    subprocess.run(
        [sys.executable, "-c", code, root], env=os.environ | {"TMPDIR": str(temporary)}, check=True
    )
    assert list(temporary.iterdir()) == []


def test_each_opening_has_a_history_of_its_own(root: Path, temporary: Path) -> None:
    with takeback.open(root, store="memory") as one, takeback.open(root, store="memory") as two:
        one.save("one")
        assert len(one.log()) == 1 and two.log() == []


def test_a_forked_process_cannot_record(tb: takeback.Workspace) -> None:
    tb.save("one")
    if not (child := os.fork()):
        try:
            tb.save("in the child")
        except UsageError as error:
            os._exit(7 if "memory of process" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(tb.log()) == 1 and tb.state.exists()


def test_a_folder_with_a_history_on_disk_is_refused(root: Path, temporary: Path) -> None:
    takeback.open(root).close()
    with pytest.raises(RefusedError, match="history on disk"):
        takeback.open(root, store="memory")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("besides", [{"workspace": "w"}, {"blobs": "s3://b/f"}, {"home": Path("elsewhere")}])
def test_what_makes_no_sense_with_it(root: Path, temporary: Path, besides: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="memory"):
        takeback.open(root, store="memory", **besides)  # type: ignore[arg-type]
    assert list(temporary.iterdir()) == []


def test_the_command_line_does_not_see_it(tb: takeback.Workspace, root: Path) -> None:
    tb.save("one")
    done = subprocess.run([sys.executable, "-m", "takeback", "log"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 2 and "not protected yet" in done.stderr
