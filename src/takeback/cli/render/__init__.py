"""How values read on a terminal: each function takes values and returns lines."""
