"""A second copy of every git object, so that pruned objects are not lost."""
