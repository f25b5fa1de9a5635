"""Keys of calls."""

from __future__ import annotations

from takeback.core import keys


def test_calls_of_one_step_that_are_to_do_the_same_are_alike() -> None:
    assert keys.alike("book", "mail", {"to": "a"}) == keys.alike("book", "mail", {"to": "a"})
    for other in (("pay", "mail", {"to": "a"}), ("book", "call", {"to": "a"}), ("book", "mail", {"to": "b"})):
        assert keys.alike("book", "mail", {"to": "a"}) != keys.alike(*other)
