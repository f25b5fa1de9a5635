"""Learning what is in a bucket."""

from __future__ import annotations

import pytest

from takeback.storage.content.bucket.listing import AT_ONCE, at_once


@pytest.mark.parametrize("count", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 5 * AT_ONCE])
def test_nothing_is_left_out(count: int) -> None:
    assert list(at_once(lambda item: 2 * item, iter(range(count)))) == [2 * item for item in range(count)]
