"""Views: private pictures of the workspace, in which a command works until a human accepts or drops what it did."""
