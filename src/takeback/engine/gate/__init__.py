"""The gate: what an action would do, and whether it may."""
