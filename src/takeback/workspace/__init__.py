"""A directory under protection: found, opened, put together from its parts, and everything done to it."""
