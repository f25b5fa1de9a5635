"""One server and one bucket for all tests of a process; each has a folder of its own in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.storage.s3.server import S3Server
from tests.storage.s3.world import BUCKET


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    made = S3Server()
    environment = {BUCKET: f"s3://{made.make()}", **made.environment()}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    yield made
    for name, given in before.items():
        if given is None:
            del os.environ[name]
        else:
            os.environ[name] = given
    made.stop()
