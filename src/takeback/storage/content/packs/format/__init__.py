"""The bytes of packs, their indexes and their catalog."""
