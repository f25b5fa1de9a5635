"""Whatever is wrong with a bucket is told clearly, and leaves all content on this machine."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import BackendError, CorruptionError, FormatTooNew, TakebackError, UsageError
from takeback.settings import environment
from takeback.storage.content.bucket import Bucket, Seal, listing
from takeback.storage.content.bucket.errors import explain
from takeback.storage.content.packs import text_name
from takeback.testing.blob_contract import name_of
from tests.storage.s3 import world
from tests.storage.s3.server import KEYS, READER, S3Server
from tests.storage.s3.world import BUCKET, Machine

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
NOWHERE = "http://127.0.0.1:1"


def failing(
    where: Path, address: str = "", options: dict[str, str] | None = None, **more: Any
) -> TakebackError:
    """What is said where content is named and the bucket is out of use; the content stays here."""
    bucket = Bucket(address or os.environ[BUCKET], str(where).strip("/"), options, patience_s=0.2)
    one = Machine(where, "one", bucket=bucket, **more)
    before = one.journal.head()
    with pytest.raises(TakebackError) as caught:
        one.name(b"precious")
    assert one.journal.head() == before
    assert one.store.get(name_of(b"precious")) == b"precious"
    one.close()
    return caught.value


def test_wrong_credentials(s3: S3Server, tmp_path: Path) -> None:
    wrong = KEYS | {"aws_secret_access_key": "hunter2"}
    error = failing(tmp_path, options=s3.options(**wrong))
    assert "rejected these credentials: SignatureDoesNotMatch" in error.message
    assert "safe on this machine" in error.message and "AWS_SECRET_ACCESS_KEY" in error.hint
    assert "hunter2" not in str(error) and "hunter2" not in str(error.__cause__)
    error = failing(tmp_path, options=s3.options(**KEYS | {"aws_access_key_id": "nobody"}))
    assert "InvalidAccessKeyId" in error.message


def test_a_bucket_that_is_not_there(s3: S3Server, tmp_path: Path) -> None:
    error = failing(tmp_path, "s3://no-such-bucket", s3.options())
    assert "the bucket no-such-bucket does not exist" in error.message


def test_no_right_to_write(s3: S3Server, tmp_path: Path) -> None:
    error = failing(tmp_path, options=s3.options(**READER))
    assert "denied access: AccessDenied" in error.message and "write" in error.hint


def test_nobody_there(s3: S3Server, tmp_path: Path) -> None:
    error = failing(tmp_path, options=s3.options() | {"aws_endpoint_url": NOWHERE})
    assert isinstance(error, BackendError) and error.retryable
    assert "cannot be reached" in error.message and "AWS_ENDPOINT_URL" in error.hint


def test_who_may_read_reads(s3: S3Server, tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"content")
    reader = Bucket(os.environ[BUCKET], str(tmp_path).strip("/"), s3.options(**READER))
    two = Machine(tmp_path, "two", bucket=reader)
    assert two.store.get(name_of(b"content")) == b"content"
    for machine in (one, two):
        machine.close()


@pytest.mark.usefixtures("s3")
def test_the_next_record_tries_again(tmp_path: Path) -> None:
    assert "cannot be reached" in failing(tmp_path, options={"aws_endpoint_url": NOWHERE}).message
    one = Machine(tmp_path, "one")
    one.name(b"more")
    assert one.store.unshared({name_of(b"precious"), name_of(b"more")}) == set()
    one.close()


def test_a_server_that_comes_back_is_waited_for(s3: S3Server, tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"first")
    s3.halt()
    try:
        tried = one.store.bucket.requests["put"]
        starting = threading.Timer(0.5, s3.start)
        starting.start()
        one.name(b"second")
    finally:
        starting.join()
    assert one.store.bucket.requests["put"] > tried + 1
    one.close()
    world.verify(tmp_path)


def test_a_bucket_that_is_full(s3: S3Server, tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"first")
    one.close()
    s3.halt()
    s3.start(full=True)
    try:
        error = failing(tmp_path, options=s3.options())
        assert "reports an internal error: InternalError" in error.message and "free space" in error.hint
        reader = Machine(tmp_path, "two")
        assert reader.store.get(name_of(b"first")) == b"first"
        reader.close()
    finally:
        s3.halt()
        s3.start()
    again = Machine(tmp_path, "one")
    again.name(b"second")
    assert again.store.unshared({name_of(b"precious")}) == set()
    again.close()
    world.verify(tmp_path)


@pytest.mark.parametrize(
    "answer, said",
    [
        ("403 Forbidden: <Code>QuotaExceeded</Code>", "is full: QuotaExceeded"),
        (
            "507 Insufficient Storage: <Code>XMinioStorageFull</Code><Message>no room</Message>",
            "is full: XMinio",
        ),
        ("400 Bad Request: <Code>ExpiredToken</Code>", "rejected these credentials: ExpiredToken"),
        ("503 Slow Down: <Code>SlowDown</Code>", "reports an internal error: SlowDown"),
        (
            "400 Bad Request: <Code>InvalidArgument</Code><Message>no</Message>",
            r"refused: InvalidArgument \(no\)",
        ),
    ],
)
def test_what_other_servers_say(answer: str, said: str) -> None:
    told = explain(
        Exception(f"Generic S3 error: Server returned non-2xx status code: {answer}"), "the bucket shop"
    )
    with pytest.raises(BackendError, match=f"the bucket shop {said}"):
        raise told


@pytest.mark.usefixtures("s3")
def test_a_fork_is_told_and_does_not_hang(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"first")
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            one.name(b"of the child")
        except BackendError as error:
            os._exit(0 if "in a fork of a process that has used it" in error.message else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    one.name(b"second")
    one.close()
    world.verify(tmp_path)


# Keys


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize(
    "begun, come, said",
    [
        (Seal(KEY), Seal(OTHER), "encrypted with another key"),
        (Seal(KEY), Seal(), "is encrypted, and no key is given"),
        (Seal(), Seal(KEY), "is not encrypted, but a key is given"),
    ],
)
def test_a_wrong_key(tmp_path: Path, begun: Seal, come: Seal, said: str) -> None:
    one = Machine(tmp_path, "one", seal=begun)
    one.name(b"content")
    one.close()
    two = Machine(tmp_path, "two", seal=come)
    with pytest.raises(UsageError, match=said):
        two.store.get(name_of(b"content"))
    with pytest.raises(UsageError, match=said):
        two.name(b"other")
    two.close()


@pytest.mark.usefixtures("s3")
def test_what_is_sealed_tells_nothing(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one", seal=Seal(KEY))
    data = b"the quick brown fox " * 100
    one.name(data)
    digest, bucket = name_of(data), one.store.bucket
    for name in [*bucket.list("packs"), "format"]:
        stored = bucket.read(name) or b""
        assert stored and digest not in stored and b"quick" not in stored
        assert digest.hex()[:8] not in name and digest.hex()[:8].encode() not in stored
    # The same content under another key has another name, so nobody can ask whether it is there.
    assert Seal(KEY).name(digest) != Seal(OTHER).name(digest) != Seal().name(digest)
    one.close()
    world.verify(tmp_path, seal=Seal(KEY))


# Damage


def damaged(where: Path, how: Any, **more: Any) -> Machine:
    """A machine that knows nothing, before a bucket whose only pack was altered."""
    one = Machine(where, "one", **more)
    one.name(b"content" * 50)
    bucket = one.store.bucket
    (name,) = bucket.list("packs")
    data = bucket.read(name) or b""
    bucket.remove([name])
    assert bucket.create(name, how(data))
    one.close()
    return Machine(where, "two", **more)


def flipped(at: int) -> Any:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if at >= 0 else data[:at] + b"?"


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize("seal", [Seal(), Seal(KEY)], ids=["plain", "sealed"])
@pytest.mark.parametrize(
    "how", [flipped(3), flipped(40), flipped(-1), lambda data: data[:-5], lambda _: b""],
    ids=["head", "index", "blob", "cut", "empty"],
)  # fmt: skip
def test_a_damaged_object(tmp_path: Path, how: Any, seal: Seal) -> None:
    two = damaged(tmp_path, how, seal=seal)
    with pytest.raises(CorruptionError, match="was pruned or forgotten, or is lost"):
        two.store.get(name_of(b"content" * 50))
    findings = list(two.store.check_shared(two.live(), deep=True))
    assert findings and all("bucket" in found.place for found in findings)
    # What cannot be read is not removed: it may be all that is left.
    two.clean_up()
    assert two.store.bucket.list("packs")
    two.close()


@pytest.mark.usefixtures("s3")
def test_who_has_it_mends_what_is_missing(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"content")
    one.store.bucket.remove(one.store.bucket.list("packs"))
    assert [found.what for found in one.store.check_shared(one.live())] == [
        f"the content {text_name(name_of(b'content'))} is not there"
    ]
    one.name(b"content")  # named again, so looked at again
    assert list(one.store.check_shared(one.live(), deep=True)) == []
    one.close()


@pytest.mark.usefixtures("s3")
def test_a_blob_that_is_damaged_here_is_healed_by_the_bucket(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"content" * 50)
    (pack,) = (tmp_path / "one/packs").glob("*.pack")
    data = pack.read_bytes()
    pack.write_bytes(data[:-3] + b"???")
    assert one.store.get(name_of(b"content" * 50)) == b"content" * 50
    one.close()


@pytest.mark.usefixtures("s3")
def test_a_newer_format_is_not_touched(tmp_path: Path) -> None:
    world.bucket_for(tmp_path).create(listing.FORMAT, b'{"format": 2, "sealed": false}')
    one = Machine(tmp_path, "one")
    with pytest.raises(FormatTooNew, match="was written in format 2"):
        one.name(b"content")
    one.close()


@pytest.mark.usefixtures("s3")
def test_what_is_known_of_the_bucket_can_be_lost(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"content")
    one.close()
    for file in (tmp_path / "one").glob("bucket.db*"):
        file.write_bytes(b"no database" * 1000)
    again = Machine(tmp_path, "one")
    again.name(b"more")
    assert again.store.bucket.requests["put"] == 1
    again.close()
    world.verify(tmp_path)


@pytest.mark.parametrize(
    "address", ["s3://", "https://example.org/x", "s3://me:hunter2@bucket/x", "bucket", "file://host/x"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="not the address of a bucket") as caught:
        Bucket(address)
    assert "hunter2" not in str(caught.value)


def test_a_key_that_was_given_itself_is_not_told_again() -> None:
    with pytest.raises(UsageError) as said:
        environment.blobs_key(KEY.hex())
    assert KEY.hex() not in str(said.value) + said.value.hint
