"""Our hooks go into an agent's settings and out again; every other byte stays, however odd it looks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.agents import settings
from takeback.agents.settings import apply, failing_open, jsontext
from takeback.cli.consent import without_repeats
from takeback.errors import ConflictError, UsageError

JSON_AGENTS = [agent for agent in settings.LAYOUTS if agent != "opencode"]

FOREIGN = """\
{
  "permissions": {"allow": ["Bash(ls)"]},
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [ {"type": "command", "command": "sh -c 'exit 0'"} ] }
    ],
    "SessionStart": [{"hooks": [{"type": "command", "command": "node .claude/helpers/hook.cjs session"}]}],
    "Stop": []
  },
  "env": {"A": "1"}
}
"""
COMMENTED = """\
// mine
{
\t"hooks": {
\t\t/* none yet */
\t},
\t"theme": "dark", // as it should be
}
"""
TEXTS = {
    "absent": "",
    "empty": "{}",
    "empty with a line": "{}\n",
    "one line": '{"a":1,"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x"}]}]}}',
    "empty hooks": '{"hooks": {}}',
    "empty list": '{\n  "hooks": {\n    "PreToolUse": []\n  }\n}',
    "others": FOREIGN,
    "comments": COMMENTED,
    "windows": FOREIGN.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + FOREIGN,
    "wide": FOREIGN.replace("  ", "    "),
    "two of one name": '{"hooks": {"Stop": 1}, "hooks": {"Stop": []}}',
}


def plain(text: str) -> Any:
    return jsontext.parse(text).value if text else {}


def ours(agent: str) -> str:
    return failing_open.line(agent, f"takeback-hook {agent}")


@pytest.mark.parametrize("agent", JSON_AGENTS)
@pytest.mark.parametrize("name", TEXTS)
def test_in_and_out_again_leaves_no_trace(agent: str, name: str) -> None:
    text = TEXTS[name]
    installed = settings.install(agent, text)
    assert settings.missing(agent, installed) == []
    assert settings.install(agent, installed) == installed
    assert settings.uninstall(agent, installed) == text
    assert settings.uninstall(agent, text) == text


@pytest.mark.parametrize("agent", JSON_AGENTS)
@pytest.mark.parametrize("name", TEXTS)
def test_only_our_hooks_are_added(agent: str, name: str) -> None:
    was, now = plain(TEXTS[name]), plain(settings.install(agent, TEXTS[name]))
    of = settings.layout(agent)
    hooks = {event: list(listed) for event, listed in was.get("hooks", {}).items()}
    for event in of.events:
        hooks.setdefault(event, []).append(of.entry(event, ours(of.agent)))
    assert now == {**(was or (of.fresh if not TEXTS[name] else {})), "hooks": hooks}


def test_each_agent_gets_the_shape_that_it_reads() -> None:
    hook = {"type": "command", "command": ours("claude-code"), "timeout": 60}
    claude = json.loads(settings.install("claude-code", ""))
    assert claude["hooks"]["PreToolUse"] == [{"hooks": [hook]}]
    cursor = json.loads(settings.install("cursor", ""))
    assert cursor["version"] == 1
    assert cursor["hooks"]["preToolUse"] == [{"command": ours("cursor"), "timeout": 60}]
    gemini = json.loads(settings.install("gemini", ""))
    assert gemini["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"] == 60_000  # milliseconds
    codex = json.loads(settings.install("codex", ""))
    assert "PostToolUseFailure" not in codex["hooks"]  # it would not know that
    # It waits no longer than that for this one, and complains in each session if it is told to.
    assert codex["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] == 3
    assert codex["hooks"]["PreToolUse"][0]["hooks"][0]["timeout"] == 60


def test_our_hooks_go_even_if_others_came_or_the_text_was_written_anew() -> None:
    installed = settings.install("claude-code", FOREIGN)
    value = json.loads(installed)
    value["hooks"]["PreToolUse"].append({"hooks": [{"type": "command", "command": "later"}]})
    value["hooks"]["SessionStart"].reverse()  # ours is the first now
    value["hooks"]["Stop"][0]["hooks"].insert(0, {"type": "command", "command": "beside ours"})
    out = settings.uninstall("claude-code", json.dumps(value))
    assert "takeback" not in out
    commands = re.findall(r'"command": "([^"]*)"', out)
    assert commands == ["sh -c 'exit 0'", "later", "node .claude/helpers/hook.cjs session", "beside ours"]
    only = json.dumps(json.loads(settings.install("claude-code", "")))
    assert json.loads(settings.uninstall("claude-code", only)) == {}


def test_a_hook_with_another_path_is_replaced_and_known() -> None:
    old = settings.install("claude-code", FOREIGN, "'/opt/old env/bin/takeback-hook' claude-code")
    assert settings.missing("claude-code", old) == []
    new = settings.install("claude-code", old)
    assert "/opt/old" not in new
    assert plain(new) == plain(settings.install("claude-code", FOREIGN))
    assert settings.uninstall("claude-code", old) == FOREIGN


def test_commands_that_only_look_like_ours_stay() -> None:
    text = json.dumps(
        {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "my-takeback-hook codex"}]}]}}
    )
    assert settings.uninstall("codex", text) == text
    assert settings.uninstall("claude-code", settings.install("claude-code", text)) == text


@pytest.mark.parametrize(
    "text, why",
    [
        ("{", "not valid JSON at line 1"),
        ('{\n "a": tru}', "not valid JSON at line 2"),
        ("[]", "not a JSON object"),
        ('{"hooks": 3}', "not an object"),
        ('{"hooks": {"Stop": {}}}', "not a list"),
        ('{"a": 1 "b": 2}', "not valid JSON"),
        ('{"a": "\\x"}', "not valid JSON"),
        ("[" * 300, "nested too deeply"),
    ],
)
def test_settings_that_cannot_be_read_are_left_alone(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        settings.install("claude-code", text)


def test_a_plugin_is_a_whole_file() -> None:
    plugin = settings.install("opencode", "")
    assert 'const COMMAND = ["takeback-hook", "opencode"]' in plugin
    assert settings.missing("opencode", plugin) == []
    assert settings.uninstall("opencode", plugin) == ""
    assert settings.uninstall("opencode", "// mine\n") == "// mine\n"


# --- Any text ---

BLANKS = st.sampled_from(["", "", " ", "\n", "\n  ", "\n\t", " /* why */ ", "// so\n", "\r\n    "])
NAMES = st.sampled_from(["hooks", "PreToolUse", "Stop", "SessionStart", "a", "", "é\n"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\{},[/*é\n', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.lists(st.just({"hooks": [{"type": "command", "command": "foreign"}]}) | VALUES, max_size=3)
HOOKS = st.dictionaries(st.sampled_from(["PreToolUse", "Stop", "SessionStart", "Other"]), ENTRIES, max_size=3)
OTHERS = st.dictionaries(NAMES.filter(lambda name: name != "hooks"), VALUES, max_size=3)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A document, written in an odd way."""

    def written(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        if isinstance(value, dict):
            parts = [f"{json.dumps(k)}{draw(BLANKS)}:{draw(BLANKS)}{written(v)}" for k, v in value.items()]
        else:
            parts = [written(part) for part in value]
        inside = ",".join(f"{draw(BLANKS)}{part}{draw(BLANKS)}" for part in parts)
        inside += "," * draw(st.integers(0, 1)) if parts else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return opening + inside + draw(BLANKS) + closing

    value = draw(OTHERS) | draw(st.just({}) | st.fixed_dictionaries({"hooks": HOOKS}))
    if draw(st.booleans()):
        return json.dumps(value, indent=draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))) + draw(BLANKS)
    return draw(BLANKS) + written(value) + draw(BLANKS)


