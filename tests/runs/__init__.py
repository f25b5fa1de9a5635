"""Runs, steps and calls, with a real service: what is taken back is gone, and nothing happens twice."""
