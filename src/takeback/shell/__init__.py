"""What a command would do, known before it runs: read from its words alone, and never by running anything."""
