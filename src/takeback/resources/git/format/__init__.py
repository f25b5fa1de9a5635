"""The files of a repository: refs, index, packs, locks, and how git reads them."""
