"""Where a workspace sits, and what does not come along when it moves."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core.events import Outcome
from takeback.core.seats import Place, Seat, WorkspaceSeated
from tests.core.story import Story

ONE, TWO = Place("1", "one", "/srv/one"), Place("2", "two", "/srv/other")
FILES, GIT = e.Mark("files", "b3:00"), e.Mark("git", "b3:00")


def done(
    story: Story, effect: e.Effect, marks: tuple[e.Mark, ...] = (), outcome: Outcome = Outcome.DONE
) -> str:
    began = story.tell(e.ActionBegan("tool", effect))
    story.tell(e.ActionEnded(began.id, outcome, marks=marks))
    return began.id


def test_nobody_sits_where_the_journal_is_with_its_folder() -> None:
    moves = Story().history.moves
    assert moves.seat is None and moves.at(5) is None and moves.here("/srv/one/x", 5) == "/srv/one/x"


def test_only_what_was_done_to_files_since_the_last_look_is_lost() -> None:
    story = Story()
    story.tell(WorkspaceSeated(ONE, 1))
    done(story, e.Effect.RESTORABLE)
    done(story, e.Effect.RESTORABLE, (FILES,))
    assert story.history.unseen() == []
    lost = done(story, e.Effect.RESTORABLE)
    done(story, e.Effect.NONE)
    done(story, e.Effect.COMPENSABLE, (GIT,))
    done(story, e.Effect.RESTORABLE, outcome=Outcome.FAILED)
    assert story.history.unseen() == [lost]
    # To sit down is no move: nothing was left anywhere.
    story.tell(WorkspaceSeated(ONE, 2))
    assert story.history.moves.lost == set() and story.history.moves.moved == 0
    moved = story.tell(WorkspaceSeated(TWO, 3, marks=(FILES,)))
    moves = story.history.moves
    assert moves.lost == {lost} and story.history.unseen() == [] and moves.moved == moved.seq
    assert moves.seat and moves.seat.place == TWO and moves.since_us == moves.looked_us == moved.at_us
    assert story.history.marks["files"] == FILES


def test_paths_are_meant_where_it_sits_now() -> None:
    story = Story()
    before = story.run()
    story.tell(WorkspaceSeated(ONE, 1))
    story.tell(WorkspaceSeated(TWO, 2, marks=(FILES,)))
    after = story.run()
    moves = story.history.moves
    for seq in (1, 2):  # also what was begun before anybody sat down: it was there
        assert moves.at(seq) == ONE
        assert (
            moves.here("/srv/one", seq) == "/srv/other"
            and moves.here("/srv/one/a/b", seq) == "/srv/other/a/b"
        )
        assert moves.here("/srv/ones", seq) == "/srv/ones" and moves.here("--fast", seq) == "--fast"
    assert moves.at(4) == TWO and moves.here("/srv/other/a", 4) == "/srv/other/a"
    assert (before, after) == ("r1", "r4")


def test_how_a_place_is_called() -> None:
    assert ONE.said == "one:/srv/one" and Place("3", "", "/x").said == "/x"
    assert Seat(1, ONE, 0, 10, 1).is_live and not Seat(1, ONE, 0, 10, 0).is_live


def test_before_anybody_sits_down_nothing_is_known() -> None:
    moves = Story().history.moves
    assert (moves.since_us, moves.looked_us, moves.moved) == (0, 0, 0)
    assert moves.at(7) is None and moves.here("/srv/one/a", 7) == "/srv/one/a"


def test_it_sits_in_its_place_from_the_event_on_that_says_so() -> None:
    story = Story()
    first = story.tell(WorkspaceSeated(ONE, 1)).seq
    second = story.tell(WorkspaceSeated(TWO, 2, marks=(FILES,))).seq
    assert (story.history.moves.at(first), story.history.moves.at(second)) == (ONE, TWO)
