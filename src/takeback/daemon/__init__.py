"""A process that keeps workspaces warm, so that an event of a coding agent costs only what changed."""
