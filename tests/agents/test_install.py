"""`takeback install` and `uninstall` as a user types them: what is shown, asked, written, and taken out again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from takeback.agents import settings
from takeback.cli.app import app
from takeback.daemon.hook_command import hook_command
from takeback.testing import crash
from tests.cli.processes import bound, on_terminal
from tests.world.picture import differences, picture

from .desk import Desk

AGENTS = list(settings.LAYOUTS)
FOREIGN = """\
{
    // mine
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]},
    "theme": "dark"
}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk.at(tmp_path)


@pytest.mark.parametrize("agent", AGENTS)
def test_in_with_one_command_and_out_without_a_trace(agent: str, desk: Desk) -> None:
    before = picture(os.fsencode(desk.root))
    done = desk.do("install", agent, "--json").json
    path = desk.settings(agent)
    assert (done["path"], done["changed"]) == (str(path), True)
    assert settings.missing(agent, path.read_text()) == []
    (command,) = settings.commands(agent, path.read_text())
    assert settings.program(command) == shlex.split(hook_command(settings.layout(agent).agent))
    assert desk.do("status", "--json").json["checkpoint"]["id"] == done["checkpoint"]
    assert desk.do("install", agent, "--json").json["changed"] is False
    assert re.search("already (under protection|in its settings)", desk.do("install", agent).stdout)
    assert desk.do("uninstall", agent, "--json").json["changed"] == [str(path)]
    assert desk.do("uninstall", agent, "--json").json["changed"] == []
    after = picture(os.fsencode(desk.root))
    assert {name for name in before | after if before.get(name) != after.get(name)} <= {b"."}  # its time


def test_below_the_top_of_a_project_it_is_said_where_to_start(desk: Desk) -> None:
    desk.do("init")
    (desk.root / "src").mkdir()
    assert "in that folder" not in desk.do("install", "cursor").stdout
    done = desk.do("install", "codex", "-C", "src")
    assert f"in its settings, for {desk.root}.\nStart Codex in that folder" in done.stdout
    assert desk.settings("codex").exists()


def test_the_shell_completes_agents() -> None:
    offered = ShellComplete(app, {}, "takeback", "_TAKEBACK_COMPLETE")
    for command in ("install", "uninstall", "doctor"):
        assert [item.value for item in offered.get_completions([command], "c")] == [
            "claude-code",
            "codex",
            "cursor",
        ]


def test_what_is_said(desk: Desk) -> None:
    said = desk.do("install", "codex").stdout
    assert said.startswith(f"--- {desk.settings('codex')}\n+++ ")
    assert "takeback doctor codex" in said and "takeback uninstall codex" in said
    assert "--user" in desk.do("install", "cursor", "--user").stdout
    assert "can still be taken back" in desk.do("uninstall", "codex").stdout


@pytest.mark.parametrize(
    "words, how",
    [
        (["codex"], "type /hooks"),
        (["codex", "--user"], "type /hooks"),
        (["gemini"], "only in a folder that you trust"),
        (["gemini", "--user"], ""),
        (["cursor"], ""),
    ],
)
def test_what_still_needs_a_word_of_the_user_is_not_called_protected(
    words: list[str], how: str, desk: Desk
) -> None:
    for _ in range(2):
        said = desk.do("install", *words).stdout
        assert ("under protection" in said) == (not how)
        assert how in said and ("nothing is protected" in said) == bool(how)
    assert bool(desk.do("install", *words, "--json").json["then"]) == bool(how)


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("agent", ["claude-code", "gemini"])
def test_hooks_that_are_switched_off_are_not_called_protection(agent: str, user: bool, desk: Desk) -> None:
    path = desk.settings(agent, user=user)
    path.parent.mkdir(parents=True)
    path.write_text('{"disableAllHooks": true, "hooksConfig": {"enabled": false}}')
    words = ["--user"] if user else []
    said = desk.do("install", agent, *words).stdout
    assert "under protection" not in said
    assert f"{path} tells it to run no hooks" in said and "nothing is protected" in said
    assert desk.do("install", agent, *words, "--json").json["switched_off_by"] == str(path)
    desk.do("uninstall", agent, *words)
    assert desk.do("install", agent).stdout.count("tells it to run no hooks") == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_a_second_time_nothing_is_written_nor_recorded(agent: str, desk: Desk) -> None:
    first = desk.do("install", agent, "--json").json
    was, events = desk.settings(agent).stat(), desk.do("status", "--json").json["events"]
    again = desk.do("install", agent, "--json").json
    assert first["checkpoint"] and again["checkpoint"] is None
    now = desk.settings(agent).stat()
    assert (now.st_ino, now.st_mtime_ns) == (was.st_ino, was.st_mtime_ns)
    desk.do("save")  # which would see a change, if there was one
    assert desk.do("status", "--json").json["events"] == events + 1


