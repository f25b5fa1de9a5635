"""Paths outside the workspace that an action names."""
