"""The version, written here only; the package's metadata reads it from this line."""

__version__ = "0.1.0"