def test_the_first_checkpoint_is_told_and_the_hooks_are_recorded(desk: Desk) -> None:
    done = desk.do("install", "cursor")
    assert done.stderr.startswith(f"Protecting {desk.root} (1 file, ")
    assert ": first checkpoint c" in done.stderr
    log = desk.do("log").stdout
    assert "takeback install cursor" in log and "(outside)" not in log  # nobody else is blamed for it
    assert desk.do("install", "codex").stderr == ""


@pytest.mark.parametrize("home", ["", "relative", "{tmp}/missing"])
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_home_that_is_none(command: str, home: str, desk: Desk, tmp_path: Path) -> None:
    done = desk.run(command, "codex", "--user", env={"HOME": home.format(tmp=tmp_path)})
    assert done.code == 2 and "HOME is" in done.stderr and "nothing was changed" in done.stderr
    assert not (desk.root / "relative").exists() and not (tmp_path / "missing").exists()


@pytest.mark.parametrize("ignored", [False, True])
def test_what_git_would_commit_is_said(ignored: bool, desk: Desk) -> None:
    assert "do not commit" not in desk.do("install", "cursor").stdout  # there is no repository
    subprocess.run(["git", "init", "-q", desk.root], check=True)
    desk.human(".gitignore", ".claude/\n" if ignored else "")
    said = desk.do("install", "claude-code").stdout
    told = "git does not ignore .claude/settings.local.json, which names a path of this machine"
    assert (told in said) == (not ignored)
    assert "do not commit" not in desk.do("install", "claude-code", "--user").stdout


@pytest.mark.parametrize("user", [False, True])
def test_hooks_that_are_elsewhere_are_named(user: bool, desk: Desk) -> None:
    here, there = ([], ["--user"]) if user else (["--user"], [])
    desk.do("install", "claude-code", *there)
    said = desk.do("uninstall", "claude-code", *here).stdout
    assert "Takeback has no hooks for Claude Code in" in said
    assert str(desk.settings("claude-code", user=user)) in said
    assert said.endswith(f"takeback uninstall claude-code{' --user' * user}\n")
    desk.do("install", "claude-code", *here)
    said = desk.do("uninstall", "claude-code", *here).stdout
    assert "is not recorded" not in said and "stay, so Claude Code is still recorded" in said


@pytest.mark.parametrize("user", [False, True])
def test_a_plugin_that_goes_on_recording_is_named(user: bool, desk: Desk) -> None:
    own = desk.user / ".claude/settings.json"
    own.parent.mkdir()
    own.write_text('{"enabledPlugins": {"takeback@takeback": true, "other@takeback": true}}')
    there = ["--user"] * user
    desk.do("install", "claude-code", *there)
    said = desk.do("uninstall", "claude-code", *there).stdout
    assert "is not recorded" not in said and f"takeback@takeback is switched on in {own}" in said
    assert "claude plugin uninstall takeback@takeback" in said
    again = desk.do("uninstall", "claude-code", *there, "--json").json
    assert again["remaining"] == [{"path": str(own), "plugin": "takeback@takeback"}]
    # The project's own settings are nearer, and switch it off here.
    shared = desk.root / ".claude/settings.json"
    shared.parent.mkdir(exist_ok=True)
    shared.write_text('{"enabledPlugins": {"takeback@takeback": false}}')
    assert desk.do("uninstall", "claude-code", *there, "--json").json["remaining"] == []


def test_all_that_goes_on_recording_is_named(desk: Desk) -> None:
    own, local = desk.user / ".claude/settings.json", desk.root / ".claude/settings.local.json"
    own.parent.mkdir()
    own.write_text('{"enabledPlugins": {"takeback@takeback": true}}')
    desk.do("install", "claude-code", "--user")
    desk.do("install", "claude-code")
    said = desk.do("uninstall", "claude-code", "--user").stdout
    assert f"Those in {local} stay" in said and "The plugin takeback@takeback" in said
    assert "  remove them   takeback uninstall claude-code\n" in said
    desk.do("install", "claude-code", "--user")
    said = desk.do("uninstall", "claude-code").stdout
    assert f"Those in {own} stay" in said and "takeback uninstall claude-code --user" in said
    # Where no hook runs at all, nothing goes on.
    local.parent.mkdir(exist_ok=True)
    local.write_text('{"disableAllHooks": true}')
    assert desk.do("uninstall", "claude-code", "--json").json["remaining"] == []


