"""Keys of calls."""

from __future__ import annotations

from takeback.core import keys


def test_calls_of_one_step_that_are_to_do_the_same_are_alike() -> None:
    assert keys.alike("book", "mail", {"to": "a"}) == keys.alike("book", "mail", {"to": "a"})
    for other in (("pay", "mail", {"to": "a"}), ("book", "call", {"to": "a"}), ("book", "mail", {"to": "b"})):
        assert keys.alike("book", "mail", {"to": "a"}) != keys.alike(*other)


def test_a_key_stays_what_it_was() -> None:
    """The keys are in journals and with providers: another one would be another call."""
    assert keys.action_key("book", 2, "mail", {"to": "a"}) == "b7b0b1d90d72f256912d63a1ee709431"
    assert keys.intent_key("mail", {"to": "a"}) == "92f9c2ad39f22e3818e8a0c1bcdf5cc9"
    assert keys.call_key("w", "r1", 1, "a2", 3) == "83ecba98527ce5fd5fa4d60599aaf40a"
