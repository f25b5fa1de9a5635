"""What a command names outside the workspace is captured, and taken back like everything else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from blake3 import blake3

from tests.cli.inside import Inside

from .cli import Result, Workspace, items
from .picture import Picture, differences, picture


class Beside:
    """A workspace with a folder beside it, `other`, and a home with settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = Inside.at(folder)
        self.world.human("plan.md", "old\n")
        other, config = folder / "other", folder / "home/.config"
        (other / "deep/empty").mkdir(parents=True)
        (other / "a.txt").write_text("a\n")
        (other / "deep/b.txt").write_text("b\n")
        os.symlink("a.txt", other / "link")
        (other / "deep/b.txt").chmod(0o640)
        config.mkdir(parents=True)
        (config / "x").write_text("setting\n")
        self.world.save()

    def agent(self, script: str, code: int = 0) -> Result:
        done = self.run("run", "--name", "agent", "--", "sh", "-c", script)
        assert done.code == code, done
        return done

    def run(self, *words: str) -> Result:
        return self.world.run(*words, env={"HOME": str(self.folder / "home")})

    def undo(self, *words: str, code: int = 0) -> Result:
        return self.world.undo(*words, code=code)

    def look(self) -> dict[str, Picture]:
        """Everything but the state, without the times of folders: those around what was named stay as they are."""
        seen = {p.name: picture(bytes(p)) for p in self.folder.iterdir() if p.is_dir() and p.name != "state"}
        return {
            name: {path: e._replace(mtime_ns=0) if e.kind == "directory" else e for path, e in found.items()}
            for name, found in seen.items()
        }

    def has(self, name: str) -> bool:
        return os.path.lexists(self.folder / name)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside(tmp_path)


COMMANDS = {
    "a tree is deleted": "rm -rf ../other",
    "a file is deleted": "rm ../other/a.txt",
    "a line is added to a setting": "echo more >> ~/.config/x",
    "a setting is written anew": "printf new > $HOME/.config/x",
    "a new setting": "echo new > ~/.config/new",
    "a tree is moved": "mv ../other ../elsewhere",
    "a tree is moved into the workspace": "mv ../other here",
    "a file is moved over another": "mv ../other/a.txt ../other/deep/b.txt",
    "edited in place": "sed -i s/a/z/ ../other/a.txt",
    "folders are made": "mkdir -p ../new/a/b && echo x > ../new/a/b/c",
    "another mode": "chmod 600 ../other/deep/b.txt",
    "a link is made and one replaced": "ln -s nowhere ../other/l2; ln -sf deep ../other/link",
    "copied over": "cp plan.md ../other/a.txt",
    "a file becomes a folder": "rm ../other/a.txt && mkdir ../other/a.txt && touch ../other/a.txt/in",
    "through a link": "echo through >> ../other/link",
    "in another folder": "cd ../other && rm -r deep && echo x > a.txt",
    "what a wildcard finds": "rm -r ../other/d* ../other/*.txt",
    "a time only": "touch -d 2001-01-01 ../other/a.txt",
}


@pytest.mark.parametrize("script", COMMANDS.values(), ids=COMMANDS)
def test_a_command_is_taken_back_and_redone(beside: Beside, script: str) -> None:
    before = beside.look()
    beside.agent(script)
    after = beside.look()
    assert after != before, "it changed something outside"
    assert all(item["verified"] for item in beside.undo().json["items"])
    assert beside.look() == before
    assert beside.world.do("redo").code == 0
    assert beside.look() == after
    beside.undo()
    assert beside.look() == before


def test_a_tree_comes_back_with_all_its_times(beside: Beside) -> None:
    os.link(beside.folder / "other/a.txt", beside.folder / "other/deep/hard")
    before = picture(bytes(beside.folder / "other"))
    beside.agent("rm -rf ../other")
    beside.undo()
    assert differences(before, picture(bytes(beside.folder / "other"))) == []


def test_what_is_said_names_what_was_captured(beside: Beside) -> None:
    done = beside.agent("rm -rf ../other ~/.config/x; rm plan.md")
    other, setting = str(beside.folder / "other"), str(beside.folder / "home/.config/x")
    assert "captured outside the workspace" in done.stderr and "not recorded" not in done.stderr
    assert "files outside" in done.stderr
    id = beside.world.action("agent")
    shown = beside.world.do("show", id).stdout
    assert other in shown and setting in shown and "captured outside the workspace" in shown
    assert beside.world.do("show", id, "--json").json["outside"] == sorted([setting, other])
    changed = {c["target"]: c["resource"] for c in beside.world.do("show", id, "--json").json["changed"]}
    assert changed[setting] == changed[f"{other}/a.txt"] == "outside" and changed["plan.md"] == "files"
    diff = beside.world.do("diff", id).stdout
    assert "-setting" in diff
    assert "-setting" in beside.world.do("diff").stdout, "also what changed since the last action began"
    preview = beside.undo("--preview").json
    assert {i["target"]: i["did"] for i in preview["items"]}[f"{other}/deep/b.txt"] == "restored"
    assert not beside.has("other")


