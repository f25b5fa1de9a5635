"""Putting paths back so that nobody's work is lost."""
