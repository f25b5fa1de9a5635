"""The files of a workspace: found, captured and put back."""
