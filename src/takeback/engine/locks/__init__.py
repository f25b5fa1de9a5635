"""Locks: what one run works on, kept from the others."""