def test_one_path_outside_can_be_taken_back_alone(beside: Beside) -> None:
    beside.agent("rm -rf ../other; rm ~/.config/x")
    beside.undo("--path", str(beside.folder / "home/.config/x"))
    assert beside.read("home/.config/x") == "setting\n" and not beside.has("other")
    beside.undo("--path", "../other")
    assert beside.read("other/deep/b.txt") == "b\n"


def test_an_edit_by_a_human_since_is_a_conflict(beside: Beside) -> None:
    beside.agent("echo agent >> ~/.config/x")
    (beside.folder / "home/.config/x").write_text("human\n")
    refused = beside.undo(code=3)
    assert "you changed it since" in refused.said and beside.read("home/.config/x") == "human\n"
    kept = beside.undo("--on-conflict", "keep")
    assert list(items(kept).values()) == ["kept"] and beside.read("home/.config/x") == "human\n"


def test_an_edit_by_a_human_is_merged_or_kept_for_a_redo(beside: Beside) -> None:
    setting = beside.folder / "home/.config/x"
    setting.write_text("".join(f"{n}\n" for n in range(20)))
    beside.agent("sed -i 's/^3$/three/' ~/.config/x")
    setting.write_text(setting.read_text().replace("17\n", "seventeen\n"))
    human = setting.read_text()
    beside.undo("--on-conflict", "merge")
    assert "\n3\n" in setting.read_text() and "seventeen" in setting.read_text()
    beside.world.do("redo")
    assert setting.read_text() == human
    beside.agent("echo agent > ~/.config/x")
    setting.write_text("of a human")
    beside.undo("--on-conflict", "overwrite")
    assert setting.read_text() == human
    beside.world.do("redo")
    assert setting.read_text() == "of a human", "what an overwrite replaced is kept"


def test_what_a_human_put_into_a_new_folder_stays(beside: Beside) -> None:
    beside.agent("mkdir ../new && echo x > ../new/by-agent")
    (beside.folder / "new/by-human").write_text("mine")
    report = beside.undo()
    assert items(report)[str(beside.folder / "new")] == "kept"
    assert os.listdir(beside.folder / "new") == ["by-human"]


def test_what_was_there_between_two_actions_is_nobodys(beside: Beside) -> None:
    """A human's edit is not given to whoever is at work when the path is named again."""
    beside.agent("echo one >> ~/.config/x")
    (beside.folder / "home/.config/x").write_text("human\n")
    beside.agent("echo two >> ~/.config/x")
    beside.undo()
    assert beside.read("home/.config/x") == "human\n"
    beside.undo(code=3)
    assert beside.read("home/.config/x") == "human\n"


def test_a_restore_leaves_it_alone_and_says_so(beside: Beside) -> None:
    checkpoint = beside.world.save()
    beside.agent("rm plan.md ~/.config/x")
    done = beside.world.do("restore", checkpoint, "--json").json
    did = {item["target"]: (item["did"], item["why"]) for item in done["items"]}
    assert did[str(beside.folder / "home/.config/x")][0] == "kept"
    assert "outside the workspace" in did[str(beside.folder / "home/.config/x")][1]
    assert beside.world.has("plan.md") and not beside.has("home/.config/x")
    beside.undo(beside.world.action("agent"))
    assert beside.read("home/.config/x") == "setting\n"


def test_retention_keeps_what_an_undo_needs_and_names_what_it_let_go(beside: Beside) -> None:
    beside.agent("rm -rf ../other")
    beside.world.do("gc")
    beside.world.do("verify", "--deep")
    beside.undo()
    assert beside.read("other/deep/b.txt") == "b\n"
    beside.world.configure("[store]\nkeep-checkpoints = 1\n")
    beside.agent("rm -rf ../other/deep")
    beside.agent("echo x > ~/.config/x")
    beside.world.do("gc")
    refused = beside.undo(_second_last(beside.world), code=3)
    assert "no longer kept" in refused.said


def _second_last(world: Workspace) -> str:
    entries = [e for e in world.do("log", "--json").json["entries"] if e.get("name") == "agent"]
    ids: list[str] = sorted((e["id"] for e in entries), key=lambda id: int(id[1:]))
    return ids[-2]


