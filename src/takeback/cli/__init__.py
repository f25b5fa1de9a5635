"""The command line."""

from takeback.cli.app import app, main

__all__ = ["app", "main"]
