"""A workspace whose content is in a bucket, too: what its records name is found by another machine."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

import takeback
from takeback.errors import BackendError, UsageError
from takeback.storage.content.bucket import SharedStore, client
from takeback.storage.state import location
from takeback.testing import crash
from takeback.workspace.workspace import Workspace
from tests.storage.postgres.world import STORE
from tests.storage.s3.server import KEYS, S3Server
from tests.storage.s3.world import BUCKET
from tests.world.settings import write

pytestmark = pytest.mark.usefixtures("server", "s3")


def opened(where: Path, name: str, machine: str = "a") -> Workspace:
    root = where / machine
    root.mkdir(exist_ok=True)
    return takeback.open(
        root,
        home=where / f"home-{machine}",
        store=os.environ[STORE],
        workspace=f"{where}/{name}",
        blobs=os.environ[BUCKET],
    )


def store(tb: Workspace) -> SharedStore:
    assert isinstance(tb.parts.store, SharedStore)
    return tb.parts.store


def test_another_machine_finds_what_a_checkpoint_names(tmp_path: Path) -> None:
    with opened(tmp_path, "shop") as tb:
        (tb.root / "kept").write_text("mine" * 1000)
        tb.save("first")
        needed = tb.needed()
        assert needed and store(tb).unshared(needed) == set()
        assert tb.verify(deep=True) == []
    with opened(tmp_path, "shop", "b") as other:
        content = store(other)
        assert content.stats().blobs == 0
        assert other.needed() == needed
        content.fetch(needed)
        assert super(SharedStore, content).missing(needed) == set()
        assert other.verify(deep=True) == []


def spoil(where: str, server: str) -> None:
    """Work as an agent whose bucket goes away before its end is recorded."""
    client.PATIENCE_S = 0.2
    with opened(Path(where), "shop") as tb, tb.recording("agent"):
        (tb.root / "file").write_text("spoiled")
        os.kill(int(server), signal.SIGKILL)


def test_a_bucket_that_goes_away_in_the_middle_of_a_run(tmp_path: Path, s3: S3Server) -> None:
    """What happened cannot be recorded then; what was done is found by looking, and can be taken back."""
    with opened(tmp_path, "shop") as tb:
        (tb.root / "file").write_text("mine")
        tb.save("before")
    try:
        done = crash.run(
            "nowhere", 1, [f"{__name__}:spoil", tmp_path, str(s3.pid)], cwd=Path(__file__).parents[3]
        )
    finally:
        s3.halt()
        s3.start()
    assert "cannot be reached" in done.stderr and "safe on this machine" in done.stderr
    with opened(tmp_path, "shop") as tb:
        assert (tb.root / "file").read_text() == "spoiled"
        (action,) = tb.history.open_actions()
        # As after every crash: what changed after the last sign of life may be somebody else's.
        tb.undo(action.id, on_conflict="overwrite")
        assert (tb.root / "file").read_text() == "mine"
        assert tb.verify(deep=True) == []


def test_a_clean_up_frees_the_bucket_too(tmp_path: Path) -> None:
    with opened(tmp_path, "shop") as tb:
        write(tb.root, "[store]\nkeep-checkpoints = 1\n", tb.state.parent.parent)
        for n in range(3):
            (tb.root / "file").write_bytes(os.urandom(50_000 + n))
            tb.save(f"turn {n}")
        pruned = tb.gc()
        assert pruned.bucket_bytes_freed > 90_000
        assert store(tb).unshared(tb.needed()) == set()
        assert tb.verify(deep=True) == []
        assert 50_000 < store(tb).shared_bytes() < 60_000
        bucket = store(tb).bucket
        bucket.remove(bucket.list("packs"))
        findings = tb.verify()
        assert findings and all("is not there" in found.what for found in findings)


def test_what_is_forgotten_leaves_the_bucket_and_every_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = b"hunter2-SECRET-0815"
    with opened(tmp_path, "shop") as tb:
        monkeypatch.chdir(tb.root)
        (tb.root / "env").write_bytes(secret)
        (tb.root / "kept").write_bytes(os.urandom(50_000))
        tb.save("leaked")
        (tb.root / "env").unlink()
        leaked = tb.parts.files.contents([tb.history.marks["files"]])
        (name,) = {one.name for one in leaked if one.path == "env"}
        assert store(tb).known.has(name)
        assert tb.forget("env").bucket_bytes_freed > 0
        bucket = store(tb).bucket
        for one in bucket.list(""):
            assert secret not in (bucket.read(one) or b"")
        assert not store(tb).known.places(name) and store(tb).missing([name]) == {name}
        # Nobody takes that for a loss, neither here nor on a machine that finds all in the bucket.
        assert tb.verify(deep=True) == []
    with opened(tmp_path, "shop", "b") as other:
        needed = other.needed()
        assert name not in needed
        store(other).fetch(needed)
        assert other.verify(deep=True) == []


def test_settings_name_the_bucket_and_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_BUCKET", os.environ[BUCKET].removeprefix("s3://"))
    monkeypatch.setenv("SHOP_KEY", "ab" * 32)
    root = tmp_path / "work"
    root.mkdir()
    write(root, f'[store]\nstore = "${STORE}"\nblobs = "s3://$SHOP_BUCKET/sealed"\nblobs-key = "$SHOP_KEY"\n')
    with takeback.open(root) as tb:
        tb.save("first")
        kept = location.read(tb.state)
        assert kept and (kept.blobs, kept.blobs_key) == ("s3://$SHOP_BUCKET/sealed", "$SHOP_KEY")
        assert "abab" not in (tb.state / location.FILE).read_text()
        assert store(tb).seal.is_sealed
        assert [stat.S_IMODE(path.stat().st_mode) for path in tb.state.glob("bucket-*.db*")] == [0o600] * 3
    monkeypatch.setenv("SHOP_KEY", "cd" * 32)
    (root / "new").write_text("x")
    with takeback.open(root) as tb, pytest.raises(UsageError, match="encrypted with another key"):
        tb.save("second")
    monkeypatch.setenv("SHOP_KEY", "short")
    with (
        takeback.open(root) as tb,
        pytest.raises(UsageError, match="the variable SHOP_KEY does not contain a valid key") as caught,
    ):
        tb.save("second")
    assert "short" not in str(caught.value)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"blobs": "s3://no-such-bucket"}, "does not exist"),
        ({"blobs": "ftp://x"}, "not the address of a bucket"),
        ({"blobs": ""}, "a key for a bucket is set, but no bucket"),
        ({"store": ""}, "needs a store for the history"),
        ({"blobs-key": "$NO_SUCH_KEY"}, "the variable NO_SUCH_KEY is empty or cannot be read"),
        ({"blobs-key": "no/such/file"}, "the file no/such/file is empty or cannot be read"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_begun(
    tmp_path: Path, change: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "ab" * 32)
    given = {"store": f"${STORE}", "blobs": f"${BUCKET}", "blobs-key": "$SHOP_KEY", **change}
    root = tmp_path / "work"
    root.mkdir()
    text = "".join(f'{name} = "{value}"\n' for name, value in given.items())
    write(root, f"[store]\n{text}")
    with pytest.raises((UsageError, BackendError), match=said):
        takeback.open(root)
    (root / "takeback.toml").unlink()
    with takeback.open(root) as tb:
        assert location.read(tb.state) is None


def test_content_stays_where_it_was_begun(tmp_path: Path) -> None:
    opened(tmp_path, "shop").close()
    with pytest.raises(UsageError, match="content of this workspace is kept on s3://"):
        takeback.open(tmp_path / "a", home=tmp_path / "home-a", blobs="s3://elsewhere")
    (tmp_path / "plain").mkdir()
    takeback.open(tmp_path / "plain").close()
    with pytest.raises(UsageError, match="this machine alone"):
        takeback.open(tmp_path / "plain", blobs=os.environ[BUCKET])


def test_a_profile_is_enough(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text("[shop]\n" + "".join(f"{name} = {value}\n" for name, value in KEYS.items()))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "shop")
    with opened(tmp_path, "shop") as tb:
        tb.save("first")


def test_a_folder_will_do_and_a_file_with_the_key(tmp_path: Path) -> None:
    """A file system that machines share is as good as a bucket."""
    root, key = tmp_path / "work", tmp_path / "key"
    root.mkdir()
    key.write_text("ab" * 32 + "\n")
    write(root, f'[store]\nstore = "${STORE}"\nblobs = "file://{tmp_path}/shared"\nblobs-key = "{key}"\n')
    with takeback.open(root) as tb:
        (tb.root / "file").write_text("mine")
        tb.save("first")
        assert tb.verify(deep=True) == []
        assert store(tb).seal.is_sealed
    assert (tmp_path / "shared/takeback.txt").exists()
