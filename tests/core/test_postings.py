"""Which records speak of what: the numbers that an index keeps, and what is added to them later."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random

from takeback.core import events as e
from takeback.core.change import Target
from takeback.core.history import History
from takeback.core.intents import IntentDeferred
from takeback.core.postings import END, Flag, Postings, Topic, every, named, newest_of, numbered, of_target
from takeback.core.standing import CurrentState
from tests.core.answers import answers
from tests.core.list_index import ListIndex
from tests.core.random_story import RandomStory
from tests.core.told import Told


def test_the_numbers_in_an_index_stay_what_they_are() -> None:
    """Another version of the program reads an index: a new topic gets a new number, and an old one keeps its own."""
    assert {topic.name: topic.value for topic in Topic} == {
        "ACTION": 1,
        "RUN": 2,
        "APPROVAL": 3,
        "INTENT": 4,
        "IN_RUN": 5,
        "UNDER": 6,
        "TARGET": 7,
        "RUN_KEY": 8,
        "CALL_KEY": 9,
        "INTENT_KEY": 10,
        "MEMORY": 11,
        "ASKED": 12,
        "HELD": 13,
        "LEFT": 14,
        "BY": 15,
        "BESIDE": 16,
        "ACTIONS": 17,
        "RUNS": 18,
        "ROLLBACKS": 19,
        "CHECKPOINTS": 20,
        "APPROVALS": 21,
        "INTENTS": 22,
        "CHANGES": 23,
        "DOUBTS": 24,
        "DECISIONS": 25,
        "IN_STEP": 26,
        "STEPS": 27,
        "LISTED_RUNS": 28,
        "CALLED": 29,
        "ADDED": 30,
        "UNSEEN": 31,
        "BRANDED": 32,
        "OPEN_THEN": 33,
        "LOOKS": 34,
        "PLAN": 35,
    }
    assert END == 2**63 - 1, "the highest number that a database keeps"
    assert {flag.name: flag.value for flag in Flag} == {
        "UNDOABLE": 1,
        "REDOABLE": 2,
        "UNKNOWN": 4,
        "UNSETTLED": 8,
    }
    assert every(Topic.RUNS) == 0x12_00000000000000
    assert numbered(Topic.ACTION, "a7") == 0x01_00000000000007
    assert named(Topic.CALL_KEY, "r1", "k") == 0x09_E043D25C39805B
    assert of_target(Target("files", "src/f", "root")) == 0x07_B3F94694B4F8A4


def test_only_what_lists_everything_of_a_kind_is_counted() -> None:
    postings = Postings(None)
    for topic in Topic:
        postings.post(every(topic), 1)
        postings.post(every(topic), 2)
        postings.post(numbered(topic, "a1"), 1)
        postings.post(numbered(topic, f"a{2**55}"), 1)
    assert postings.counts == {every(topic): 2 for topic in Topic}
    assert postings.count(numbered(Topic.ACTION, "a1")) == 0


def test_what_comes_after_no_record_is_everything() -> None:
    postings = Postings(None)
    for seq in (1, 2):
        postings.post(every(Topic.RUNS), seq)
    assert list(postings.after(every(Topic.RUNS))) == [1, 2]
    assert list(postings.after(every(Topic.RUNS), 1)) == [2]


def test_numbers_from_the_highest_on_come_once() -> None:
    assert list(newest_of(iter([5, 3, 3]), iter([4, 3, 1]))) == [5, 4, 3, 1]


def test_what_another_process_adds_to_the_index_meanwhile_is_not_counted_twice() -> None:
    told = RandomStory(Random(1))
    told.play(40)
    index = ListIndex(told.records)
    index.take_in(index.opened())
    here, there = index.opened(), index.opened()
    told.play(40)
    for record in told.records[there.seq :]:
        there.apply(record)
    index.take_in(there)
    for record in told.records[here.seq :]:
        here.apply(record)
    assert answers(here) == answers(History.of(told.records))


def test_an_id_of_one_kind_does_not_name_a_thing_of_another() -> None:
    told = Told()
    told.tell(e.RunBegan("agent"), "")
    history = told.indexed()
    assert "r1" in history.runs and "a1" not in history.runs
    for not_an_id in ("r", "r1x", "r0", 1, None):
        assert not_an_id not in history.runs


def test_the_actions_of_a_run_are_those_that_it_lists() -> None:
    told = Told()
    empty, run = told.tell(e.RunBegan("agent"), "").id, told.tell(e.RunBegan("agent"), "").id
    first, second = (told.tell(e.ActionBegan("tool", e.Effect.NONE), run).id for _ in range(2))
    other = told.tell(e.ActionBegan("tool", e.Effect.NONE)).id
    for history in told.every_way():
        listed = history.runs[run].actions
        assert [id for id in ("a1", "a2", "r3", first, second, other, "a6") if id in listed] == [
            first,
            second,
        ]
        assert "a1" not in history.runs[empty].actions
        for not_an_id in ("a", "a3x", "a0", 3, None):
            assert not_an_id not in listed


class Watched(nullcontext[None]):
    """A guard that knows whether it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def __enter__(self) -> None:
        self.times += 1


