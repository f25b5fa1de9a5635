"""Old documented names, kept as aliases: the judge of commands is in `takeback.shell`."""
