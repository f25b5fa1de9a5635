"""Old names that were documented, kept as aliases: what a command would do is in `takeback.shell`."""