def test_a_record_is_applied_under_the_guard_of_the_index_or_the_one_given() -> None:
    told = Told()
    record = told.tell(e.RunBegan("agent"), "")
    given = Watched()
    History(guard=given).apply(record)
    assert given.times
    told.index.guard = indexed = Watched()
    history = History(guard=given)
    given.times = 0
    history.begin_at(told.index, CurrentState())
    history.apply(record)
    assert indexed.times and not given.times


# Found by a search: the digests of these two keys are equal, in the first run of a journal.
ONE, OTHER = "k36f5b282c5291d", "kaea9b3ec84c384"


def test_names_with_the_same_digest_are_told_apart() -> None:
    assert named(Topic.CALL_KEY, "r1", ONE) == named(Topic.CALL_KEY, "r1", OTHER)
    told = Told()
    run = told.tell(e.RunBegan("agent"), "").id
    call = told.tell(e.ActionBegan("tool", e.Effect.NONE, key=ONE), run).id
    intent = told.tell(IntentDeferred("email", "email", ONE, call, "d"), run).id
    # The digest is of all names together, so these have it too.
    whole, other = f"r1\0{ONE}", f"r1\0{OTHER}"
    keyed = told.tell(e.RunBegan("agent", whole), "").id
    acted = told.tell(e.ActionBegan("tool", e.Effect.NONE, whole)).id
    for history in told.every_way():
        assert run == "r1" and (history.calls_of(run, ONE), history.calls_of(run, OTHER)) == ([call], [])
        assert [found.id for found in history.intents.of_key(run, ONE)] == [intent]
        assert history.intents.of_key(run, OTHER) == []
        assert (history.runs_of_key(whole), history.runs_of_key(other)) == ([keyed], [])
        assert [action.id for action in history.by([whole])] == [acted] and not list(history.by([other]))


class CountingIndex(ListIndex):
    """An index that notes which keys it is asked for."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked: list[int] = []

    def seqs(self, key: int) -> list[int]:
        self.asked.append(key)
        return [2, 5, 8]

    def size(self, key: int, until: int) -> int:
        self.asked.append(key)
        return 2


def test_an_index_is_not_asked_about_a_run_that_began_after_it() -> None:
    index = CountingIndex()
    index.position = 7
    postings = Postings(index)
    key = numbered(Topic.HELD, "r9")
    postings.post(key, 9)
    assert postings.seqs(key, "r8") == [9] and postings.size(key, "r8") == 1
    assert index.asked == []
    assert postings.seqs(key, "r7") == [2, 5, 9] and postings.size(key, "r7") == 3
    assert postings.size(key) == 3 and index.asked == [key] * 3


def test_an_index_is_asked_once_for_what_it_was_asked_last() -> None:
    index = CountingIndex()
    index.position = 7
    postings = Postings(index)
    one, other = numbered(Topic.HELD, "r1"), numbered(Topic.HELD, "r2")
    assert postings.seqs(one) == postings.seqs(one) == [2, 5] and index.asked == [one]
    postings.post(one, 9)
    assert postings.seqs(one) == [2, 5, 9] and index.asked == [one]
    assert postings.seqs(other) == [2, 5] and index.asked == [one, other]
    postings.position = 8  # the index has taken in more
    assert postings.seqs(other) == [2, 5, 8] and index.asked == [one, other, other]
