"""Programs in plain text that a command runs, judged by what their source says."""
