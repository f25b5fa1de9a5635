"""Coding agents under protection: the events of their hooks, and the answers to them."""
