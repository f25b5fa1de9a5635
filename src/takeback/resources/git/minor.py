"""The targets of a repository that say nothing to a person."""

from __future__ import annotations

MINOR = (
    r"(^|/)(logs/.*|ORIG_HEAD|FETCH_HEAD|AUTO_MERGE|COMMIT_EDITMSG|MERGE_MSG|MERGE_MODE|MERGE_AUTOSTASH|SQUASH_MSG"
    r"|TAG_EDITMSG|MERGE_RR|rr-cache/.*|REBASE_HEAD|BISECT_(?!START$).*|gc\.log|info/refs|sharedindex\..*"
    r"|worktrees/[^/]+/(?!gitdir$).*|modules/.*/(config|description|info/.*|hooks/.*))$"
)
"""Targets that are put back without mention: they follow from others."""
