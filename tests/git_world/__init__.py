"""Git, as a person would look at it: a repository before an agent, after it, and after everything was taken back."""
