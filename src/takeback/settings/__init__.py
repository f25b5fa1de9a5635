"""The only readers of the environment and of takeback.toml."""
