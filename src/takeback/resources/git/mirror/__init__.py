"""A second copy of every git object, so that nothing that was pruned is lost."""
