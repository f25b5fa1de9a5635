"""Conversations in the PostgreSQL database that has the journal."""
