"""Putting a repository back under git's own locks."""
