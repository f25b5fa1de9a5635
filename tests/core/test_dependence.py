"""A step that used the result of another depends on it, directly or through others."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core import selection as select
from takeback.core.dependence import dependents
from takeback.core.entities import RecordedStep
from tests.core.story import Story

UNDO = e.RollbackKind.UNDO


class Steps:
    """Steps of one run: each is an action that writes, or only looks."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.run = story.run()
        self.action: dict[str, str] = {}

    def take(self, *uses: str, writes: str = "", over: bool = True, acts: bool = True) -> str:
        """Take a step that uses others, and return its id."""
        step = self.story.tell(e.StepBegan("step", uses=uses), self.run).id
        if acts:
            self.action[step] = self.story.act({writes: step} if writes else {}, self.run, step=step)
        if over:
            self.story.tell(e.StepEnded(step, e.Outcome.DONE), self.run)
        return step

    def undo(self, step: str) -> None:
        plan = self.story.plan(select.of_ids(self.story.history, [self.action[step]]))
        self.story.carry_out(plan, UNDO)

    def depend_on(self, *steps: str) -> tuple[list[str], list[str]]:
        """Return the steps that depend on these: those that stand, and those that changed nothing."""
        found = dependents(self.story.history, [self.action[step] for step in steps])
        return _ids(found.standing), _ids(found.silent)


def _ids(steps: tuple[RecordedStep, ...]) -> list[str]:
    return [step.id for step in steps]


def test_what_used_a_result_depends_on_it_directly_or_through_others() -> None:
    steps = Steps(Story())
    meeting = steps.take(writes="meeting")
    letter = steps.take(meeting, writes="letter")
    other = steps.take(writes="other")
    check = steps.take(letter)
    report = steps.take(other, check, writes="report")
    assert steps.depend_on(meeting) == ([letter, report], [check])
    assert steps.depend_on(letter) == ([report], [check])
    assert steps.depend_on(meeting, letter) == ([report], [check]), "what is chosen is not told again"
    assert steps.depend_on(report) == ([], [])
    assert steps.depend_on() == ([], [])


def test_what_is_taken_back_does_not_depend_but_passes_it_on() -> None:
    steps = Steps(Story())
    meeting = steps.take(writes="meeting")
    letter = steps.take(meeting, writes="letter")
    report = steps.take(letter, writes="report")
    steps.undo(letter)
    assert steps.depend_on(meeting) == ([report], [])


def test_a_step_that_is_open_or_did_nothing_does_not_depend_but_passes_it_on() -> None:
    steps = Steps(Story())
    first = steps.take(writes="first")
    open_one = steps.take(first, writes="open", over=False)
    empty = steps.take(first, acts=False)
    assert steps.depend_on(first) == ([], [])
    after_open, after_empty = steps.take(open_one, writes="x"), steps.take(empty, writes="y")
    assert steps.depend_on(first) == ([after_open, after_empty], [])


def test_a_step_stands_while_one_of_its_actions_does() -> None:
    story = Story()
    steps = Steps(story)
    first = steps.take(writes="first")
    second = steps.take(first, writes="second", over=False)
    story.act({}, steps.run, step=second)
    story.tell(e.StepEnded(second, e.Outcome.DONE), steps.run)
    assert steps.depend_on(first) == ([second], [])
    steps.undo(second)
    assert steps.depend_on(first) == ([], [second]), "its other action was not taken back"


def test_the_steps_of_several_runs_are_told_in_order() -> None:
    story = Story()
    one, other = Steps(story), Steps(story)
    first, theirs = one.take(writes="a"), other.take(writes="b")
    other_looks, looks = other.take(theirs), one.take(first)
    other_writes, writes = other.take(theirs, writes="c"), one.take(first, writes="d")
    found = dependents(story.history, [one.action[first], other.action[theirs]])
    assert _ids(found.standing) == [other_writes, writes]
    assert _ids(found.silent) == [other_looks, looks]


def test_what_is_outside_of_steps_or_runs_has_no_dependents() -> None:
    story = Story()
    steps = Steps(story)
    first = steps.take(writes="first")
    steps.take("", first, writes="second")
    alone = story.act({"x": "1"}, steps.run)
    adrift = story.act({"y": "1"}, step=first)
    assert dependents(story.history, [alone, adrift]) == dependents(story.history, [])
