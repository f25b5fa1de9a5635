"""What the limits let go is named before it is needed; what they keep is whole."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from takeback.engine.prune import DAY_US, RetentionLimits, prune
from takeback.errors import ConflictError, TakebackError
from takeback.workspace.opening import open_workspace
from tests.world.settings import write

from .conftest import Desk


@pytest.fixture
def watching() -> bool:
    return False


def settings(desk: Desk, text: str) -> None:
    write(desk.root, f"[store]\n{text}\n", desk.tb.state.parent.parent)
    desk.reopen()


def big(letter: str) -> str:
    return letter * 50_000


def test_nothing_is_lost_within_the_limits(desk: Desk) -> None:
    for text in ("one", "two", "three"):
        desk.agent(plan=big(text))
    pruned = desk.tb.gc()
    assert pruned.marks_pruned == 0
    for text in ("two", "one"):
        desk.tb.undo()
        assert desk.read("plan") == big(text)


def test_what_was_pruned_is_refused_and_named_before_anything_changes(desk: Desk) -> None:
    settings(desk, "keep-checkpoints = 1")
    desk.agent(plan="one", other="x")
    desk.agent(third="y")
    assert desk.tb.gc().marks_pruned >= 2
    first = next(a.id for a in desk.tb.history.actions.values() if a.is_tool)
    for preview in (True, False):
        try:
            report = desk.tb.undo(first, preview=preview)
        except ConflictError as error:
            report = error.report
        did = {str(item.target): (item.did, item.why) for item in report.items}
        assert did["plan"][0] == "conflict" and "no longer kept" in did["plan"][1]
        assert (desk.read("plan"), desk.read("other")) == ("one", "x")
    # What does not need the content can still be taken back.
    desk.tb.undo(first, on_conflict="keep")
    assert (desk.read("plan"), desk.read("other")) == ("one", None)


def test_restore_of_a_pruned_checkpoint_is_refused_in_plain_words(desk: Desk) -> None:
    """Pruned by the user's own limits is no corruption."""
    settings(desk, "keep-checkpoints = 1")
    checkpoint = desk.tb.save()
    desk.human("plan", "new")
    desk.tb.save()
    desk.tb.gc()
    for ask in (desk.tb.restore, desk.tb.diff):
        with pytest.raises(TakebackError) as caught:
            str(ask(checkpoint))
        assert "corrupt" not in caught.value.code, caught.value
        assert checkpoint.id in str(caught.value) and "pruned" in str(caught.value), str(caught.value)
    assert desk.read("plan") == "new"


def test_a_diff_of_a_pruned_action_is_no_failure(desk: Desk) -> None:
    settings(desk, "keep-checkpoints = 1")
    action = desk.agent(plan="one")
    desk.agent(other="x")
    desk.tb.gc()
    assert "plan" in str(desk.tb.diff(action))


def test_the_quota_is_met_from_the_oldest_on(desk: Desk) -> None:
    random = Random(7)
    for n in range(8):
        desk.agent(**{f"f{n % 2}": "".join(chr(32 + random.randrange(90)) for _ in range(80_000))})
    settings(desk, "quota-bytes = 400_000")
    pruned = desk.tb.gc()
    assert pruned.bytes_before > 400_000 >= pruned.bytes_after
    # The newest is still there, the oldest is not.
    desk.tb.undo()
    with pytest.raises(ConflictError):
        desk.tb.undo(next(a.id for a in desk.tb.history.actions.values() if a.is_tool))


def test_a_quota_is_met_again_and_again(desk: Desk) -> None:
    """What one clean-up let go is no damage to the next."""
    random = Random(7)
    settings(desk, "quota-bytes = 400_000")
    for n in range(24):
        desk.agent(**{f"f{n % 2}": "".join(chr(32 + random.randrange(90)) for _ in range(80_000))})
        if n % 8 == 7:
            assert desk.tb.gc().bytes_after <= 400_000
            assert desk.tb.verify(deep=True) == []
    again = desk.tb.gc()
    assert (again.marks_pruned, again.freed) == (0, 0)
    desk.tb.undo()


