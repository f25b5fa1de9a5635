"""The only readers of the environment and of takeback.toml."""

FILE = "takeback.toml"
"""The settings of a workspace; named here so that whoever looks for the file does not load what reads it."""