@pytest.mark.timeout(600)
@given(text=texts(), agent=st.sampled_from(JSON_AGENTS))
def test_any_text_comes_back(text: str, agent: str) -> None:
    was = plain(text)
    installed = settings.install(agent, text)
    now = plain(installed)
    assert settings.missing(agent, installed) == []
    assert settings.install(agent, installed) == installed
    assert {k: v for k, v in now.items() if k != "hooks"} == {k: v for k, v in was.items() if k != "hooks"}
    assert settings.uninstall(agent, installed) == text


# --- On the disk ---


def test_the_command_that_every_hook_runs_is_shown_to_a_human_once(tmp_path: Path) -> None:
    edit = apply.installing("claude-code", tmp_path / "settings.local.json")
    shown = list(without_repeats(edit.diff.splitlines()))
    (whole,) = [line for line in shown if "takeback-hook claude-code" in line or "knock.py" in line]
    assert "SessionStart" in whole
    assert '+    "PostToolUse … as above' in shown and '+    "PostToolUseFailure … as above' in shown


def test_a_file_is_changed_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = apply.place("claude-code", project=tmp_path, home=tmp_path / "home", user=False)
    path.parent.mkdir()
    path.write_bytes(FOREIGN.encode())
    path.chmod(0o640)
    edit = apply.installing("claude-code", path)
    assert path.read_text() == FOREIGN  # nothing is written yet, only shown
    assert "+" in edit.diff and "takeback-hook claude-code" in edit.diff
    edit.make()
    assert settings.missing("claude-code", path.read_text()) == []
    assert apply.installing("claude-code", path).diff == ""
    apply.uninstalling("claude-code", path).make()
    assert path.read_bytes() == FOREIGN.encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("agent", settings.LAYOUTS)
