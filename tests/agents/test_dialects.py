"""Each dialect reads what its client really tells, and answers in words that this client understands."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from takeback.agents.dialects import AGENTS, dialect
from takeback.agents.event import SILENT, Event, HookAnswer, HookDecision, Kind, Permission
from takeback.errors import UsageError

from . import recording

K = Kind
RECORDS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "cursor": "cursor",
    "gemini": "gemini",
    "opencode": "opencode",
}
PROJECT = "/home/you/project"


def events(agent: str) -> list[Event]:
    entries = recording.recorded(RECORDS[agent])
    return [dialect(agent).read(json.dumps(entry["stdin"]).encode(), entry["env"]) for entry in entries]


def an_event(agent: str, kind: Kind) -> Event:
    return next(event for event in events(agent) if event.kind is kind)


def decoded(answer: HookAnswer) -> Any:
    assert answer.code == 0
    assert answer.stdout.count(b"\n") == 1
    return json.loads(answer.stdout)


# --- Reading ---


@pytest.mark.parametrize("agent", RECORDS)
def test_everything_recorded_is_understood(agent: str) -> None:
    found = events(agent)
    assert {K.SESSION, K.PROMPT, K.BEGIN, K.END, K.STOP} <= {event.kind for event in found}
    for event in found:
        assert event.kind is not K.UNREADABLE, event
        if event.kind is K.IGNORED:
            continue
        assert event.session
        assert event.root == PROJECT
        if event.kind in (K.BEGIN, K.END, K.FAILED):
            assert event.call
            assert event.tool


@pytest.mark.parametrize("agent", RECORDS)
def test_an_end_names_the_call_that_began(agent: str) -> None:
    begun: Counter[tuple[str, str]] = Counter()
    for event in events(agent):
        if event.kind is K.BEGIN:
            begun[event.session, event.call] += 1
        elif event.kind in (K.END, K.FAILED):
            begun[event.session, event.call] -= 1
            assert begun[event.session, event.call] >= 0, event
    left = [call for call, number in begun.items() if number]
    assert left or agent == "cursor", "in each story a call is refused, and so never ends"


@pytest.mark.parametrize("agent", RECORDS)
def test_commands_and_paths_are_found(agent: str) -> None:
    began = [event for event in events(agent) if event.kind is K.BEGIN]
    assert "rm old.txt" in {event.command for event in began}
    named = {path for event in began for path in event.paths}
    assert f"{PROJECT}/notes.md" in named
    assert all(not event.paths for event in began if event.command)
    if agent == "codex":
        assert {f"{PROJECT}/app.py", f"{PROJECT}/moved.py"} <= named


def test_the_project_of_claude_code_stays_when_its_shell_goes_elsewhere() -> None:
    assert {(e.cwd, e.root) for e in events("claude-code") if e.command.startswith("echo")} >= {
        (f"{PROJECT}/data", PROJECT)
    }


def test_a_notice_of_claude_code_is_no_prompt() -> None:
    kinds = [
        (event.kind, event.text[:19]) for event in events("claude-code") if event.name == "UserPromptSubmit"
    ]
    assert [kind for kind, _ in kinds].count(K.NOTICE) == 1
    assert (K.NOTICE, "<task-notification>") in kinds


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_subagents_are_told_apart(agent: str) -> None:
    found = events(agent)
    (began,) = [event for event in found if event.kind is K.AGENT_BEGIN]
    (ended,) = [event for event in found if event.kind is K.AGENT_END]
    assert began.actor and began.actor == ended.actor
    assert {e.command for e in found if e.kind is K.BEGIN and e.actor == began.actor} == {
        "",
        "rm data/table.csv",
    }
    assert {e.actor for e in found if e.command == "echo main > main.txt"} == {""}


def test_a_subagent_of_opencode_is_a_session_with_a_parent() -> None:
    found = events("opencode")
    (below,) = [event for event in found if event.kind is K.SESSION and event.parent]
    assert {event.command for event in found if event.session == below.session} >= {"rm data/table.csv"}
    assert below.parent in {event.session for event in found if not event.parent}


def test_failures_are_failures_where_the_client_says_so() -> None:
    failed = {agent: [e.error for e in events(agent) if e.kind is K.FAILED] for agent in RECORDS}
    assert failed == {
        "claude-code": ["Exit code 3"],
        "codex": [],  # it tells no exit code
        "cursor": ["Command failed"],
        "gemini": [],
        "opencode": ["Exit code 3"],
    }


def test_the_id_of_a_call_of_cursor_has_no_line_break_at_its_end() -> None:
    assert {event.call for event in events("cursor") if event.call} == {"tool_1\nfc_1", "tool_2", "tool_3"}


def test_calls_of_gemini_that_are_alike_have_one_id() -> None:
    calls = [(event.call, event.command) for event in events("gemini") if event.kind is K.BEGIN]
    assert len({call for call, _ in calls}) == len(calls)
    assert all(event.call_is_alike for event in events("gemini") if event.call)


def test_an_unknown_agent_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="not an agent that Takeback supports"):
        dialect("clippy")


# --- Answering ---

DENIED = HookDecision(do=Permission.DENY, reason="it leaves the project")
ASKED = HookDecision(do=Permission.ASK, reason="it leaves the project", how="takeback approve q1")
TOLD = HookDecision(context="notes.md was taken back")
WARNED = HookDecision(warning="the disk is full: nothing is protected")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("kind", [K.SESSION, K.PROMPT, K.BEGIN, K.END, K.STOP])
def test_nothing_to_say_is_silence(agent: str, kind: Kind) -> None:
    # Even "allow" would be too much: it would skip the client's own question to its human.
    assert dialect(agent).answer(Event(kind=kind), HookDecision()) == SILENT


def test_refusals_in_each_dialect() -> None:
    def refused(agent: str) -> Any:
        return decoded(dialect(agent).answer(an_event(agent, K.BEGIN), DENIED))

    assert (
        refused("claude-code")
        == refused("codex")
        == {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "it leaves the project",
            }
        }
    )
    assert refused("gemini") == {"decision": "deny", "reason": "it leaves the project"}
    assert refused("cursor") == {
        "permission": "deny",
        "user_message": "it leaves the project",
        "agent_message": "it leaves the project",
    }
    plugin = dialect("opencode").answer(an_event("opencode", K.BEGIN), DENIED)
    assert plugin == HookAnswer(b'{"refused": "it leaves the project"}\n', b"it leaves the project\n", 2)


def test_who_cannot_ask_refuses_and_says_how() -> None:
    def asked(agent: str, kind: Kind = K.BEGIN) -> Any:
        return decoded(dialect(agent).answer(an_event(agent, kind), ASKED))

    assert asked("claude-code")["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert asked("cursor", K.GATE)["permission"] == "ask"
    for refusal in (asked("codex")["hookSpecificOutput"], asked("cursor"), asked("gemini")):
        assert "deny" in refusal.values()
        assert any("takeback approve q1" in str(text) for text in refusal.values())
    plugin = dialect("opencode").answer(an_event("opencode", K.BEGIN), ASKED)
    assert (plugin.code, plugin.stderr) == (2, b"it leaves the project takeback approve q1\n")


@pytest.mark.parametrize("agent", RECORDS)
def test_context_is_given_exactly_where_it_is_heard(agent: str) -> None:
    speech, heard = dialect(agent), 0
    for event in events(agent):
        said = speech.answer(event, TOLD).stdout
        assert (b"notes.md was taken back" in said) == speech.can_tell(event), event
        heard += speech.can_tell(event)
    assert heard


CODEX_FIELDS = {
    "": {"decision", "reason", "systemMessage", "hookSpecificOutput"},
    "hookSpecificOutput": {
        "hookEventName",
        "permissionDecision",
        "permissionDecisionReason",
        "additionalContext",
    },
}


@pytest.mark.parametrize(
    "decision",
    [DENIED, ASKED, TOLD, WARNED, HookDecision(do=Permission.DENY), HookDecision(do=Permission.ASK)],
)
def test_codex_gets_no_field_that_it_does_not_know(decision: HookDecision) -> None:
    for event in events("codex"):
        answer = dialect("codex").answer(event, decision)
        if not answer.stdout:
            continue
        said = decoded(answer)
        own = said.get("hookSpecificOutput", {})
        assert set(said) <= CODEX_FIELDS[""]
        assert set(own) <= CODEX_FIELDS["hookSpecificOutput"]
        assert own.get("permissionDecision", "deny") == "deny"
        assert own.get("permissionDecisionReason", "-").strip()


# --- Whatever comes ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
NAMES = [
    "hook_event_name",
    "event",
    "session_id",
    "tool_name",
    "tool_input",
    "tool_use_id",
    "cwd",
    "prompt",
    "tool_response",
    "agent_id",
    "sessionID",
    "callID",
    "tool",
    "args",
    "directory",
    "conversation_id",
    "workspace_roots",
    "exit",
]
EVENT_NAMES = st.sampled_from(
    [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "BeforeTool",
        "AfterTool",
        "preToolUse",
        "beforeShellExecution",
        "tool.execute.before",
        "tool.execute.after",
        "chat.message",
        "Unheard",
    ]
)
ODD = st.fixed_dictionaries(
    {}, optional={name: (EVENT_NAMES | JSON if "event" in name else JSON) for name in NAMES}
)
DATA = (
    st.binary(max_size=40)
    | JSON.map(lambda v: json.dumps(v).encode())
    | ODD.map(lambda v: json.dumps(v).encode())
)


@pytest.mark.parametrize("agent", RECORDS)
@given(data=DATA, decision=st.sampled_from([DENIED, ASKED, TOLD, WARNED]))
@example(data=b"", decision=WARNED)
@example(data=b"[" * 100_000, decision=WARNED)
@example(data=b'{"hook_event_name": "PreToolUse", "event": "tool.execute.before"}', decision=WARNED)
@example(data=b'{"hook_event_name": "\\ud800", "event": "\\ud800"}', decision=WARNED)
def test_whatever_comes_there_is_an_event_and_an_answer(
    agent: str, data: bytes, decision: HookDecision
) -> None:
    speech = dialect(agent)
    event = speech.read(data, {})
    answer = speech.answer(event, decision)
    if answer.stdout:
        decoded(answer)
    if event.kind is K.UNREADABLE:
        assert event.why
    if event.kind is K.UNREADABLE and decision == WARNED:
        assert b"nothing is protected" in answer.stdout + answer.stderr, "the agent's human has to know"
    if event.kind in (K.BEGIN, K.END):
        assert event.session and event.call and event.tool


def test_an_event_that_nobody_knows_is_ignored() -> None:
    for agent in RECORDS:
        given = json.dumps({"hook_event_name": "Unheard", "event": "unheard.of", "session_id": "s"}).encode()
        assert dialect(agent).read(given, {}).kind is K.IGNORED
