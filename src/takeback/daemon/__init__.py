"""The process that keeps workspaces open, so that an event of a coding agent costs only what changed."""
