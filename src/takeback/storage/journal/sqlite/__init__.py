"""The journal in one SQLite file: statements, sessions and errors."""
