"""Where Takeback keeps what it must not lose: journals in memory and in SQLite, behind the ports."""
