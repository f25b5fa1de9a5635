"""The file formats of packs, their indexes and their catalog."""
