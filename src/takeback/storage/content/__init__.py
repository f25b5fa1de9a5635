"""The content of every file, by its digest."""
