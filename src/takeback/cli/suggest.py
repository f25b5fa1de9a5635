"""What a person may have meant, if a word or an id does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from takeback.errors import TakebackError, UsageError

if TYPE_CHECKING:
    from takeback.core.history import History

_NO_SUCH_ID = re.compile(r"there is no [a-z ]+ ([rsacpi][1-9][0-9]*)(?![\w])|'#?([0-9]+)' is not an id")


def word_meant(word: str, words: Iterable[str]) -> str:
    """Return which of these words a person may have meant, as the end of a sentence; or ""."""
    every = list(words)
    found = (
        get_close_matches(word, every, n=3, cutoff=0.6) or [one for one in every if one.startswith(word)][:3]
    )
    return f"; did you mean {' or '.join(found)}?" if found else ""


def with_id_meant(error: UsageError) -> None:
    """Add to an error about an unknown id which id has that number: each number stands for one thing."""
    found = _NO_SUCH_ID.search(error.message)
    if found is None or "did you mean" in error.hint:
        return
    number = (found[1] or "")[1:] or found[2]
    if meant := _with_number(int(number), found[1] or ""):
        error.hint = "; ".join(filter(None, (f"did you mean {meant}?", error.hint)))


def _with_number(number: int, wrong: str) -> str:
    from takeback.core import ids
    from takeback.workspace.opening import find_workspace

    try:
        workspace = find_workspace(".")
        if workspace is None or not number:
            return ""
        with workspace:
            history = workspace.history
            for letter in (ids.ACTION, ids.RUN, ids.CHECKPOINT, ids.APPROVAL, ids.INTENT):
                id = ids.make(letter, number)
                if id != wrong and _exists(history, id):
                    return id
            step = ids.make(ids.STEP, number)
            return step if step != wrong and history.run_of_step(step) else ""
    except TakebackError:
        return ""  # the error that this is about says more


def _exists(history: History, id: str) -> bool:
    found = history.actions.get(id) or history.runs.get(id) or history.checkpoints.get(id)
    return bool(found or history.approvals.get(id) or history.intents.every.get(id))
