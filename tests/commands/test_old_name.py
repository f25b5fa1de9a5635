"""The name that was documented before still works, and says which one to use."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from takeback.shell.classify import classify


def test_the_old_name_works_and_says_that_it_is_deprecated() -> None:
    sys.modules.pop("takeback.commands.judge", None)
    with pytest.warns(DeprecationWarning, match=r"from takeback\.shell\.classify"):
        old = import_module("takeback.commands.judge")
    assert old.classify is classify
