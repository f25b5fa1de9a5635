"""What Takeback must not lose: journals, content and the state of workspaces, behind the ports."""
