"""Restart-safe workflows: a file is all that a piece of work needs to survive a restart."""