def test_over_the_limit_nothing_is_captured_and_that_is_said_first(beside: Beside) -> None:
    beside.world.human("takeback.toml", "[outside]\nmax-files = 3\n")
    done = beside.agent("rm -rf ../other; echo more >> ~/.config/x")
    said = f"{beside.folder / 'other'} was not captured: with it there would be more than 3 files"
    assert done.stderr.count(said) == 2, "before it starts, and in the receipt"
    shown = beside.world.do("show", beside.world.action("agent"), "--json").json
    assert shown["effect"] == "irreversible" and shown["uncaptured"] == [said]
    report = beside.undo()
    assert beside.read("home/.config/x") == "setting\n" and not beside.has("other")
    assert str(beside.folder / "other") not in items(report)


def test_on_autopilot_what_cannot_be_captured_is_refused(beside: Beside) -> None:
    beside.world.human("takeback.toml", "[outside]\nmax-bytes = 2\n")
    done = beside.run("run", "--autopilot", "--", "sh", "-c", "rm -rf ../other")
    assert done.code == 125 and "was not captured" in done.stderr and beside.has("other")
    beside.world.human("takeback.toml", "")
    done = beside.run("run", "--autopilot", "--", "sh", "-c", "rm -rf ../other")
    assert done.code == 0 and not beside.has("other")
    beside.undo()
    assert beside.has("other")


def test_it_can_be_switched_off(beside: Beside) -> None:
    beside.world.configure("[outside]\ncapture = false\n")
    done = beside.run("run", "--autopilot", "--", "sh", "-c", "rm ../other/a.txt")
    assert done.code == 0 and "takeback.toml turns capturing outside off" in done.stderr
    assert beside.undo("--preview").json["verdict"] == "nothing"


@pytest.mark.parametrize("script", ["rm -rf ..", "rm -rf ../state/x", "rm -rf ~/.."])
def test_what_holds_the_workspace_or_our_state_is_refused_on_autopilot(beside: Beside, script: str) -> None:
    done = beside.run("run", "--autopilot", "--", "sh", "-c", script)
    assert done.code == 125 and "was not captured" in done.stderr
    assert beside.world.has("plan.md")


def test_two_workspaces_side_by_side_take_back_in_one_folder(beside: Beside) -> None:
    """Both have an action and a rollback of the same numbers."""
    second = Inside(beside.folder / "second", beside.folder / "state")
    second.root.mkdir()
    second.human("plan.md", "old\n")
    second.save()
    beside.agent("rm ../other/a.txt")
    second.agent("rm ../other/deep/b.txt")
    beside.undo()
    second.undo()
    assert beside.read("other/a.txt") == "a\n" and beside.read("other/deep/b.txt") == "b\n"


def test_a_repository_outside_comes_back_as_files(beside: Beside) -> None:
    repository = beside.folder / "repository"
    os.system(f"git init -q {repository} && cd {repository} && echo x > f && git add f && git commit -qm one")
    before = picture(bytes(repository))
    beside.agent("rm -rf ../repository")
    beside.undo()
    assert differences(before, picture(bytes(repository))) == []


def test_nothing_is_kept_in_the_state_once_it_is_over(beside: Beside) -> None:
    for number in range(3):
        beside.agent(f"echo {number} > ../other/n{number}")
    (state,) = (beside.folder / "state/workspaces").iterdir()
    assert len(list((state / "outside").iterdir())) <= 1
    modes = {path.stat().st_mode & 0o777 for path in [state / "outside", *(state / "outside").rglob("*")]}
    assert modes <= {0o700, 0o600}
    shutil.rmtree(state / "outside")
    beside.undo()
    assert not beside.has("other/n2")


def test_what_another_user_planted_in_a_shared_folder_is_not_taken_for_ours(beside: Beside) -> None:
    beside.agent("echo agent > ../other/a.txt")
    (state,) = (beside.folder / "state/workspaces").iterdir()
    for number in range(1, 30):
        planted = beside.folder / "other" / f".takeback-a{number}-{state.name}"
        planted.mkdir()
        (planted / "ready").write_text("")
        name = blake3(b"a.txt").hexdigest()
        (planted / f"new-{name}").write_text("of another user")
        os.chown(planted, 12345, -1)
    done = beside.run("undo")
    assert done.code == 6 and "another user has taken the name of Takeback's own folder" in done.said
    assert beside.read("other/a.txt") == "agent\n"
    for planted in (beside.folder / "other").glob(".takeback-*"):
        shutil.rmtree(planted)
    beside.undo()
    assert beside.read("other/a.txt") == "a\n"
