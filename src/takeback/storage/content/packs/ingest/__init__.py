"""Reading files of the workspace into packs."""
