"""Coding agents under protection: what they tell through their hooks, and what they are answered."""
