"""History described for people: differences, replays, events as sentences."""
