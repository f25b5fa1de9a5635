"""Databases in which an agent framework keeps its own state: recognised by their tables, and left out by default.

A framework writes to its store whenever it likes, mostly while some tool runs. If the store were taken back with that
tool, the conversation would change under the framework.

A wrong guess would cost a user the protection of their own data. So a store counts only if it consists of exactly the
tables of a framework, each with exactly its columns, and holds no view or trigger; at least two tables. Stores of
memories are not here: what an agent learns is a part of what it did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from takeback.core.change import Version
from takeback.core.event_base import LEFT_OUT

Tables = Mapping[str, Sequence[str]]
"""The names of all tables with the names of their columns. A view or trigger counts as a table without columns."""

_PREFIX = "left-out:"

_CHECKPOINTS = "thread_id checkpoint_ns checkpoint_id parent_checkpoint_id type checkpoint metadata"
_WRITES = "thread_id checkpoint_ns checkpoint_id task_id idx channel type value"
_SESSIONS = {
    "agent_sessions": "session_id created_at updated_at",
    "agent_messages": "id session_id message_data created_at",
}
_BRANCHES = {
    "message_structure": "id session_id message_id branch_id message_type sequence_number user_turn_number"
    " branch_turn_number tool_name created_at",
    "turn_usage": "id session_id branch_id user_turn_number requests input_tokens output_tokens total_tokens"
    " input_tokens_details output_tokens_details created_at",
    "branch_reservations": "session_id branch_id",
    "session_clear_generations": "session_id generation",
}
_ADK = {
    "app_states": "app_name state update_time",
    "user_states": "app_name user_id state update_time",
    "sessions": "app_name user_id id state create_time update_time",
    "events": "id app_name user_id session_id invocation_id timestamp event_data",
}

# Read from: langgraph-checkpoint-sqlite 3.1.2, which adds task_path to stores of older versions;
# openai-agents 0.24.0; google-adk 2.13.0; crewai 1.15.30.
_STORES: Sequence[tuple[str, Mapping[str, str]]] = (
    ("checkpoints of LangGraph", {"checkpoints": _CHECKPOINTS, "writes": f"{_WRITES} task_path"}),
    ("checkpoints of LangGraph", {"checkpoints": _CHECKPOINTS, "writes": _WRITES}),
    ("sessions of OpenAI Agents", _SESSIONS),
    ("sessions of OpenAI Agents", _SESSIONS | _BRANCHES),
    ("sessions of Google ADK", _ADK),
    ("sessions of Google ADK", _ADK | {"adk_internal_metadata": "key value"}),
    (
        "flow states of CrewAI",
        {
            "flow_states": "id flow_uuid method_name timestamp state_json",
            "pending_feedback": "id flow_uuid context_json state_json created_at",
        },
    ),
)


def content_of(tables: Tables) -> str:
    """Return what a framework keeps in a database with these tables, as text; empty if it is not a known store."""
    found = {name: frozenset(columns) for name, columns in tables.items() if not name.startswith("sqlite_")}
    for content, wanted in _STORES:
        if found == {name: frozenset(columns.split()) for name, columns in wanted.items()}:
            return content
    return ""


def left_out(content: str) -> Version:
    """Return the version of a store that is not captured. It is the same whatever is in the store."""
    return Version(f"{_PREFIX}{content}")


def said_of(name: str, version: Version) -> str:
    """Return how a mark says that a store is left out."""
    return f"{LEFT_OUT}{name}, {version.id.removeprefix(_PREFIX)}"


def is_left_out(version: Version) -> bool:
    return version.id.startswith(_PREFIX)
