"""The place of a workspace's history and content, and moving both to another place."""
