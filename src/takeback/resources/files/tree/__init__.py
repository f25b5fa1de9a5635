"""The tree of a workspace as a value: entries, edits, stored forms."""
