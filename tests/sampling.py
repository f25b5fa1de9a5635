"""How many cases the tests play: all of them with --all, and otherwise a fixed sample.

Read while tests are collected, so by name: `@pytest.mark.parametrize("how, racing", half(HOW, RACING))`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))


def half(*lists: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every combination of these values, or half of them: each value occurs, and each pair of three lists."""
    chosen = itertools.product(*(enumerate(values) for values in lists))
    return [tuple(value for _, value in one) for one in chosen if ALL or sum(at for at, _ in one) % 2 == 0]


def examples(every: int) -> int:
    """How often a property is tried: so often, or a quarter of it."""
    return every if ALL else every // 4
