"""Whether what a settings file says was seen by a human."""

from __future__ import annotations

from takeback.core.change import Entry, Target
from takeback.core.history import History


def untrusted_since(history: History, target: Target, *, beside: bool = False) -> Entry | None:
    """Return the first of the latest changes by actions that no human has overwritten or accepted since.

    With `beside`, a change outside any action counts too if an agent's session was open: something that the agent
    left running may have made it.
    """
    untrusted = None
    for entry in history.latest_entries(target):
        # An acceptance from before the write does not count.
        if untrusted is None and history.is_accepted(target.name, entry.change.after.id, entry.seq):
            return None
        action = history.actions[entry.action]
        is_agents = action.is_tool and not action.is_own
        doubted = is_agents or (beside and action.beside)
        if not doubted or history.taken_back(entry.action, target, entry.seq):
            break
        untrusted = entry
    return untrusted
