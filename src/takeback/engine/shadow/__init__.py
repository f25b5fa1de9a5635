"""Shadows and rehearsals: runs in a view whose calls to other systems are not made."""
