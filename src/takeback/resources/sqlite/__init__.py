"""SQLite databases: captured and put back through SQLite itself, whoever writes to them meanwhile."""