@pytest.mark.parametrize(
    "agent, on, off",
    [
        ("claude-code", '{"disableAllHooks": false}', '{"disableAllHooks": true}'),
        ("gemini", '{"hooksConfig": {"enabled": true}}', '{"hooksConfig": {"enabled": false}}'),
    ],
)
def test_hooks_that_nearer_settings_switch_on_again_go_on_recording(
    agent: str, on: str, off: str, desk: Desk
) -> None:
    """Seen with Claude Code: the nearest file that says anything about it decides."""
    own, near = desk.settings(agent, user=True), desk.settings(agent)
    for path, text in ((own, off), (near, on)):
        path.parent.mkdir()
        path.write_text(text)
    desk.do("install", agent, "--user")
    assert desk.do("install", agent, "--json").json["switched_off_by"] is None
    said = desk.do("uninstall", agent).stdout
    assert "is not recorded" not in said and f"Those in {own} stay" in said
    near.write_text(off)
    own.write_text(own.read_text().replace(off[1:-1], on[1:-1]))
    assert desk.do("uninstall", agent, "--json").json["remaining"] == []


@pytest.mark.parametrize(
    "name, scope", [("settings.json", " --scope project"), ("settings.local.json", " --scope local")]
)
def test_a_plugin_of_the_project_is_taken_out_where_it_is(name: str, scope: str, desk: Desk) -> None:
    path = desk.root / ".claude" / name
    path.parent.mkdir()
    path.write_text('{"enabledPlugins": {"takeback@takeback": true}}')
    said = desk.do("uninstall", "claude-code").stdout
    assert f"claude plugin uninstall takeback@takeback{scope}\n" in said
    # It begins with the first event too, like hooks in settings.
    assert desk.do("status", "--json").json["hooks"] == ["claude-code"]


def test_status_knows_hooks_that_wait_for_their_agent(desk: Desk) -> None:
    assert "takeback install AGENT" in desk.do("status").stdout
    assert "takeback install AGENT" in desk.do("undo", code=2).stderr
    desk.do("install", "claude-code", "--user")
    said = desk.do("status").stdout
    assert "The hooks for Claude Code begin with the first event" in said and "not protected" not in said
    assert desk.do("status", "--json").json["hooks"] == ["claude-code"]
    assert "not protected" in desk.do("status", "-C", str(desk.user)).stdout  # never a home folder
    desk.settings("claude-code").parent.mkdir()
    desk.settings("claude-code").write_text('{"disableAllHooks": true}')
    assert "not protected" in desk.do("status").stdout


@pytest.mark.parametrize("agent", AGENTS)
def test_for_all_projects(agent: str, desk: Desk) -> None:
    before = picture(os.fsencode(desk.root))
    desk.do("install", agent, "--user")
    assert settings.missing(agent, desk.settings(agent, user=True).read_text()) == []
    assert picture(os.fsencode(desk.root)) == before
    assert desk.do("status", "--json").json["protected"] is False  # it is from its first event on
    desk.do("uninstall", agent, "--user")
    assert [path for path in desk.user.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "agent, variable, place",
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/plugins/takeback.js"),
    ],
)
def test_settings_that_were_moved(agent: str, variable: str, place: str, desk: Desk, tmp_path: Path) -> None:
    done = desk.run("install", agent, "--user", "--json", env={variable: str(tmp_path / "moved")})
    assert done.json["path"] == str(tmp_path / "moved" / place)
    assert (tmp_path / "moved" / place).exists()


def test_what_others_wrote_stays(desk: Desk) -> None:
    path = desk.settings("gemini")
    path.parent.mkdir()
    path.write_text(FOREIGN)
    desk.do("install", "gemini")
    assert settings.others("gemini", path.read_text()) == []  # PreToolUse is none of its events
    assert '// mine\n    "hooks": {"PreToolUse"' in path.read_text()
    desk.do("uninstall", "gemini")
    assert path.read_text() == FOREIGN


def test_hooks_that_stand_in_the_shared_settings_are_not_doubled(desk: Desk) -> None:
    shared = desk.root / ".claude/settings.json"
    shared.parent.mkdir()
    shared.write_text(settings.install("claude-code", "", "takeback-hook claude-code"))
    done = desk.do("install", "claude-code", "--json").json
    assert done["path"] == str(shared)
    assert not desk.settings("claude-code").exists()
    desk.do("uninstall", "claude-code")
    assert not shared.parent.exists()


@pytest.mark.parametrize(
    "text, why",
    [
        ('// mine\n{"version": 1}\n', "comments"),
        ('{"version": 1,}\n', "a comma before"),
        ("{ not json", "line 1"),
        ('{"hooks": []}', "not an object"),
        ("[]", "not a JSON object"),
    ],
)
def test_settings_that_cannot_be_read_are_left_alone(text: str, why: str, desk: Desk) -> None:
    path = desk.settings("cursor")
    path.parent.mkdir()
    path.write_text(text)
    done = desk.do("install", "cursor", code=2)
    assert str(path) in done.stderr and why in done.stderr and "nothing was changed" in done.stderr
    assert path.read_text() == text
    assert desk.do("status", "--json").json["protected"] is False


