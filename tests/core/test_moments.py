"""Moments: what a person types, and where that is in the journal."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from takeback.core import events as e
from takeback.core import ids, moments
from takeback.core.change import Change, Target, Version
from takeback.core.history import History
from takeback.core.moments import AtId, AtTime, LastClean, Moment
from takeback.core.record import Record
from takeback.core.standing import SETBACKS_MAX
from takeback.errors import UsageError
from tests.core.told import Told, change

ZURICH = ZoneInfo("Europe/Zurich")
NOW = datetime(2026, 11, 18, 15, 30, 20, tzinfo=ZURICH)
NOW_US = int(NOW.timestamp()) * 1_000_000
LOOK = (e.Mark("files", "b3:00"),)
F = Target("files", "f")


def at(text: str) -> str:
    """Return the time that a text names, on the clock of UTC."""
    spoken = moments.parse(text, NOW_US, ZURICH)
    assert isinstance(spoken, AtTime)
    return datetime.fromtimestamp(spoken.at_us / 1e6, UTC).isoformat(" ")


@pytest.mark.parametrize(
    "text, utc",
    [
        ("14:02", "2026-11-18 13:02:00+00:00"),
        (" 14:02:03 ", "2026-11-18 13:02:03+00:00"),
        ("9:05", "2026-11-18 08:05:00+00:00"),
        ("today 14:02", "2026-11-18 13:02:00+00:00"),
        ("today", "2026-11-17 23:00:00+00:00"),
        ("yesterday", "2026-11-16 23:00:00+00:00"),
        ("Yesterday  18:00", "2026-11-17 17:00:00+00:00"),
        ("yesterday 23:59:59", "2026-11-17 22:59:59+00:00"),
        ("2h ago", "2026-11-18 12:30:20+00:00"),
        ("2h", "2026-11-18 12:30:20+00:00"),
        ("2 hours ago", "2026-11-18 12:30:20+00:00"),
        ("1h30m ago", "2026-11-18 13:00:20+00:00"),
        ("1 h 30 min ago", "2026-11-18 13:00:20+00:00"),
        ("90s ago", "2026-11-18 14:28:50+00:00"),
        ("3 days ago", "2026-11-15 14:30:20+00:00"),
        ("1 week ago", "2026-11-11 14:30:20+00:00"),
        ("0s ago", "2026-11-18 14:30:20+00:00"),
        ("2026-11-18", "2026-11-17 23:00:00+00:00"),
        ("2026-11-18 14:02", "2026-11-18 13:02:00+00:00"),
        ("2026-07-01T14:02", "2026-07-01 12:02:00+00:00"),
        ("2026-11-18T14:02:03.250Z", "2026-11-18 14:02:03.250000+00:00"),
        ("2026-11-18T14:02:03+05:30", "2026-11-18 08:32:03+00:00"),
    ],
)
def test_times(text: str, utc: str) -> None:
    assert at(text) == utc
    assert moments.is_spoken(text, NOW_US, ZURICH)


def test_ids_and_words() -> None:
    assert moments.parse("c3", NOW_US, ZURICH) == AtId("c3")
    assert moments.parse(" before  a4 ", NOW_US, ZURICH) == AtId("a4", "before")
    assert moments.parse("after s7", NOW_US, ZURICH) == AtId("s7", "after")
    assert moments.parse("last-clean", NOW_US, ZURICH) == LastClean()


@pytest.mark.parametrize(
    "text", ["", "soon", "c0", "c3 ", "ago", "h ago", "14", "src/app.py", "last clean", "2026-13-01"]
)
def test_what_is_not_a_moment_is_told_what_one_may_be(text: str) -> None:
    with pytest.raises(UsageError) as error:
        moments.parse(text, NOW_US, ZURICH)
    assert error.value.message == f"{text!r} is not a moment; nothing was changed"
    for way in ("c3", "before a4", "after s7", "14:02", "2h ago", "yesterday 18:00", "last-clean"):
        assert way in error.value.hint
    assert not moments.is_spoken(text, NOW_US, ZURICH)


@pytest.mark.parametrize(
    "text, message, hint",
    [
        ("15:31", "15:31 is still to come", 'do you mean "yesterday 15:31"?'),
        ("2027-01-01", "2027-01-01 is still to come", "a moment is"),
        ("24:00", "24:00 is not a time of day", "a moment is"),
        ("10:60", "10:60 is not a time of day", "a moment is"),
        ("10:00:60", "10:00:60 is not a time of day", "a moment is"),
        ("before lunch", "'lunch' is not an id", "a moment is"),
        (
            "2026-03-29 02:30",
            "there was no 2026-03-29 02:30: the clocks were set forward then",
            "a moment is",
        ),
        (
            "2026-10-25 02:30",
            "2026-10-25 02:30 came twice, because the clocks were set back",
            "say which: 2026-10-25T00:30:00+00:00 and 2026-10-25T01:30:00+00:00",
        ),
    ],
)
def test_a_time_that_is_none(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        moments.parse(text, NOW_US, ZURICH)
    assert error.value.message.startswith(message) and error.value.message.endswith("; nothing was changed")
    assert error.value.hint.startswith(hint)
    assert moments.is_spoken(text, NOW_US, ZURICH), "it was meant as a moment, not as a path"


def test_a_time_is_said_as_it_may_be_typed() -> None:
    said = moments.said(NOW_US, ZURICH)
    assert said == "2026-11-18 15:30:20"
    assert moments.parse(said, NOW_US, ZURICH) == AtTime(NOW_US, said)


def test_only_ids_stand_without_quotes() -> None:
    assert Moment("c3", 3, 3).typed == "c3"
    assert Moment("after s7", 9, 9).typed == '"after s7"'
    assert Moment("2h ago", 9, 9, "2026-11-18 13:30:20").typed == '"2026-11-18 13:30:20"'


# Where it is


def began(
    told: Told,
    stream: str = "w",
    *,
    step: str = "",
    parent: str = "",
    looked: bool = True,
    effect: e.Effect = e.Effect.RESTORABLE,
) -> str:
    marks = LOOK if looked else ()
    event = e.ActionBegan("tool", effect, step=step, parent=parent, marks=marks)
    return told.tell(event, stream).id


def ended(told: Told, action: str, *changes: Change, stream: str = "w", looked: bool = True) -> int:
    marks = LOOK if looked else ()
    return told.tell(e.ActionEnded(action, e.Outcome.DONE, changes, marks), stream).seq


def found(history: History, text: str) -> tuple[int, int]:
    spoken = moments.parse(text, NOW_US, ZURICH)
    assert isinstance(spoken, AtId)
    moment = moments.moment_of(history, spoken)
    assert moment.name == text
    return moment.position, moment.look


def test_before_and_after_an_action() -> None:
    told = Told()
    told.tell(e.CheckpointTaken("first", marks=LOOK))
    drift = told.tell(e.DriftSeen((change(F, "", "1"),), LOOK)).id
    action = began(told)
    end = ended(told, action, change(F, "1", "2"))
    for history in told.every_way():
        assert found(history, "c1") == found(history, "after c1") == (1, 1)
        assert found(history, "before c1") == (0, 0)
        assert found(history, f"before {drift}") == (1, 1), "the record of drift shows what came of it"
        assert found(history, f"after {drift}") == (2, 2)
        assert found(history, f"before {action}") == (2, 3), (
            "the beginning of an action shows what was before it"
        )
        assert found(history, f"after {action}") == (end, end) == (4, 4)
        assert [moments.look_before(history, seq) for seq in (1, 2, 3, 4, 5, 99)] == [0, 1, 2, 3, 4, 4]


def test_a_rollback_and_a_noted_action_are_moments_too() -> None:
    told = Told()
    told.tell(e.CheckpointTaken("first", marks=LOOK))
    undo = told.tell(e.RollbackBegan(e.RollbackKind.UNDO, (), marks=LOOK)).id
    told.tell(e.RollbackEnded(undo, (), marks=LOOK))
    noted = told.tell(e.ActionNoted("read", e.Outcome.DONE)).id
    for history in told.every_way():
        assert found(history, f"before {undo}") == (1, 2) and found(history, f"after {undo}") == (3, 3)
        assert found(history, f"before {noted}") == (3, 3) and found(history, f"after {noted}") == (4, 4)


def test_a_step_and_a_run_begin_with_their_first_look() -> None:
    told = Told()
    run = told.tell(e.RunBegan("session", detached=True), "").id
    step = told.tell(e.StepBegan("prompt"), run).id
    told.tell(e.ActionNoted("read", e.Outcome.DONE, step=step), run)
    told.tell(e.DriftSeen((change(F, "", "1"),), LOOK))
    action = began(told, run, step=step)
    ended(told, action, stream=run)
    empty = told.tell(e.StepBegan("nothing"), run).id
    over = told.tell(e.StepEnded(step, e.Outcome.DONE), run).seq
    last = told.tell(e.RunEnded(e.Outcome.DONE), run).seq
    for history in told.every_way():
        assert found(history, f"before {step}") == found(history, f"before {run}") == (4, 5)
        assert found(history, f"before {empty}") == (6, 6), "nothing was done in it"
        assert found(history, f"after {step}") == (over, over)
        assert found(history, f"after {run}") == (last, last)


def test_a_look_begins_a_step_whatever_the_action_does() -> None:
    told = Told()
    run = told.tell(e.RunBegan("run"), "").id
    step = told.tell(e.StepBegan("send"), run).id
    told.tell(e.DriftSeen((change(F, "", "1"),), LOOK))
    began(told, run, step=step, effect=e.Effect.IRREVERSIBLE)
    assert found(told.story.history, f"before {step}") == (3, 4)


def refused(history: History, text: str) -> UsageError:
    with pytest.raises(UsageError) as error:
        found(history, text)
    return error.value


def test_what_has_not_ended_has_no_moment_after_it() -> None:
    told = Told()
    run = told.tell(e.RunBegan("session", detached=True), "").id
    step = told.tell(e.StepBegan("prompt"), run).id
    action = began(told, run, step=step)
    for history in told.every_way():
        for id in (run, step, action):
            error = refused(history, f"after {id}")
            assert error.message.startswith(f"{id} has not ended yet") and f'"before {id}"' in error.hint
    told.tell(e.ActionDetached(action, marks=LOOK), run)
    assert "has not ended yet" in refused(told.story.history, f"after {action}").message


def test_a_bare_id_is_asked_which_end_is_meant() -> None:
    told = Told()
    run = told.tell(e.RunBegan("session", detached=True), "").id
    action = began(told, run)
    for id, kind in ((run, "a run"), (action, "an action")):
        error = refused(told.story.history, id)
        assert error.message.startswith(f"{id} is {kind}")
        assert error.hint == f'say "before {id}" or "after {id}"'


@pytest.mark.parametrize("id", ["c9", "a9", "r9", "s9", "p9", "i9"])
def test_what_is_not_there(id: str) -> None:
    assert f"there is no {ids.KINDS[id[0]]} {id}" in refused(Told().story.history, f"after {id}").message


def test_nobody_looked_around_a_call_inside_of_a_run() -> None:
    told = Told()
    run = told.tell(e.RunBegan("run"), "").id
    body = began(told, run)
    call = began(told, run, parent=body, looked=False)
    ended(told, call, stream=run, looked=False)
    other = began(told, run, looked=False)
    alone = began(told, looked=False)
    for history in told.every_way():
        assert found(history, f"before {body}") == found(history, f"before {run}") == (1, 2)
        for text, part in ((f"before {call}", body), (f"after {call}", body), (f"before {other}", run)):
            error = refused(history, text)
            assert error.message.startswith(f"nobody looked at the files around {text.split()[1]}")
            assert f'"before {part}"' in error.hint
        assert found(history, f"before {alone}") == (5, 5), "nothing else was at work"


def test_a_call_of_an_agents_session_stands_alone_unless_it_is_inside_of_another() -> None:
    told = Told()
    session = told.tell(e.RunBegan("session", detached=True), "").id
    call = began(told, session, looked=False)
    inside = began(told, session, parent=call, looked=False)
    for history in told.every_way():
        assert found(history, f"before {call}") == (1, 1)
        assert f'"before {call}"' in refused(history, f"before {inside}").hint


def test_a_call_in_a_step_is_told_the_step() -> None:
    told = Told()
    run = told.tell(e.RunBegan("run"), "").id
    step = told.tell(e.StepBegan("edit"), run).id
    body = began(told, run, step=step)
    call = began(told, run, step=step, parent=body, looked=False)
    for history in told.every_way():
        assert f'"before {step}"' in refused(history, f"before {call}").hint
        assert found(history, f"before {step}") == (2, 3)


def test_a_rollback_in_a_run_looks_for_itself() -> None:
    told = Told()
    run = told.tell(e.RunBegan("run"), "").id
    undo = told.tell(e.RollbackBegan(e.RollbackKind.UNDO, ()), run).id
    for history in told.every_way():
        assert found(history, f"before {undo}") == (1, 1)


def test_a_step_whose_first_call_nobody_looked_around_has_no_moment_before_it() -> None:
    told = Told()
    run = told.tell(e.RunBegan("run"), "").id
    step = told.tell(e.StepBegan("edit"), run).id
    call = began(told, run, step=step, looked=False)
    assert f"around {call}" in refused(told.story.history, f"before {step}").message


# Times


def position(history: History, records: list[Record], at_us: int) -> int:
    return moments.position_at(history, AtTime(at_us, "then"), lambda seq: records[seq - 1].at_us)


def test_a_time_is_found_without_reading_all_records() -> None:
    told = Told()
    for _ in range(500):
        told.tell(e.CheckpointTaken())  # at 1 us, 2 us and so on
    read: list[int] = []

    def when(seq: int) -> int:
        read.append(seq)
        return told.records[seq - 1].at_us

    history = told.story.history
    assert [moments.position_at(history, AtTime(at, "t"), when) for at in (1, 250, 499, 500, 9999)] == [
        1,
        250,
        499,
        500,
        500,
    ]
    assert len(read) <= 5 * 11
    with pytest.raises(
        UsageError, match="nothing had been recorded yet at then; nothing was changed"
    ) as error:
        position(history, told.records, 0)
    assert "1970-01-01T00:00:00Z" in error.value.hint


def test_a_time_before_everything_is_told_when_it_began() -> None:
    told = Told()
    for n in range(2):
        told.tell_at(NOW_US + n * 5_000_000, e.CheckpointTaken())
    with pytest.raises(UsageError, match="nothing had been recorded yet") as error:
        position(told.story.history, told.records, NOW_US - 1)
    assert error.value.hint == "the first record is of 2026-11-18T14:30:20Z"


def test_a_clock_that_was_set_back_makes_times_ambiguous() -> None:
    told = Told()
    second = 1_000_000
    for at in (100, 200, 300, 150, 250, 400):
        told.tell_at(at * second, e.CheckpointTaken())
    for history in told.every_way():
        assert history.setbacks == [4]

        def where(at: int, history: History = history) -> int:
            return position(history, told.records, at * second)

        assert [where(at) for at in (100, 149, 300, 399, 400, 999)] == [1, 1, 5, 5, 6, 6]
        for at in (150, 210, 299):
            with pytest.raises(UsageError, match="then came 2 times") as error:
                where(at)
            assert "before a4" in error.value.hint


def test_processes_that_write_at_once_set_no_clock_back() -> None:
    told = Told()
    for at in (5_000_000, 4_000_000, 4_500_000, 3_999_999):
        told.tell_at(at, e.CheckpointTaken())
    assert told.story.history.setbacks == [4]


def test_of_very_many_setbacks_the_last_are_kept() -> None:
    told = Told()
    for n in range(SETBACKS_MAX + 6):
        told.tell_at((1000 - 10 * n) * 1_000_000, e.CheckpointTaken())
    assert told.story.history.setbacks == list(range(7, SETBACKS_MAX + 7))


# The last clean checkpoint


def test_last_clean_is_before_the_first_change_that_still_stands() -> None:
    told = Told()
    told.tell(e.CheckpointTaken("one", marks=LOOK))
    first = began(told)
    end = ended(told, first, change(F, "", "1"))
    told.tell(e.CheckpointTaken("two", marks=LOOK))
    second = began(told)
    ended(told, second, change(Target("files", "g"), "", "1"))
    last = told.tell(e.CheckpointTaken("three", marks=LOOK)).id
    for history in told.every_way():
        assert moments.last_clean(history).name == "c1"
    undo = told.tell(e.RollbackBegan(e.RollbackKind.UNDO, (first,))).id
    item = e.Item(F, e.Did.REMOVED, verified=True, settles=(first,), seqs=(end,))
    told.tell(e.RollbackEnded(undo, (item,), (change(F, "1", ""),)))
    for history in told.every_way():
        assert moments.last_clean(history).name == "c4"
    undo = told.tell(e.RollbackBegan(e.RollbackKind.UNDO, (second,))).id
    item = e.Item(Target("files", "g"), e.Did.REMOVED, verified=True, settles=(second,), seqs=(6,))
    told.tell(e.RollbackEnded(undo, (item,), (change(Target("files", "g"), "1", ""),)))
    for history in told.every_way():
        assert moments.last_clean(history) == Moment(last, 7, 7), "nothing stands: the last of all"


def test_without_a_checkpoint_nothing_is_clean() -> None:
    told = Told()
    with pytest.raises(UsageError, match="there is no checkpoint yet"):
        moments.last_clean(told.story.history)
    action = began(told)
    ended(told, action, change(F, "", "1"))
    with pytest.raises(UsageError, match=f"no checkpoint before {action}") as error:
        moments.last_clean(told.story.history)
    assert f'"before {action}"' in error.value.hint


def test_a_restore_may_name_a_moment() -> None:
    told = Told()
    action = began(told)
    ended(told, action, Change(F, Version("1"), Version("2")))
    restore = told.tell(e.RollbackBegan(e.RollbackKind.RESTORE, ('"after s7"', "after s7"), marks=LOOK)).id
    told.tell(e.RollbackEnded(restore, (), marks=LOOK))
    for history in told.every_way():
        assert history.actions[restore].name == 'restore "after s7" after s7'
        assert not history.breaches
