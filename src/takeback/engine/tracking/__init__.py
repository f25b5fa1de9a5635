"""Tracking: what an action changed, found by looking before and after, and settled after a crash."""
