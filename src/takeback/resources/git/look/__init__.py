"""Looking at a repository: what each of its files contains now."""
