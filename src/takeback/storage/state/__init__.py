"""The state folder of a workspace: its registration, its lock, and small files beside the journal."""
