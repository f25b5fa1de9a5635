"""The journal that lives as long as its process."""
