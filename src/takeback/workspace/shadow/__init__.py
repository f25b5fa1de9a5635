"""Shadows of runs: tried in a view, reviewed, promoted; rehearsals of failures; and drafts of what was taken back."""
