"""Calls to other systems: what was done there, and the functions that take it back."""
