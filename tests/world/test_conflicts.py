"""Human and agent in one file: nothing is decided silently, and whatever is chosen can be taken back."""

from __future__ import annotations

from .cli import Workspace, items

LINES = [f"line {n}\n" for n in range(1, 31)]


def text(**changed: str) -> str:
    """Thirty lines, with some changed: text(l4="timeout = 5")."""
    lines = list(LINES)
    for place, line in changed.items():
        lines[int(place[1:]) - 1] = line + "\n"
    return "".join(lines)


def both_edited(world: Workspace, agents: str, humans: str, base: str = "") -> None:
    """The agent changes two files and makes one; the human then edits one of them."""
    world.human("shared.txt", base or text())
    world.human("other.txt", "old")
    world.human("../agents.txt", agents)
    world.agent("cat ../agents.txt > shared.txt; echo new > other.txt; echo x > made.txt")
    world.human("shared.txt", humans)


def test_stop_is_the_default_and_changes_nothing(world: Workspace) -> None:
    both_edited(world, text(l4="agent"), text(l4="agent", l25="human"))
    before = world.look()
    done = world.do("undo", code=3)
    assert "shared.txt" in done.said
    assert "--on-conflict" in done.said
    assert world.changes_since(before) == []
    world.do("undo", "--on-conflict", "stop", code=3)
    assert world.changes_since(before) == []


def test_keep_takes_back_the_rest(world: Workspace) -> None:
    both_edited(world, text(l4="agent"), text(l4="agent", l25="human"))
    done = world.undo("--on-conflict", "keep")
    assert world.read("shared.txt") == text(l4="agent", l25="human")
    assert world.read("other.txt") == "old"
    assert not world.has("made.txt")
    assert items(done)["shared.txt"] == "kept"


def test_merge_takes_out_only_the_agents_lines(world: Workspace) -> None:
    both_edited(world, text(l4="agent"), text(l4="agent", l25="human"))
    before = world.look()
    done = world.undo("--on-conflict", "merge")
    assert world.read("shared.txt") == text(l25="human")
    assert world.read("other.txt") == "old"
    assert items(done)["shared.txt"] == "merged"
    world.do("redo")
    assert world.changes_since(before) == []


def test_merge_of_overlapping_lines_stays_a_conflict_without_markers(world: Workspace) -> None:
    both_edited(world, text(l4="agent"), text(l4="human over agent"))
    before = world.look()
    world.do("undo", "--on-conflict", "merge", code=3)
    assert world.changes_since(before) == []


def test_merge_keeps_the_line_endings(world: Workspace) -> None:
    def windows(text: str) -> str:
        return text.replace("\n", "\r\n")

    both_edited(
        world, windows(text(l4="agent")), windows(text(l4="agent", l25="human")), base=windows(text())
    )
    world.undo("--on-conflict", "merge")
    assert world.read("shared.txt") == windows(text(l25="human"))


def test_merge_of_a_binary_file_stays_a_conflict(world: Workspace) -> None:
    world.human("image", b"\x00\x01" * 100)
    world.agent("printf 'agent\\000' > image")
    world.human("image", b"human\x00\xff")
    before = world.look()
    world.do("undo", "--on-conflict", "merge", code=3)
    assert world.changes_since(before) == []


def test_overwrite_keeps_the_humans_version_recoverable(world: Workspace) -> None:
    both_edited(world, text(l4="agent"), text(l4="human"))
    before = world.look()
    world.undo("--on-conflict", "overwrite")
    assert world.read("shared.txt") == text()
    world.do("redo")
    assert world.changes_since(before) == []


def test_a_file_that_the_agent_made_and_the_human_edited(world: Workspace) -> None:
    world.agent("echo draft > plan.md")
    world.human("plan.md", "draft, and my own thoughts\n")
    before = world.look()
    world.do("undo", code=3)
    assert world.changes_since(before) == []
    world.undo("--on-conflict", "keep")
    assert world.changes_since(before) == []


def test_a_file_that_the_agent_deleted_and_the_human_made_anew(world: Workspace) -> None:
    world.human("plan.md", "old")
    world.agent("rm plan.md")
    world.human("plan.md", "anew")
    world.do("undo", code=3)
    assert world.read("plan.md") == "anew"
    world.undo("--on-conflict", "overwrite")
    assert world.read("plan.md") == "old"


def test_a_file_that_the_agent_edited_and_the_human_deleted(world: Workspace) -> None:
    world.human("plan.md", "old")
    world.agent("echo new > plan.md")
    (world.root / "plan.md").unlink()
    world.do("undo", code=3)
    assert not world.has("plan.md")
    world.undo("--on-conflict", "keep")
    assert not world.has("plan.md")


def test_what_the_human_already_put_back_is_no_conflict(world: Workspace) -> None:
    world.human("plan.md", "old")
    world.human("other.md", "old")
    world.agent("echo new > plan.md; echo new > other.md")
    world.human("plan.md", "old")
    done = world.undo()
    assert items(done)["plan.md"] == "already"
    assert world.read("other.md") == "old"


