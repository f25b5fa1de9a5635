"""The past of a workspace: moments, the life of a file, and the workspace as it was."""
