"""Looking at the tree: which paths changed, and reading them."""