def test_another_plugin_of_the_same_name_is_not_overwritten(desk: Desk) -> None:
    path = desk.settings("opencode")
    path.parent.mkdir(parents=True)
    path.write_text("// mine\n")
    assert "another plugin" in desk.do("install", "opencode", code=2).stderr
    assert path.read_text() == "// mine\n"


def test_a_folder_that_cannot_be_written(desk: Desk) -> None:
    path = desk.settings("codex")
    path.parent.mkdir()
    path.write_text("{}\n")
    path.parent.chmod(0o500)
    try:
        done = bound(desk, "install", "codex", code=4)
    finally:
        path.parent.chmod(0o700)
    assert "could not be written" in done.stderr and "check the permissions of the file" in done.stderr
    assert path.read_text() == "{}\n"
    (entry,) = [e for e in desk.do("log", "--json").json["entries"] if e["kind"] == "action"]
    assert (entry["name"], entry["state"], entry["changes"]) == ("takeback install codex", "failed", 0)


def test_settings_are_as_before_if_nothing_can_be_recorded(desk: Desk) -> None:
    desk.human("takeback.toml", "mistake")
    before = picture(os.fsencode(desk.root))
    assert "takeback.toml is not valid" in desk.do("install", "gemini", code=2).stderr
    assert differences(before, picture(os.fsencode(desk.root))) == []


def test_of_an_uninstall_that_ends_half_way_it_is_said_what_is_out(desk: Desk) -> None:
    desk.do("install", "claude-code")
    own, shared = desk.settings("claude-code"), desk.root / ".claude/settings.json"
    shared.write_text(own.read_text())
    with crash.at("exchange-staged", lambda: shared.write_text("{}"), nth=2):
        said = desk.do("uninstall", "claude-code", code=4).stderr
    assert f"{shared} has changed meanwhile" in said and f"the hooks in {own} have been removed" in said
    assert not own.exists() and shared.read_text() == "{}"


def test_a_link_stays_a_link(desk: Desk, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles/hooks.json"
    real.parent.mkdir()
    real.write_text("{}\n")
    link = desk.settings("cursor")
    link.parent.mkdir()
    link.symlink_to(real)
    assert desk.do("install", "cursor", "--json").json["path"] == str(real)
    assert link.is_symlink() and settings.missing("cursor", real.read_text()) == []
    desk.do("uninstall", "cursor")
    assert link.is_symlink() and real.read_text() == "{}\n"


def test_a_home_folder_is_no_project(desk: Desk) -> None:
    done = desk.run("install", "claude-code", "-C", str(desk.user))
    assert done.code == 3 and "takeback install claude-code --user" in done.stderr
    assert list(desk.user.iterdir()) == []


def test_names_that_are_none(desk: Desk) -> None:
    assert "did you mean claude-code?" in desk.do("install", "claude", code=2).stderr
    assert "did you mean gemini?" in desk.do("install", "gemini-cli", code=2).stderr
    unknown = desk.do("install", "xyzzy", code=2).stderr
    assert "did you mean" not in unknown and "opencode" in unknown
    assert "did you mean" not in desk.do("install", "foo", code=2).stderr
    (desk.root / ".cursor").mkdir()
    found = desk.run("install", env={"PATH": "/nonexistent"})
    assert found.code == 2
    assert "cursor (there is .cursor)" in found.stderr and "`takeback install cursor`" in found.stderr
    assert not desk.home.exists() or not list((desk.home / "workspaces").glob("*"))


# --- On a terminal ---


def answered(desk: Desk, answer: str, *words: str) -> tuple[int, str]:
    """Type an answer to whatever a command asks."""
    return on_terminal(desk, *words, env={"HOME": str(desk.user), "TERM": "dumb"}, answer=answer)


def test_on_a_terminal_it_is_asked_first(desk: Desk) -> None:
    code, shown = answered(desk, "n", "install", "codex")
    assert code == 3 and "Write this? [Y/n]" in shown and "nothing was changed" in shown
    assert not desk.settings("codex").exists()
    assert desk.do("status", "--json").json["protected"] is False
    code, shown = answered(desk, "y", "install", "codex")
    assert code == 0 and desk.settings("codex").exists()
    code, shown = answered(desk, "n", "uninstall", "codex", "-y")
    assert code == 0 and "Write this?" not in shown and not desk.settings("codex").exists()