def test_a_mode_that_the_human_set_is_a_conflict_too(world: Workspace) -> None:
    world.human("tool.sh", "old")
    world.agent("echo new > tool.sh")
    (world.root / "tool.sh").chmod(0o755)
    world.do("undo", code=3)
    assert world.read("tool.sh") == "new\n"


def test_a_touch_by_the_human_is_no_conflict(world: Workspace) -> None:
    world.human("plan.md", "old")
    world.agent("echo new > plan.md")
    (world.root / "plan.md").touch()
    world.undo()
    assert world.read("plan.md") == "old"


def test_a_conflict_in_redo_changes_nothing(world: Workspace) -> None:
    world.human("plan.md", "old")
    world.agent("echo new > plan.md; echo x > made")
    world.undo()
    world.human("plan.md", "mine")
    before = world.look()
    world.do("redo", code=3)
    assert world.changes_since(before) == []


def test_a_preview_changes_nothing_and_tells_the_truth(world: Workspace) -> None:
    world.human("a", "old")
    world.human("b", "old")
    world.agent("echo new > a; rm b; echo x > made")
    before = world.look()
    shown = world.undo("--preview")
    assert world.changes_since(before) == []
    assert set(items(shown)) == set(items(world.undo()))


def test_a_preview_shows_conflicts(world: Workspace) -> None:
    both_edited(world, text(l4="agent"), text(l4="human"))
    before = world.look()
    done = world.run("undo", "--preview")
    assert "shared.txt" in done.said and "conflict" in done.said
    assert world.changes_since(before) == []


def test_what_was_just_tried_is_not_offered_again(world: Workspace) -> None:
    both_edited(world, text(l4="agent"), text(l4="human over agent"))
    offered = world.do("undo", code=3).said
    assert all(f"--on-conflict {choice}" in offered for choice in ("keep", "overwrite"))
    assert "--on-conflict merge" not in offered, "both changed the same line, so it could not help"
    for again in (("undo",), ("undo", "--preview")):
        said = world.do(*again, "--on-conflict", "merge", code=3).said
        assert "overwrite" in said and "--on-conflict merge" not in said and "| merge" not in said, said


def test_a_restore_that_stops_offers_no_option_that_it_does_not_have(world: Workspace) -> None:
    world.human("data.csv", "old")
    checkpoint = world.save()
    world.configure('[files]\nexclude = ["data.csv"]\n')
    said = world.do("restore", checkpoint, code=3).said
    assert "is now excluded" in said and "--path" in said and "--on-conflict" not in said, said


def test_what_is_suggested_is_no_more_than_what_was_asked_for(world: Workspace) -> None:
    world.human("a", "old\n")
    world.human("b", "old\n")
    world.do("run", "--", "sh", "-c", "echo agent > a; echo agent > b")
    world.human("a", "mine\n")
    stopped = world.run("undo", "--path", "a")
    assert stopped.code == 3
    (line,) = [line for line in stopped.stderr.splitlines() if line.endswith("--on-conflict overwrite")]
    suggested = line.split("takeback ", 1)[1].split()
    world.do(*suggested)
    assert world.read("a") == "old\n"
    assert world.read("b") == "agent\n"


def test_an_undo_that_stopped_claims_no_deed(world: Workspace) -> None:
    world.human("a", "old\n")
    world.human("b", "old\n")
    world.do("run", "--", "sh", "-c", "echo agent > a; echo agent > b")
    world.human("a", "mine\n")
    stopped = world.do("undo", "--json", code=3).json
    assert (stopped["verdict"], stopped["rollback"]) == ("conflict", None)
    assert {item["target"]: item["did"] for item in stopped["items"] if item["target"] != "."} == {
        "a": "conflict",
        "b": "untouched",
    }
    assert not any(item["verified"] or "says" in item for item in stopped["items"])


def test_what_was_kept_is_not_called_taken_back(world: Workspace) -> None:
    world.human("a", "old\n")
    world.do("run", "--", "sh", "-c", "echo agent > a")
    world.human("a", "mine\n")
    assert "Took back nothing of" in world.do("undo", "--on-conflict", "keep").stdout
    (action,) = [e for e in world.do("log", "--json").json["entries"] if e["kind"] == "action"]
    assert (action["taken_back"], action["partly_taken_back"], action["kept"]) == (False, False, True)
    listed = world.do("log").stdout
    assert "kept" in listed and "taken back" not in listed
    assert "Nothing to take back" in world.do("undo").stdout
    assert "Brought back nothing" in world.do("redo").stdout
    assert world.read("a") == "mine\n"
    world.do("undo", code=3)
    world.do("undo", "--on-conflict", "overwrite")
    assert world.read("a") == "old\n" and "taken back" in world.do("log").stdout
