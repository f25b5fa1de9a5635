"""Where the history and the content of a workspace are kept, and moving both to another place."""
