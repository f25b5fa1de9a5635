"""SQLite databases: captured and put back through SQLite itself, even while other programs write to them."""
