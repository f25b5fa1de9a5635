"""The files of a workspace: found, kept and put back."""
