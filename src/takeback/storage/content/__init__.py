"""Content: what was in every file, by its digest."""
