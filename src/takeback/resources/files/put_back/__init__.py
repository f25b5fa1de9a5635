"""Putting paths back so that no one's work is lost."""
