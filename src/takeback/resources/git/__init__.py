"""The workspace's own repository: refs, HEAD, index, stash, reflogs, operations in progress, hooks, settings."""
