"""Pictures of the terminal, made by the program itself on a small day with two agents and a human."""
