"""Conversations in a SQLite file in the state folder."""
