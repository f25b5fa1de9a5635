"""Rollback: taking back, redoing and restoring, each verified against the world."""
