"""Values as text on a terminal: each function takes values and returns lines."""