@pytest.mark.parametrize("user", [False, True])
def test_what_was_not_there_is_gone_afterwards(agent: str, user: bool, tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    (home / ".config").mkdir(parents=True)
    (home / ".config/other").touch()
    path = apply.place(agent, project=project, home=home, user=user)
    apply.installing(agent, path).make()
    assert path.is_relative_to(home if user else project)
    apply.uninstalling(agent, path).make()
    apply.uninstalling(agent, path).make()
    assert [
        entry for entry in tmp_path.rglob("*") if entry.name not in ("project", "home", ".config", "other")
    ] == []


@pytest.mark.parametrize("agent", settings.LAYOUTS)
def test_a_file_that_was_empty_is_empty_again(agent: str, tmp_path: Path) -> None:
    path = apply.place(agent, project=tmp_path, home=tmp_path, user=False)
    path.parent.mkdir(parents=True)
    path.touch()
    apply.installing(agent, path).make()
    assert settings.missing(agent, path.read_text()) == []
    assert apply.installing(agent, path).diff == ""
    apply.uninstalling(agent, path).make()
    assert path.read_bytes() == b""


def test_a_change_that_is_none_writes_nothing(tmp_path: Path) -> None:
    path = apply.place("codex", project=tmp_path, home=tmp_path, user=False)
    apply.installing("codex", path).make()
    was = path.stat()
    apply.installing("codex", path).make()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (was.st_ino, was.st_mtime_ns)


def test_lines_without_an_end_are_shown_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    path.write_text("{}")
    lines = apply.installing("codex", path).diff.splitlines()
    assert lines[3] == "-{}" and lines[4].startswith("+{")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/settings.json").write_text(FOREIGN)
    (tmp_path / ".claude").symlink_to("dotfiles")
    path = apply.place("claude-code", project=tmp_path, home=tmp_path, user=True)
    apply.installing("claude-code", path).make()
    assert (tmp_path / ".claude").is_symlink()
    assert settings.missing("claude-code", (tmp_path / "dotfiles/settings.json").read_text()) == []


def test_who_was_faster_is_not_overwritten(tmp_path: Path) -> None:
    path = apply.place("codex", project=tmp_path, home=tmp_path, user=False)
    edit = apply.installing("codex", path)
    path.parent.mkdir()
    path.write_text("{}")
    with pytest.raises(ConflictError, match="changed meanwhile"):
        edit.make()
    assert path.read_text() == "{}"
