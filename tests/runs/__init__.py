"""Runs, steps and calls, against a real service on loopback: what is taken back is gone, and nothing happens twice."""
