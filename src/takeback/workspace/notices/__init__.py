"""What waits for a human, and telling them: once for each thing, with the reason and the command that answers it."""
