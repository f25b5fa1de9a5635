"""Use cases about the past: moments, the life of a file, and which action broke something."""