def test_a_cleanup_that_was_cut_short_is_no_damage_to_the_next(desk: Desk) -> None:
    """A part of an old state is gone and its root is not; as when the disk was full in between."""
    old = desk.tb.save()
    desk.human("sub/file", big("x"))
    second = desk.tb.save()
    desk.human("sub/file", big("y"))
    third = desk.tb.save()
    files, store = desk.tb.parts.files, desk.tb.parts.store
    live = files.blobs([third.taken.marks[0], old.taken.marks[0]])
    root_of_second = bytes.fromhex(second.taken.marks[0].state[3:])
    store.sweep(live | {root_of_second}, thorough=True)
    desk.reopen()
    assert desk.tb.gc().marks_kept == 3
    assert desk.tb.verify(deep=True) == []
    for checkpoint in (old, third):
        desk.tb.restore(checkpoint)
    with pytest.raises(TakebackError):
        desk.tb.restore(second)


def test_a_quota_that_is_too_small_keeps_the_last_state(desk: Desk) -> None:
    settings(desk, "quota-bytes = 1")
    desk.human("plan", big("a"))
    desk.tb.save()
    desk.human("plan", big("b"))
    checkpoint = desk.tb.save()
    assert desk.tb.gc().marks_kept == 1
    desk.human("plan", "c")
    desk.tb.restore(checkpoint)
    assert desk.read("plan") == big("b")


@pytest.mark.parametrize("watching", [False, True])
def test_a_cleanup_keeps_what_the_human_wrote_since_the_last_record(tmp_path: Path, watching: bool) -> None:
    """A workspace that lives on must not trust content that its own cleanup has let go."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "plan").write_text("old")
    with open_workspace(root, home=tmp_path / "state", watching=watching) as tb:
        tb.save()
        (root / "own").write_text(big("mine"))
        tb.gc()
        checkpoint = tb.save()
        (root / "own").unlink()
        tb.restore(checkpoint)
        assert (root / "own").read_text() == big("mine")


def test_a_cleanup_between_two_starts_keeps_what_the_human_wrote(desk: Desk) -> None:
    desk.tb.save()
    desk.human("own", big("mine"))
    desk.tb.gc()
    desk.reopen()
    checkpoint = desk.tb.save()
    (desk.root / "own").unlink()
    desk.reopen()
    desk.tb.restore(checkpoint)
    assert desk.read("own") == big("mine")


def test_days_count_from_the_last_time_that_a_state_was_recorded(desk: Desk) -> None:
    """A checkpoint of yesterday is kept, even if nothing had changed for months before it."""
    tb = desk.tb
    tb.save("months ago")
    recent = tb.save("yesterday")
    desk.human("plan", "new")
    tb.save("today")
    limits = RetentionLimits(keep_days=1, keep_checkpoints=0, quota_bytes=0)
    prune(tb.journal.read(), [], tb.parts.tracker.observed, tb.parts.store, limits, recent.at_us + DAY_US)
    desk.reopen()
    desk.tb.restore(recent)
    assert desk.read("plan") == "old"


def test_content_older_than_the_days_goes(desk: Desk) -> None:
    tb = desk.tb
    old = tb.save()
    desk.human("plan", "new")
    new = tb.save()
    limits = RetentionLimits(keep_days=1, keep_checkpoints=0, quota_bytes=0)
    pruned = prune(
        tb.journal.read(), [], {"files": tb.parts.files}, tb.parts.store, limits, new.at_us + DAY_US
    )
    assert (pruned.marks_kept, pruned.marks_pruned) == (1, 1)
    with pytest.raises(TakebackError):
        tb.restore(old)
    # However long ago: the last state always stays.
    pruned = prune(
        tb.journal.read(), [], {"files": tb.parts.files}, tb.parts.store, limits, new.at_us + 900 * DAY_US
    )
    assert pruned.marks_kept == 1


def test_a_cleanup_leaves_every_kept_checkpoint_whole(desk: Desk) -> None:
    settings(desk, "keep-checkpoints = 3")
    checkpoints = []
    for n in range(6):
        desk.human("plan", big(str(n)))
        desk.human(f"sub{n}/file", big(f"s{n}"))
        checkpoints.append(desk.tb.save())
    desk.tb.gc()
    assert desk.tb.verify(deep=True) == []
    for n in (3, 4, 5):
        desk.tb.restore(checkpoints[n])
        assert desk.read("plan") == big(str(n)) and desk.read(f"sub{n}/file") == big(f"s{n}")
