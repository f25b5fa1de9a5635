"""The only readers of the environment and of takeback.toml."""

FILE = "takeback.toml"
"""The settings file of a workspace; named here so that code that only looks for it need not load its reader."""
